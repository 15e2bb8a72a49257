"""What a random program is, and the writer that puts one together, trying each instruction as it goes.

The writer runs every instruction eagerly on the program's own arguments. What raises, overflows or grows out
of hand is not taken, so a finished program runs; and it knows which values are *exact*: multiples of a power
of two, so small that sums and products of them are the same in every order and with every contraction. Only
those are compared, rounded or branched on: a difference of one rounding would otherwise become a whole one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import jtorch
from jtorch.eager.tensor import Tensor, leaf

GRID = 2.0**10  # exact values are multiples of 1 / GRID
LARGEST = 1e4
MAX_ELEMENTS = 600
MAX_NDIM = 5
SHAPES = ((3, 4), (3, 4), (4,), (3, 1), (1, 4), (), (2, 3, 4), (4, 3), (3, 3), (1, 1), (1,), (0, 4))


@dataclass(frozen=True)
class Instruction:
    """``values.append(function(*(values[k] for k in inputs)))``, and how it prints."""

    text: str
    function: Callable[..., Any]
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """Arguments (arrays by shape and dtype, then numbers), instructions, and which values are returned."""

    shapes: tuple[tuple[int, ...], ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]
    writes: tuple[tuple[int, int], ...] = ()  # (input, value copied into it at the end)
    dtypes: tuple[str, ...] = ()  # of the arrays; float32 where there are none
    numbers: tuple[float, ...] = ()

    def __call__(self, *arguments: Any) -> list[Tensor]:
        values = list(arguments)
        for i in self.instructions:
            values.append(i.function(*(values[k] for k in i.inputs)))
        outs = [values[k] for k in self.outputs]
        for to, of in self.writes:
            values[to].copy_(values[of])
        return [o.clone() for o in outs]

    def gradients(self, *arguments: Any) -> list[Tensor]:
        """A loss over the outputs; its ``backward()`` sets the gradients of the inputs."""
        outs = self(*arguments)
        live = [o for o in outs if o.requires_grad and o.numel()]
        if not live:
            return [o.detach().clone() for o in outs]
        loss = sum((jtorch.tanh(o).mean() for o in live[1:]), jtorch.tanh(live[0]).mean())
        loss.backward()
        return [loss.detach().clone()]

    def leaves(self, seed: int = 0, requires_grad: bool = False) -> list[Any]:
        """Arguments: eighths between -3 and 3, and the numbers."""
        rng = np.random.default_rng(seed)
        dtypes = self.dtypes or ("float32",) * len(self.shapes)
        arrays = [np.asarray(np.clip(np.rint(rng.normal(size=s) * 8) / 8, -3, 3)) for s in self.shapes]
        kinds = [np.dtype(d).kind == "f" for d in dtypes]
        tensors = [
            leaf(np.array(a if f else a * 2, d), requires_grad and f)
            for a, d, f in zip(arrays, dtypes, kinds, strict=True)
        ]
        return [*tensors, *self.numbers]

    def __repr__(self) -> str:
        dtypes = self.dtypes or ("float32",) * len(self.shapes)
        lines = [f"v{k}: {d} {s}" for k, (s, d) in enumerate(zip(self.shapes, dtypes, strict=True))]
        lines += [f"v{k}: {x}" for k, x in enumerate(self.numbers, len(self.shapes))]
        for n, i in enumerate(self.instructions, len(lines)):
            lines.append(f"v{n} = {i.text}({', '.join(f'v{k}' for k in i.inputs)})")
        lines += [f"v{a}.copy_(v{b})" for a, b in self.writes]
        return "\n".join([*lines, f"return {self.outputs}"])

    def without(self, gone: int) -> Program | None:
        """The program less one instruction, or None where later ones or the result need it."""
        place = len(self.shapes) + len(self.numbers) + gone
        uses = [k for i in self.instructions for k in i.inputs] + [b for _, b in self.writes]
        outputs = tuple(k for k in self.outputs if k != place)
        if place in uses or not outputs:
            return None

        def moved(k: int) -> int:
            return k - (k > place)

        kept = [i for n, i in enumerate(self.instructions) if n != gone]
        instructions = tuple(Instruction(i.text, i.function, tuple(map(moved, i.inputs))) for i in kept)
        writes = tuple((a, moved(b)) for a, b in self.writes)
        new = tuple(map(moved, outputs))
        return Program(self.shapes, instructions, new, writes, self.dtypes, self.numbers)


class Writer:
    """A program under way. ``pick`` chooses values, ``add`` tries an instruction and keeps what works."""

    def __init__(self, rng: random.Random, program: Program, grad: bool, mutate: bool = True) -> None:
        self.rng = rng
        self.grad = grad
        self.mutate = mutate
        self.start = program
        self.values = program.leaves(requires_grad=grad)
        self.exact = [True] * len(self.values)
        self.instructions: list[Instruction] = []
        self.n_tensors = len(program.shapes)

    # -- choosing ----------------------------------------------------------------------------------------

    def tensors(self, fits: Callable[[Tensor], bool] = lambda t: True, exact: bool = False) -> list[int]:
        found = (k for k, v in enumerate(self.values) if isinstance(v, Tensor) and fits(v))
        return [k for k in found if self.exact[k] or not exact]

    def floats(self, fits: Callable[[Tensor], bool] = lambda t: True, exact: bool = False) -> list[int]:
        return self.tensors(lambda t: t.is_floating_point() and fits(t), exact)

    def numbers(self) -> list[int]:
        return [k for k, v in enumerate(self.values) if not isinstance(v, Tensor)]

    def pick(self, places: Sequence[int]) -> int | None:
        """One of ``places``, the latest values rather than the first."""
        if not places:
            return None
        return places[max(self.rng.randrange(len(places)) for _ in range(2))]

    def any_float(self) -> int | None:
        return self.pick(self.floats())

    # -- adding ------------------------------------------------------------------------------------------

    def add(
        self, text: str, function: Callable[..., Any], inputs: Iterable[int | None], exact: bool = False
    ) -> bool:
        """Append ``function(*inputs)`` if it runs and gives reasonable numbers. ``exact``: it does so
        without rounding, where its inputs allow that."""
        places = tuple(inputs)
        if any(k is None for k in places):
            return False
        made = Instruction(text, function, places)  # type: ignore[arg-type]
        context = jtorch.enable_grad() if self.grad else jtorch.no_grad()
        try:
            with context:
                out = function(*(self.values[k] for k in made.inputs))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, ArithmeticError):
            return False
        if not isinstance(out, Tensor) or out.ndim > MAX_NDIM or out.numel() > MAX_ELEMENTS:
            return False
        if not _reasonable(out._data):
            return False
        self.instructions.append(made)
        self.values.append(out)
        clean = exact and all(self.exact[k] for k in made.inputs)
        self.exact.append(clean and _on_grid(out._data))
        return True

    def changed(self, target: int, source_exact: bool) -> None:
        """``target`` was written: what shares its memory is only as exact as what was written."""
        array = self.values[target]._data
        for k, value in enumerate(self.values):
            if isinstance(value, Tensor) and np.may_share_memory(value._data, array):
                self.exact[k] = self.exact[k] and source_exact and _on_grid(value._data)

    def finish(self, outputs: tuple[int, ...], writes: tuple[tuple[int, int], ...] = ()) -> Program:
        start = self.start
        return Program(start.shapes, tuple(self.instructions), outputs, writes, start.dtypes, start.numbers)


def _reasonable(array: np.ndarray) -> bool:
    if array.dtype.kind not in "fiub" or array.dtype == np.float16:
        return array.dtype.kind in "iub"
    return bool(np.all(np.isfinite(array)) and np.all(np.abs(array.astype(np.float64)) < LARGEST))


def _on_grid(array: np.ndarray) -> bool:
    if array.dtype.kind != "f":
        return True
    scaled = array.astype(np.float64) * GRID
    return bool(np.all(scaled == np.rint(scaled)) and np.all(np.abs(array) < 512))
