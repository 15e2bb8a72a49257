"""Functions that are defined, and compiled, at each turn of a loop."""

from __future__ import annotations

import gc
import weakref

import pytest

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
    assert all(turn.plans is closure.plans for turn in turns)
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
    assert len({id(c.plans) for c in compiled}) == 4
    assert [c(x).item() for c in compiled] == [f(x).item() for f in functions] == [3.0, 4.0, 3.5, 7.25]


def plain():
    return lambda x: x * OUTSIDE[0]


def test_what_makes_them_different_to_users():
    first, second = plain(), plain()
    compiled = jtorch.compile(first)
    again = jtorch.compile(second)
    assert again is not compiled and again.plans is compiled.plans and again.function is second
    assert jtorch.compile(second).plans is not compiled.plans  # one that somebody compiles twice on purpose
    named, noted = plain(), plain()
    named.__qualname__ = "named"
    noted.note = 1
    for function in (named, noted):
        assert jtorch.compile(function).plans is not compiled.plans
    assert jtorch.compile(plain(), dynamic=True).plans is not compiled.plans


def other(x, k=1):
    return x + 2 * k


def counted():
    def f(x, k=1):
        return x + k

    return f


def without_arguments():
    def f(x):
        return x + 1

    return f


@pytest.mark.parametrize("make", [counted, without_arguments])
def test_what_is_assigned_to_one_of_them_later(make):
    def program(wrap):
        first, second, x, found = make(), make(), jtorch.zeros(1), []
        one, two = wrap(first), wrap(second)
        found += [int(one(x)), int(two(x))]
        second.__defaults__ = None if make is without_arguments else (5,)
        found += [int(one(x)), int(two(x))]
        second.__code__ = other.__code__
        second.__defaults__ = (4,)
        found += [int(one(x)), int(two(x))]
        first.__code__ = other.__code__
        first.__defaults__ = (3,)
        found += [int(one(x)), int(two(x)), int(wrap(make())(x))]
        return found

    assert program(jtorch.compile) == program(lambda f: f)


def test_attributes_are_those_of_each():
    def program(wrap):
        found, tags, table = [], [], {}
        for _ in range(2):

            @wrap
            def f(x):
                f.calls = getattr(f, "calls", 0) + 1
                return x + f.calls

            found += [int(f(jtorch.zeros(1))), int(f(jtorch.zeros(1)))]
        for tag in "ab":

            @wrap
            def g(x):
                return x + 1

            g.tag = tag
            tags.append(g)
            table[g] = tag
        return found, [g.tag for g in tags], len(table)

    assert program(jtorch.compile) == program(lambda f: f)


def test_what_nobody_uses_is_forgotten():
    compiled = jtorch.compile(plain())
    compiled(jtorch.ones(1))
    gone = weakref.ref(compiled)
    del compiled
    gc.collect()
    assert gone() is None
    assert len(jtorch.compile(plain()).retraces) == 0
