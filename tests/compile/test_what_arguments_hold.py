"""Dataclasses and named tuples that hold more than fields, and objects that get another ``__dict__``."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools

import pytest

import jtorch

ONE = jtorch.ones(1)


@dataclasses.dataclass
class Record:
    a: float

    scale = 1.0


@dataclasses.dataclass
class WithMore:
    a: float

    def __post_init__(self):
        self.doubled = self.a * 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: float

    def __post_init__(self):
        object.__setattr__(self, "doubled", self.a * 2)


@dataclasses.dataclass(slots=True)
class Slots:
    a: float
    b: float = 2.0


class Pair(collections.namedtuple("Pair", "a")):
    pass


def both(function, *calls):
    """What eager mode and the compiled function give for each call, whose arguments are made anew."""
    compiled = jtorch.compile(function, fullgraph=True)
    return [[f(*make()) for make in calls] for f in (function, compiled)]


def plain(found):
    return [value.tolist() if isinstance(value, jtorch.Tensor) else value for value in found]


def record(scale, **more):
    made = Record(1.0)
    vars(made).update(more, scale=scale)
    return made


@pytest.mark.parametrize(
    "function",
    [
        lambda d, x: x * d.scale * getattr(d, "extra", 1),
        lambda d, x: x * len(vars(d)),
        lambda d, x: x * copy.copy(d).scale,
    ],
)  # fmt: skip
def test_attributes_that_are_no_fields(function):
    calls = [lambda k=k, m=m: (record(k, **m), ONE) for k, m in ((1.0, {}), (2.0, {"extra": 10}), (3.0, {}))]
    eager, compiled = both(function, *calls)
    assert plain(compiled) == plain(eager)


@pytest.mark.parametrize("cls", [WithMore, Frozen])
def test_what_post_init_sets(cls):
    calls = [lambda k=k: (cls(k), ONE) for k in (1.0, 3.0, 4.0)]
    eager, compiled = both(lambda d, x: x * d.doubled, *calls)
    assert plain(compiled) == plain(eager) == [[2.0], [6.0], [8.0]]


def test_slots_and_fields_that_are_not_set():
    eager, compiled = both(
        lambda d, x: x * d.a * d.b, lambda: (Slots(3.0), ONE), lambda: (Slots(2.0, 5.0), ONE)
    )
    assert plain(compiled) == plain(eager) == [[6.0], [10.0]]

    def without():
        made = Record(1.0)
        del made.a
        return made, ONE

    eager, compiled = both(lambda d, x: x * getattr(d, "a", 9.0), without, lambda: (Record(2.0), ONE))
    assert plain(compiled) == plain(eager) == [[9.0], [2.0]]


def test_a_cached_property_is_computed_once():
    seen = []

    @dataclasses.dataclass
    class Cached:
        a: float

        @functools.cached_property
        def doubled(self):
            seen.append(self.a)
            return self.a * 2

    function = jtorch.compile(lambda d, x: x * d.doubled, fullgraph=True)
    before = Cached(1.0)
    assert before.doubled == 2.0 and seen == [1.0]
    assert function(before, ONE).item() == 2.0 and seen == [1.0]
    before.doubled = 50.0
    assert function(before, ONE).item() == 50.0
    fresh = Cached(4.0)
    assert [function(fresh, ONE).item() for _ in range(2)] == [8.0, 8.0]
    assert vars(fresh) == {"a": 4.0, "doubled": 8.0}


def test_named_tuples_with_attributes():
    def pair(z):
        made = Pair(1)
        if z is not None:
            made.z = z
        return made, ONE

    calls = [lambda z=z: pair(z) for z in (1.0, 2.0, None, 3.0)]
    eager, compiled = both(lambda n, x: x * getattr(n, "z", 7) * n.a, *calls)
    assert plain(compiled) == plain(eager) == [[1.0], [2.0], [7.0], [3.0]]


def test_what_is_returned_has_them_too():
    def function(x):
        made, pair = Record(x), Pair(x)
        made.more = x * 2
        pair.z = 5
        return made, pair

    made, pair = jtorch.compile(function, fullgraph=True)(ONE)
    assert made.more.item() == 2.0 and pair.z == 5 and pair.a.item() == 1.0


def test_what_the_function_sets():
    def function(d, x):
        d.more, d.a = x * 2, 3.0
        return x * d.a

    compiled = jtorch.compile(function, fullgraph=True)
    for k in (1.0, 2.0):
        given = Record(7.0)
        assert compiled(given, ONE * k).item() == 3.0 * k
        assert given.a == 3.0 and given.more.item() == 2 * k


class Box:
    pass


def test_another_dict_of_an_object():
    box = Box()
    box.v = 1.0
    function = jtorch.compile(lambda x: x * box.v, fullgraph=True)
    assert function(ONE).item() == 1.0
    box.__dict__ = {"v": 5.0}
    assert function(ONE).item() == 5.0
    box.__dict__["v"] = 6.0
    assert function(ONE).item() == 6.0
    other = Box()
    other.v = 2.0
    box.__dict__, other.__dict__ = other.__dict__, box.__dict__
    assert function(ONE).item() == 2.0


def test_another_dict_of_a_function():
    def helper():
        pass

    helper.k = 3.0
    function = jtorch.compile(lambda x: x * getattr(helper, "k", 1.0), fullgraph=True)
    assert function(ONE).item() == 3.0
    helper.__dict__ = {"k": 4.0}
    assert function(ONE).item() == 4.0


def test_a_gradient_that_has_a_graph_is_not_the_one_that_was_recorded():
    w, x = jtorch.ones(2, requires_grad=True), jtorch.ones(2)

    def step(x):
        (w * x).sum().backward()
        return w.grad * 1

    compiled = jtorch.compile(step, fullgraph=False)
    assert [compiled(x).requires_grad for _ in range(3)] == [False] * 3
    w.grad = jtorch.zeros(2, requires_grad=True) * 1
    with pytest.warns(jtorch.errors.EagerWarning, match="a .grad that requires grad"):
        assert compiled(x).requires_grad
    assert w.grad.requires_grad and w.grad.tolist() == [1.0, 1.0]


def test_a_number_that_becomes_complex():
    class Layer(jtorch.nn.Module):
        v = 1.0

    layer = Layer()
    function = jtorch.compile(lambda x: jtorch.tensor(layer.v), fullgraph=False)
    assert function(ONE).item() == 1.0
    layer.v = 1j
    assert function(ONE).item() == 1j


def test_an_error_that_is_caught_keeps_what_was_done():
    done = []

    def function(x, k):
        done.append(1)
        try:
            return x.reshape(k * 0.5, -1)
        except TypeError:
            return x

    compiled = jtorch.compile(function, fullgraph=True)
    x = jtorch.ones(4)
    assert [tuple(compiled(x, 4.0).shape) for _ in range(2)] == [(4,), (4,)]
    assert len(done) == 2
