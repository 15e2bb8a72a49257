"""Functions that are defined, and compiled, at each turn of a loop."""

from __future__ import annotations

import gc
import weakref

import jtorch
from tests.compile.plan.test_fuse import floats

OUTSIDE = [1.0]


def test_a_closure_that_is_defined_in_a_loop_is_recorded_once():
    weight, x, turns, losses = floats(3, 1).requires_grad_(), floats(8, 3), [], []
    optimizer = jtorch.optim.LBFGS([weight], lr=0.1)
    for turn in range(4):

        @jtorch.compile
        def closure():
            optimizer.zero_grad()
            loss = ((x @ weight - turn) ** 2).mean()  # noqa: B023 - what is under test
            loss.backward()
            return loss

        turns.append(closure)
        losses.append(optimizer.step(closure).item())
    assert len(set(map(id, turns))) == 1
    assert len(closure.retraces) <= 3  # turn becomes a number of the call
    assert len(set(losses)) == 4


def test_what_is_in_the_cells_is_read():
    found = []
    for k in range(5):
        scale = [k, k + 1]
        compiled = jtorch.compile(lambda x: x * scale[0] + scale[1])  # noqa: B023 - what is under test
        found.append(compiled(jtorch.ones(1)).item())
    assert found == [1, 3, 5, 7, 9]


def make(scale, offset=0.0, *, power=1):
    def function(x, offset=offset, *, power=power):
        return (x * scale + offset) ** power + OUTSIDE[0]

    return function


def test_other_cells_and_defaults_are_other_functions():
    x, offset = jtorch.ones(1), 0.5
    functions = [make(2.0), make(3.0), make(2.0, offset), make(2.0, offset, power=2)]
    compiled = [jtorch.compile(f) for f in functions]
    assert len(set(map(id, compiled))) == 4
    assert [c(x).item() for c in compiled] == [f(x).item() for f in functions] == [3.0, 4.0, 3.5, 7.25]


def plain():
    return lambda x: x * OUTSIDE[0]


def test_what_makes_them_different_to_users():
    first, second = plain(), plain()
    compiled = jtorch.compile(first)
    assert jtorch.compile(second) is compiled
    assert jtorch.compile(first) is not compiled  # one that somebody compiles twice on purpose
    named, other = plain(), plain()
    named.__name__ = named.__qualname__ = "named"
    other.note = 1
    for function in (named, other):
        found = jtorch.compile(function)
        assert found is not compiled and found.function is function
    assert jtorch.compile(plain(), dynamic=True) is not compiled
    first.__defaults__ = (jtorch.ones(1),)
    assert jtorch.compile(second) is not compiled


def test_what_nobody_uses_is_forgotten():
    compiled = jtorch.compile(plain())
    compiled(jtorch.ones(1))
    gone = weakref.ref(compiled)
    del compiled
    gc.collect()
    assert gone() is None
    assert len(jtorch.compile(plain()).retraces) == 0
