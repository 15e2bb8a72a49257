"""What the tests of plain Python state share."""

import collections
import dataclasses
import enum

import numpy as np

import jtorch


def t(*values):
    return jtorch.tensor([float(v) for v in values])


@dataclasses.dataclass
class Config:
    rate: float = 0.1
    sizes: list = dataclasses.field(default_factory=lambda: [1, 2])


@dataclasses.dataclass(slots=True)
class Slotted:
    rate: float = 0.1


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


def setting(container, key, value):
    """A change of an item, or of an attribute."""

    def change():
        if isinstance(container, (dict, list, np.ndarray, collections.deque)):
            container[key] = value
        else:
            setattr(container, key, value)

    return change


def assert_noticed(make):
    """``make()`` gives (f, change). ``f(x)`` is called twice, then ``change()``, then ``f(x)`` again:
    compiled and eager are equal each time, what did not change makes no plan, and what changed shows."""
    f, change = make()
    compiled, x, seen = jtorch.compile(f), t(1, 2), []
    seen.append((compiled(x), f(x)))
    seen.append((compiled(x), f(x)))
    assert sum(map(len, compiled.plans.values())) == 1
    undo = change()
    try:
        seen.append((compiled(x), f(x)))
    finally:
        if callable(undo):
            undo()
    for got, expected in seen:
        assert got.tolist() == expected.tolist()
    assert seen[-1][0].tolist() != seen[0][0].tolist()
