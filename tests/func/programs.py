"""Random functions of single examples, for ``vmap`` against a loop: what a seed gives is the same each time.

Which ops a function takes follows from the seed and the shapes of its values alone, so that all runs of it
are one program.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import jtorch
from jtorch import func
from jtorch.nn import functional

ROWS, COLUMNS, BATCH = 3, 4, 3
Step = Callable[[Any, Any, Any], Any]  # (choices, a value, another one) -> a value, or None


class Choices:
    """Numbers that a seed gives, one after the other: drawn before, as a recording draws none in Python."""

    def __init__(self, numbers: list[float]) -> None:
        self._numbers = numbers
        self._next = 0

    def random(self) -> float:
        self._next += 1
        return self._numbers[self._next - 1]

    def randrange(self, first: int, end: int | None = None) -> int:
        start, stop = (0, first) if end is None else (first, end)
        return start + int(self.random() * (stop - start))

    def choice(self, among: Any) -> Any:
        return among[self.randrange(len(among))]


def _axis(r: Choices, x: Any) -> int:
    return r.randrange(x.ndim)


def _pointwise(r: Choices, x: Any, y: Any) -> Any:
    return r.choice([jtorch.tanh, jtorch.sin, jtorch.sigmoid, functional.gelu, functional.softplus])(x)


def _two(r: Choices, x: Any, y: Any) -> Any:
    if x.ndim and y.ndim and x.shape[-1] != y.shape[-1]:
        return None
    if x.ndim == y.ndim == 2 and x.shape != y.shape:
        return None
    return r.choice([lambda a, b: a * b, lambda a, b: a - 0.5 * b, jtorch.maximum, jtorch.atan2])(x, y + 0.1)


def _reduction(r: Choices, x: Any, y: Any) -> Any:
    if not x.ndim:
        return None
    name = r.choice(["sum", "mean", "amax", "logsumexp", "prod", "var", "norm"])
    keepdim = r.random() < 0.3
    dim = _axis(r, x)
    if name == "var" and x.shape[dim] < 2:
        return None
    return getattr(x, name)(dim=dim, keepdim=keepdim)


def _view(r: Choices, x: Any, y: Any) -> Any:
    if not x.ndim:
        return x.reshape(1)
    return r.choice([
        lambda: x.reshape(-1), lambda: x.transpose(0, -1), lambda: x.flip(0), lambda: x[..., ::2],
        lambda: x.unsqueeze(0) if x.ndim < 2 else x[0], lambda: x.roll(1, 0), lambda: x[x.shape[0] // 2],
        lambda: functional.pad(x, (1, 0)), lambda: x.movedim(0, -1),
    ])()  # fmt: skip


def _product(r: Choices, x: Any, y: Any) -> Any:
    if x.ndim and y.ndim and x.shape[-1] == y.shape[0]:
        return x @ y
    if x.ndim and y.ndim and x.shape[-1] == y.shape[-1]:
        return x @ y.transpose(0, -1) if y.ndim == 2 else x @ y
    return None


def _along(r: Choices, x: Any, y: Any) -> Any:
    if not x.ndim:
        return None
    dim = _axis(r, x)
    return r.choice([
        lambda: x.softmax(dim), lambda: x.log_softmax(dim), lambda: x.cumsum(dim), lambda: x.sort(dim)[0],
        lambda: x - x.mean(dim, keepdim=True), lambda: x.topk(1, dim)[0],
        lambda: functional.layer_norm(x, (x.shape[-1],)),
    ])()  # fmt: skip


def _joined(r: Choices, x: Any, y: Any) -> Any:
    if x.ndim == y.ndim == 1:
        return jtorch.cat([x, y])
    return jtorch.stack([x, y * 2]) if x.shape == y.shape and x.ndim < 2 else None


def _places(r: Choices, x: Any, y: Any) -> Any:
    """Reads where the largest elements are, which differ from example to example."""
    if not x.ndim:
        return None
    order = x.detach().argsort(0)
    if r.random() < 0.5:
        return x.gather(0, order)
    return x[order[:1].reshape(-1)[:1]]


def _masked(r: Choices, x: Any, y: Any) -> Any:
    return jtorch.where(x > 0.1, x, x * 0.3) if r.random() < 0.5 else x.masked_fill(x.detach() < 0, 0.25)


def _in_place(r: Choices, x: Any, y: Any) -> Any:
    made = x.clone()
    if x.ndim and r.random() < 0.6:
        made[0] = made[-1] * 2
        return made
    return made.mul_(1.5).add_(x)


def _derivative(r: Choices, x: Any, y: Any) -> Any:
    return func.grad(lambda t: (jtorch.sin(t) * t).sum())(x)


def _mapped(r: Choices, x: Any, y: Any) -> Any:
    if x.ndim != 2:
        return None
    return func.vmap(lambda row: jtorch.tanh(row) * row.sum(), in_dims=1, out_dims=r.choice([0, 1]))(x)


STEPS: list[Step] = [
    _pointwise, _two, _two, _reduction, _view, _view, _product, _product, _along, _joined, _places, _masked,
    _in_place, _derivative, _mapped,
]  # fmt: skip


def function(seed: int) -> Callable[..., Any]:
    """A function of a matrix, a vector, and a matrix and a vector that all examples may share."""

    draw = random.Random(seed)
    numbers = [draw.random() for _ in range(100)]

    def program(x: Any, v: Any, w: Any, u: Any) -> tuple[Any, ...]:
        r = Choices(numbers)
        values = [x, v, w, u]
        for _ in range(r.randrange(3, 9)):
            a, b = r.choice(values[-5:]), r.choice(values)
            made = r.choice(STEPS)(r, a, b)
            if made is not None and made.numel() and made.ndim < 3:
                values.append(made * 0.7)
        return tuple(values[4:][-3:]) or (x * 1.0,)

    return program


class Inputs:
    """Arguments of a program, and which of them all examples share."""

    def __init__(self, seed: int) -> None:
        r = np.random.default_rng(seed)
        shapes = [(ROWS, COLUMNS), (COLUMNS,), (COLUMNS, COLUMNS), (COLUMNS,)]
        shared = [False, r.random() < 0.3, r.random() < 0.7, r.random() < 0.7]
        self.dims = tuple(None if s else int(r.integers(0, 2)) for s in shared)
        self.arrays = [
            r.normal(size=shape if d is None else (*shape[:d], BATCH, *shape[d:]))
            for shape, d in zip(shapes, self.dims, strict=True)
        ]

    def tensors(self) -> list[Any]:
        return [jtorch.from_numpy(a.copy()).requires_grad_() for a in self.arrays]


def looped(program: Callable, dims: tuple, tensors: list[Any]) -> list[Any]:
    """What ``vmap`` stands for."""
    rows = [
        program(*[t if d is None else t.select(d, k) for t, d in zip(tensors, dims, strict=True)])
        for k in range(BATCH)
    ]
    return [jtorch.stack(list(column)) for column in zip(*rows, strict=True)]


def mapped(program: Callable, dims: tuple, tensors: list[Any]) -> list[Any]:
    return list(func.vmap(program, in_dims=dims)(*tensors))


def gradients(outs: list[Any], tensors: list[Any], twice: bool) -> list[Any]:
    """Of a sum of the outputs, or (``twice``) of the squares of those."""
    total = sum((o * o).sum() for o in outs)
    if not total.requires_grad:
        return []
    found = jtorch.autograd.grad(
        total, tensors, create_graph=twice, allow_unused=True, materialize_grads=True
    )
    if not twice:
        return list(found)
    second = sum((g * g).sum() for g in found)
    if not second.requires_grad:
        return list(found)
    return list(jtorch.autograd.grad(second, tensors, allow_unused=True, materialize_grads=True))
