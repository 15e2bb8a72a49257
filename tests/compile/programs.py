"""Random programs for property tests: straight-line functions of tensors, drawn op by op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import jtorch
from jtorch.eager.tensor import Tensor, leaf, wrap

UNARY = {
    "neg": lambda x: -x,
    "tanh": jtorch.tanh,
    "exp": lambda x: jtorch.exp(jtorch.tanh(x)),
    "relu": jtorch.relu,
    "sqrt": lambda x: jtorch.sqrt(x * x + 0.5),
    "scale": lambda x: x * 0.5 + 1.0,
    "abs": lambda x: x.abs(),
    "softmax": lambda x: jtorch.softmax(x, -1) if x.ndim and x.shape[-1] else x,
    "double": lambda x: (x.double() * 2.0).float(),
    "floor": lambda x: jtorch.floor(x * 3.0),
    "dead": lambda x: jtorch.where(x > 0.0, x, x * 0.1),
}
BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y * 0.5,
    "max": jtorch.maximum,
    "where": lambda x, y: jtorch.where(x > y, x, y * 2.0),
}
REDUCTIONS = {
    "sum": lambda x, a, k: x.sum(a, k) * 0.1,
    "mean": lambda x, a, k: x.mean(a, k),
    "amax": lambda x, a, k: x.amax(a, k),
    "var": lambda x, a, k: x.var(a, keepdim=k, correction=0),
    "argmax": lambda x, a, k: x.argmax(a if isinstance(a, int) else a[0], k).float(),
    "any": lambda x, a, k: (x > 0.0).any(a if isinstance(a, int) else a[0], k).float(),
}


@dataclass(frozen=True)
class Instruction:
    """``values.append(function(*(values[k] for k in inputs)))``, and how it prints."""

    text: str
    function: Callable[..., Any]
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """Inputs by shape, instructions, and which values are returned."""

    shapes: tuple[tuple[int, ...], ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]
    writes: tuple[tuple[int, int], ...] = ()  # (input, value copied into it at the end)

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        values = list(tensors)
        for i in self.instructions:
            values.append(i.function(*(values[k] for k in i.inputs)))
        outs = [values[k] for k in self.outputs]
        for to, of in self.writes:
            values[to].copy_(values[of])
        return [o.clone() for o in outs]

    def gradients(self, *tensors: Tensor) -> list[Tensor]:
        """A loss over the outputs; its ``backward()`` sets the gradients of the inputs."""
        outs = self(*tensors)
        live = [o for o in outs if o.requires_grad and o.numel()]
        if not live:
            return [o.detach().clone() for o in outs]
        loss = sum((jtorch.tanh(o).mean() for o in live[1:]), jtorch.tanh(live[0]).mean())
        loss.backward()
        return [loss.detach().clone()]

    def leaves(self, seed: int = 0, requires_grad: bool = False) -> list[Tensor]:
        rng = np.random.default_rng(seed)
        return [leaf(np.asarray(rng.normal(size=s), np.float32), requires_grad) for s in self.shapes]

    def __repr__(self) -> str:
        lines = [f"v{k}: {s}" for k, s in enumerate(self.shapes)]
        for n, i in enumerate(self.instructions, len(self.shapes)):
            lines.append(f"v{n} = {i.text}({', '.join(f'v{k}' for k in i.inputs)})")
        lines += [f"v{a}.copy_(v{b})" for a, b in self.writes]
        return "\n".join([*lines, f"return {self.outputs}"])


SHAPES = ((3, 4), (3, 4), (4,), (3, 1), (1, 4), (), (2, 3, 4), (4, 3), (3, 3), (1, 1), (1,), (0, 4))


@st.composite
def programs(draw: Any, max_size: int = 14, in_place: bool = False) -> Program:
    """A program of up to ``max_size`` instructions over a few small arrays."""
    shapes = tuple(draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4)))
    values = [wrap(np.ones(s, np.float32)) for s in shapes]
    instructions: list[Instruction] = []
    for _ in range(draw(st.integers(1, max_size))):
        found = draw(_instruction([tuple(v.shape) for v in values]))
        if found is None:
            continue
        made = found.function(*(values[k] for k in found.inputs))
        if made.numel() > 600 or made.ndim > 5:
            continue
        instructions.append(found)
        values.append(made)
    n = len(values)
    outputs = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
    writes: list[tuple[int, int]] = []
    if in_place:
        for to in range(len(shapes)):
            fit = [k for k in range(n) if tuple(values[k].shape) == shapes[to] and k != to]
            if fit and draw(st.booleans()):
                writes.append((to, draw(st.sampled_from(fit))))
    return Program(shapes, tuple(instructions), (*outputs, n - 1), tuple(writes))


@st.composite
def _instruction(draw: Any, shapes: list[tuple[int, ...]]) -> Instruction | None:
    kind = draw(
        st.sampled_from(("unary", "binary", "binary", "reduction", "view", "view", "product", "gather"))
    )
    x = draw(st.integers(0, len(shapes) - 1))
    return {
        "unary": _unary, "binary": _binary, "reduction": _reduction, "view": _view, "product": _product,
        "gather": _gather,
    }[kind](draw, shapes, x)  # fmt: skip


def _unary(draw: Any, shapes: list, x: int) -> Instruction:
    name = draw(st.sampled_from(sorted(UNARY)))
    return Instruction(name, UNARY[name], (x,))


def _binary(draw: Any, shapes: list, x: int) -> Instruction | None:
    fit = [k for k, s in enumerate(shapes) if _broadcasts(s, shapes[x])]
    name = draw(st.sampled_from(sorted(BINARY)))
    return Instruction(name, BINARY[name], (x, draw(st.sampled_from(fit))))


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def _reduction(draw: Any, shapes: list, x: int) -> Instruction | None:
    shape = shapes[x]
    if not shape or 0 in shape:
        return None
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True))
    keep = draw(st.booleans())
    name = draw(st.sampled_from(sorted(REDUCTIONS)))
    return Instruction(f"{name}[{axes}, {keep}]", lambda t: REDUCTIONS[name](t, tuple(axes), keep), (x,))


def _view(draw: Any, shapes: list, x: int) -> Instruction | None:
    shape = shapes[x]
    n = len(shape)
    kind = draw(st.sampled_from(("permute", "reshape", "slice", "unsqueeze", "flip", "expand", "select")))
    if kind == "permute":
        axes = draw(st.permutations(range(n)))
        return Instruction(f"permute{list(axes)}", lambda t: t.permute(tuple(axes)), (x,))
    if kind == "reshape":
        return Instruction("flatten", lambda t: t.reshape(-1), (x,))
    if kind == "unsqueeze":
        axis = draw(st.integers(0, n))
        return Instruction(f"unsqueeze[{axis}]", lambda t: t.unsqueeze(axis), (x,))
    if kind == "expand":
        return Instruction("expand", lambda t: t.expand(2, *t.shape), (x,))
    if not n:
        return None
    axis = draw(st.integers(0, n - 1))
    if kind == "flip":
        return Instruction(f"flip[{axis}]", lambda t: t.flip(axis), (x,))
    if kind == "select":
        if shape[axis] == 0:
            return None
        place = draw(st.integers(0, shape[axis] - 1))
        at = (slice(None),) * axis + (place,)
        return Instruction(f"select[{axis}, {place}]", lambda t: t[at], (x,))
    start = draw(st.integers(0, max(shape[axis] - 1, 0)))
    step = draw(st.integers(1, 2))
    key = (slice(None),) * axis + (slice(start, None, step),)
    return Instruction(f"slice[{axis}, {start}, {step}]", lambda t: t[key], (x,))


def _product(draw: Any, shapes: list, x: int) -> Instruction | None:
    a = shapes[x]
    if len(a) < 2:
        return None
    fit = [k for k, s in enumerate(shapes) if len(s) == 2 and s[0] == a[-1]]
    if not fit:
        return Instruction("gram", lambda t: (t @ t.transpose(-1, -2)) * 0.1, (x,))
    return Instruction("matmul", lambda t, u: (t @ u) * 0.3, (x, draw(st.sampled_from(fit))))


def _gather(draw: Any, shapes: list, x: int) -> Instruction | None:
    a = shapes[x]
    kind = draw(st.sampled_from(("cat", "stack", "pad", "index", "put")))
    if kind == "stack":
        fit = [k for k, s in enumerate(shapes) if s == a]
        return Instruction("stack", lambda t, u: jtorch.stack((t, u)), (x, draw(st.sampled_from(fit))))
    if not a:
        return None
    if kind == "cat":
        fit = [k for k, s in enumerate(shapes) if len(s) == len(a) and s[1:] == a[1:]]
        return Instruction("cat", lambda t, u: jtorch.cat((t, u)), (x, draw(st.sampled_from(fit))))
    if kind == "pad":
        return Instruction("pad", _padded, (x,))
    if 0 in a:
        return None
    if kind == "put":
        return Instruction("put", _put, (x,))
    ids = draw(st.lists(st.integers(0, a[0] - 1), min_size=1, max_size=4))
    return Instruction(f"index{ids}", lambda t: t[jtorch.tensor(ids)], (x,))


def _padded(t: Tensor) -> Tensor:
    zeros = jtorch.zeros((1, *t.shape[1:]), dtype=t.dtype)
    return jtorch.cat((zeros, t, zeros))


def _put(t: Tensor) -> Tensor:
    out = t.clone()
    out[0] = t[-1] * 2.0
    return out
