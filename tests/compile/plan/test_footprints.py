"""What a part of a step is said to touch, against what its text touches."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.compile.codegen.elements import Elements
from jtorch.compile.codegen.emitter import Edge, Pointer
from jtorch.compile.graph.access import Layout
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.ir import Type, Var
from jtorch.compile.plan import footprints
from jtorch.compile.plan.pieces import divided
from jtorch.compile.run.host import array_at
from jtorch.compile.run.targets import PYTHON
from jtorch.core.products import Axis, Product
from tests.compile.chain import Machine, arguments_of, destinations_of, optimised, planned, trace
from tests.compile.programs import of_seed
from tests.compile.programs_check import run_of


class _Watched(Elements):
    """Notes the addresses, in bytes, of what is read or written."""

    __slots__ = ("met",)

    def __init__(self, *arguments, met):
        super().__init__(*arguments)
        self.met = met

    def _place(self, k):
        place = super()._place(k)
        item = self.elements.itemsize
        self.met.add(self.elements.__array_interface__["data"][0] + place * item)
        return place


def _met(runner, task, turns):
    """The addresses that the kernel of a task meets in some turns of its divided loop."""
    met = set()

    def value(argument):
        if isinstance(argument, Edge):
            return turns[argument.last]
        if isinstance(argument, Pointer):
            array = array_at(runner._address(runner.plan.places[argument.var], ()), argument.var)
            return _Watched(array.reshape(-1), argument.offset, repr(argument.var), met=met)
        return runner._argument(argument, ())

    kernel = runner.code.kernels[task]
    with np.errstate(all="ignore"):
        runner.functions[kernel.source](*map(value, kernel.arguments))
    return met


def _said(runner, task, turns):
    """The ranges of addresses that it is said to touch."""
    found = []
    for footprint in footprints.of_nest(task.nest):
        first, end = footprint.of(turns)
        begin = runner._address(runner.plan.places[footprint.var], ())
        found.append((begin + first, begin + end))
    return found


def _check(function, leaves):
    """How many kernels were looked at."""
    made = trace(function, leaves)
    if made.error is not None:
        return 0
    plan = planned(finalise(optimised(made.graph)), destinations_of(made))
    machine = Machine(plan, PYTHON, arguments_of(made))  # it owns the memory
    runner = machine.runner
    looked = 0
    for task in plan.tasks:
        loop = None if task.nest is None else divided(task.nest)
        if loop is not None and loop.size > 1:
            half, third = loop.size // 2, max(loop.size // 3, 1)
            for turns in ((0, half), (half, loop.size), (third, 2 * third)):
                said = _said(runner, task, turns)
                outside = [a for a in _met(runner, task, turns) if not any(b <= a < e for b, e in said)]
                assert not outside, f"{task.name} touches {len(outside)} more places in turns {turns}"
            looked += 1
        runner.run_one(task)
    return looked


def floats(*shape):
    return jtorch.from_numpy(np.random.default_rng(0).normal(size=shape).astype(np.float32))


PROGRAMS = {
    "rows of columns": lambda x: (x[:, 2:5] * x[:, :3]).tanh() + x.t()[:3].t(),
    "flipped": lambda x: x.flip(0) + x.flip(1) * 2,
    "cat": lambda x: jtorch.cat([x, x[:, :2] * 2, x.exp()], 1) * 3,
    "cat of rows": lambda x: jtorch.cat([x[:2], x * 2], 0) + 1,
    "pad": lambda x: F.pad(x, (1, 2, 2, 1)) * 2,
    "softmax": lambda x: F.softmax(x, 1) * x,
    "sums of columns": lambda x: (x.sum(0), (x * x).mean(0), x.exp().sum(1)),
    "gather": lambda x: x[jtorch.tensor([3, 1, 0])].tanh(),
    "picked": lambda x: x.gather(1, jtorch.tensor([[0], [2], [1], [3], [0], [5]])) * 2,
    "windows": lambda x: x.unfold(1, 3, 2).sum(2) * 2,
    "expanded": lambda x: x[:1].expand(6, 6) * x + x[:, :1],
    "long": lambda x: (x.reshape(2, 3, 6).permute(1, 0, 2) * 2).cumsum(1) + 1,
    "triangle": lambda x: x.tril() * 2 + jtorch.arange(6),
    "rolled": lambda x: x.roll(2, 0) * x.roll(-1, 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kernel_touches_what_is_said(name):
    with jtorch.no_grad():
        assert _check(PROGRAMS[name], [floats(6, 6)])


@pytest.mark.parametrize("seeds", [range(0, 15), pytest.param(range(15, 150), marks=pytest.mark.slow)])
def test_random_kernels_touch_what_is_said(seeds):
    looked = 0
    for seed in seeds:
        grad = bool(seed % 2)
        program = of_seed(seed, grad=grad, in_place=not grad)
        with jtorch.set_grad_enabled(grad):
            function, leaves = run_of(program, grad)
            try:
                looked += _check(function, leaves)
            except (RuntimeError, NotImplementedError):
                continue  # a recording that is refused
    assert looked > len(seeds)


def test_rows_are_told_apart():
    """What makes tiles possible: a piece of the rows touches these rows alone."""
    with jtorch.no_grad():
        made = trace(lambda x, w: (x @ w)[:, 2:4] * 2, [floats(8, 6), floats(6, 6)])
    plan = planned(finalise(optimised(made.graph)), destinations_of(made))
    (task,) = [t for t in plan.tasks if t.nest is not None]
    read, written = footprints.of_nest(task.nest)
    half = 0, divided(task.nest).size // 2
    assert read.of(half) == (2 * 4, (3 * 6 + 4) * 4) and written.of(half) == (0, 4 * 2 * 4)
    assert (read.written, written.written) == (False, True)


def _elements(axes, which, positions):
    """The elements that some positions along axes are, by counting."""
    sizes = [axis.size for axis in axes]
    found = set()
    for position in range(*positions):
        index = np.unravel_index(position, sizes) if sizes else ()
        found.add(sum(int(i) * axis[which] for i, axis in zip(index, axes, strict=True)))
    return found


PRODUCTS = {
    "plain": Product((), (Axis(6, 4, 0, 5),), (Axis(5, 0, 1, 1),), (Axis(4, 1, 5, 0),)),
    "turned": Product((), (Axis(6, 1, 0, 5),), (Axis(5, 0, 4, 1),), (Axis(4, 6, 1, 0),)),
    "heads": Product(
        (Axis(3, 40, 40, 100), Axis(2, 4, 4, 50)), (Axis(5, 8, 0, 10),), (Axis(10, 0, 8, 1),),
        (Axis(4, 1, 1, 0),),
    ),
    "backwards": Product(
        (Axis(4, -30, 0, 30),), (Axis(6, 5, 0, 5),), (Axis(5, 0, 1, 1),), (Axis(5, 1, 5, 0),),
    ),
    "windows": Product(
        (), (Axis(3, 12, 0, 4), Axis(4, 1, 0, 1)), (Axis(2, 0, 9, 12),),
        (Axis(3, 12, 3, 0), Axis(3, 1, 1, 0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("axis", ["batch", "rows", "columns"])
def test_a_product_touches_what_is_said(name, axis):
    product = PRODUCTS[name]
    parts = {"batch": product.batch, "rows": product.rows, "columns": product.columns, "inner": product.inner}
    sizes = {part: math.prod(a.size for a in axes) for part, axes in parts.items()}
    x, y, out = (Var(Type(np.dtype(np.float32), (1000,))) for _ in range(3))
    layouts = Layout(x, 200, ()), Layout(y, 100, ())
    for first in range(sizes[axis]):
        for end in range(first + 1, sizes[axis] + 1):
            ranges = {part: (0, size) for part, size in sizes.items()} | {axis: (first, end)}
            said = list(footprints.of_product(product, axis, *layouts, out))
            assert [(f.var, f.written) for f in said] == [(x, False), (y, False), (out, True)]
            for which, (footprint, begin) in enumerate(zip(said, (200, 100, 0), strict=True), start=1):
                least = largest = begin
                for part, axes in parts.items():
                    met = _elements(axes, which, ranges[part])
                    least, largest = least + min(met), largest + max(met)
                low, high = footprint.of((first, end))
                assert low <= least * 4 and (largest + 1) * 4 <= high
                if name in ("plain", "turned"):
                    assert (low, high) == (least * 4, (largest + 1) * 4)
