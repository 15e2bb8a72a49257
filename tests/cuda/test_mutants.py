"""Kernels of jtorch with one thing taken out of each: the machine finds what is missing."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import jtorch
from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.cuda import CudaKernel, emit_cuda
from jtorch.compile.plan.plan import Plan
from jtorch.compile.target import Target
from tests.compile.chain import Machine, arguments_of, trace
from tests.compile.codegen.cuda_chain import plan_of
from tests.compile.codegen.cuda_programs import MAPS, REDUCTIONS, tensor
from tests.cuda.plans import OnPtxMachine, ptx_of
from tests.cuda.ptx.errors import (
    BarrierDivergenceError,
    EndlessError,
    LaunchError,
    OutOfBoundsError,
    RaceError,
    UnwrittenError,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)
ROWS, NARROW, COLUMNS = tensor(6, 300), tensor(5, 7), tensor(90, 40)
PROGRAMS: dict[str, tuple[Callable, list[Any]]] = {
    "map": (lambda x, y: [x.exp() * y], [ROWS, ROWS]),
    "gather": (lambda x, i: [x[i] * 2.0], [NARROW, jtorch.tensor([0, 4, 5])]),
    "rows": (lambda x: [x.sum(1)], [ROWS]),
    "narrow rows": (lambda x: [x.sum(1)], [NARROW]),
    "columns": (lambda x: [x.sum(0)], [COLUMNS]),
    "softmax": (lambda x: [x.softmax(-1)], [ROWS]),
    "argmax": (lambda x: [x.argmax(1)], [ROWS]),
    "sum of all": (lambda x: [x.sum()], [ROWS]),
    "scatter": MAPS["embedding backward"],
    "rows over what they read": REDUCTIONS["rows over what they read"],
}
SPLITS = 3  # blocks that share a result where that can be split


class Mutant(OnPtxMachine):
    """``change`` is made in the PTX of every kernel."""

    steps = 3000

    def __init__(self, change: Callable[[str], str], *arguments: Any) -> None:
        self.change = change
        super().__init__(*arguments)

    def _ptx(self, kernel: CudaKernel) -> str:
        return self.change(super()._ptx(kernel))


@functools.cache
def plan_and_arguments(name: str) -> tuple[Plan, list[np.ndarray]]:
    function, leaves = PROGRAMS[name]
    made = trace(function, leaves)
    return plan_of(made), arguments_of(made)


def outputs(
    name: str, source: Callable[[str], str] = lambda text: text, ptx: Callable[[str], str] = lambda text: text
) -> list[np.ndarray]:
    """The results of a program whose kernels were changed, in their Python text or in their PTX."""
    plan, arguments = plan_and_arguments(name)

    def emit(plan: Plan) -> Code:
        kernels = emit_cuda(plan, SPLITS).kernels
        return Code(plan, {task: replace(k, source=source(k.source)) for task, k in kernels.items()})

    machine = Machine(
        plan, Target("mutant", emit, lambda code, _, binding: Mutant(ptx, code, binding)), arguments
    )
    machine.run()
    return machine.outputs


# -- barriers ----------------------------------------------------------------------------------------------

BARRIER = re.compile(r"bar\.sync\s+0;")
# program -> how many barriers its kernel has, and those after which no thread writes what another one reads
BARRIERS = {
    "rows": (3, {2}), "columns": (3, {2}), "sum of all": (3, {2}), "softmax": (6, {5}), "argmax": (6, {2, 5}),
}  # fmt: skip


@pytest.mark.parametrize("name", BARRIERS)
def test_no_barrier_can_be_left_out(name):
    plan, _ = plan_and_arguments(name)
    (kernel,) = emit_cuda(plan, SPLITS).kernels.values()
    count, idle = BARRIERS[name]
    text = ptx_of(kernel)
    barriers = [(found.start(), found.end()) for found in BARRIER.finditer(text)]
    assert len(barriers) == count
    whole = outputs(name)
    for k, (start, end) in enumerate(barriers):
        without = text[:start] + text[end:]
        if k in idle:
            np.testing.assert_array_equal(outputs(name, ptx=lambda _, text=without: text)[0], whole[0])
        else:
            with pytest.raises(RaceError, match="shared memory"):
                outputs(name, ptx=lambda _, text=without: text)


# -- guards ------------------------------------------------------------------------------------------------

# program, what its kernel says, what it says instead, what the machine finds
GUARDS: list[tuple[str, str, str, type[LaunchError]]] = [
    ("map", "while i0 < n0:", "while i0 <= n0:", OutOfBoundsError),
    ("map", "i0 = cuda.grid(1)", "i0 = cuda.grid(1) - cuda.blockIdx.x * cuda.blockDim.x", RaceError),
    ("map", "i0 += cuda.gridsize(1)", "i0 += 0", EndlessError),
    ("gather", "            t0 = 0\n", "", OutOfBoundsError),  # in place of an index out of range
    ("rows", "while j < stop:", "while j <= stop:", OutOfBoundsError),
    ("rows", "if lane == 0 and live:", "if live:", RaceError),
    ("rows", "if lane < width:", "if lane <= width:", OutOfBoundsError),
    ("softmax", "if lane < width:", "if True:", OutOfBoundsError),
    ("narrow rows", "if lane == 0 and live:", "if lane == 0:", RaceError),
    ("narrow rows", "    k = min(k, kept - 1)", "    k = k", OutOfBoundsError),
    (
        "narrow rows",
        "live = k < kept",
        "live = k < kept\n    if not live:\n        return",
        BarrierDivergenceError,
    ),
    ("rows over what they read", "while live and i1 < n1:", "while i1 < n1:", RaceError),
    ("columns", "thread = lane * sides + side", "thread = lane + side", RaceError),
    ("columns", "if lane == 0 and live:", "if live:", RaceError),
    ("sum of all", "i0 = j", "i0 = j + 1", OutOfBoundsError),
    ("sum of all", "while part < splits:", "while part <= splits:", OutOfBoundsError),
    ("scatter", "% owners == owner:", "% owners >= 0:", RaceError),
    ("scatter", "while k < total:", "while k <= total:", OutOfBoundsError),
    ("scatter", "if phase == 0:", "if phase == 1:", UnwrittenError),
]


@pytest.mark.parametrize("name, old, new, error", GUARDS)
def test_no_guard_can_be_left_out(name, old, new, error):
    plan, _ = plan_and_arguments(name)
    assert sum(old in source for source in emit_cuda(plan, SPLITS).texts()) == 1
    with pytest.raises(error):
        outputs(name, source=lambda text: text.replace(old, new, 1))
