"""Containers of arguments and results: their classes, their order, and which of them are one."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

import jtorch
from jtorch.compile.record.tree import flatten, unflatten


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Box:
    items: list = field(default_factory=list)
    other: Any = None


def _shared_list(x):
    one = [x, x + 1]
    return {"a": one, "b": (one, [x]), "c": one}


def _shared_dict_in_lists(x):
    made = {"x": x * 2}
    return [made, [made], (made, {"x": made})]


def _shared_box(x):
    box = Box([x + 1])
    return box, Box(box.items, box), Pair(box, box.items)


def _shared_tuple(x):
    pair = Pair(x, x + 1)
    return [pair, [pair]], pair


def _identities(tree, seen=None):
    """For each container of ``tree``, in order, which of them it is."""
    seen = {} if seen is None else seen
    parts = list(tree.values()) if isinstance(tree, dict) else tree
    parts = [tree.items, tree.other] if isinstance(tree, Box) else parts
    if not isinstance(parts, (list, tuple)):
        return []
    number = seen.setdefault(id(tree), len(seen))
    return [(type(tree), number), *(i for part in parts for i in _identities(part, seen))]


@pytest.mark.parametrize(
    "function", [_shared_list, _shared_dict_in_lists, _shared_box, _shared_tuple], ids=lambda f: f.__name__
)
def test_a_container_returned_twice_is_one(function):
    expected, compiled = function(jtorch.arange(3.0)), jtorch.compile(function)
    for _ in range(3):
        found = compiled(jtorch.arange(3.0))
        assert _identities(found) == _identities(expected)
        assert len(set(_identities(expected))) < len(_identities(expected))
        for ours, theirs in zip(flatten(found)[0], flatten(expected)[0], strict=True):
            assert ours.tolist() == theirs.tolist() if isinstance(ours, jtorch.Tensor) else ours is theirs


def test_a_list_passed_twice_is_one():
    @jtorch.compile
    def which(a, b):
        return a[0] + b[0] if a is b else a[0] - b[0]

    one, other = [jtorch.ones(2)], [jtorch.ones(2)]
    for first, second in ((one, other), (one, one), (other, one), (other, other)):
        expected = 2.0 if first is second else 0.0
        assert which(first, second).tolist() == [expected, expected]


def test_a_container_appended_and_returned_is_one():
    kept = []

    @jtorch.compile
    def step(x):
        made = [x + 1]
        kept.append(made)
        return made

    for n in range(3):
        returned = step(jtorch.full((2,), float(n)))
        assert kept[-1] is returned
        assert [len(kept), returned[0].tolist()] == [n + 1, [n + 1.0, n + 1.0]]


def test_containers_that_are_made_while_looked_at_are_not_one():
    @dataclass
    class Fresh:
        a: Any = 0
        b: Any = 0

        def __getattribute__(self, name):
            return [1] if name == "a" else [2] if name == "b" else object.__getattribute__(self, name)

    leaves, structure = flatten([Fresh(), Fresh()])
    assert leaves == [1, 2, 1, 2]
    assert "Shared" not in str(structure)


@pytest.mark.parametrize("tree", [[], (), {}, [[], []], {"a": (1, [2, {"b": 3}])}, Pair([1], (2,)), [(), ()]])
def test_unflatten_gives_what_was_flattened(tree):
    leaves, structure = flatten(tree)
    assert unflatten(structure, leaves) == tree
    hash(structure)
