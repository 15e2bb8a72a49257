"""A little algebra of index expressions: how a view that moves elements irregularly says where from.

A strided view (transpose, slice, expand) needs none of this. ``pad``, ``cat``, ``index`` do: for each
position of their output they *select* an element to *read*. An ``index_map`` gets the output's
coordinates as expressions and answers with a tree of ``Select``, ``Read`` and ``Fill``; the code
generator prints the tree, the interpreter never needs it (it runs the NumPy body).

    pad by one on the left of n elements:   Select(i >= 1, Read(0, (i - 1,)), Fill(0))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jtorch.core.sizes import integer


class Expr:
    """An integer or truth value computed from coordinates. Arithmetic builds larger ones."""

    __slots__ = ()

    def __add__(self, other: Expr | int) -> Expr:
        return self if other == 0 and isinstance(other, int) else Binary("+", self, wrap(other))

    def __sub__(self, other: Expr | int) -> Expr:
        return self if other == 0 and isinstance(other, int) else Binary("-", self, wrap(other))

    def __mul__(self, other: Expr | int) -> Expr:
        return self if other == 1 and isinstance(other, int) else Binary("*", self, wrap(other))

    def __floordiv__(self, other: Expr | int) -> Expr:
        return self if other == 1 and isinstance(other, int) else Binary("//", self, wrap(other))

    def __mod__(self, other: Expr | int) -> Expr:
        return Binary("%", self, wrap(other))

    def __lt__(self, other: Expr | int) -> Expr:
        return Binary("<", self, wrap(other))

    def __ge__(self, other: Expr | int) -> Expr:
        return Binary(">=", self, wrap(other))

    def equals(self, other: Expr | int) -> Expr:
        return Binary("==", self, wrap(other))

    def __and__(self, other: Expr) -> Expr:
        return Binary("and", self, other)


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate(Expr):
    """The position along axis ``axis`` of the output."""

    axis: int


@dataclass(frozen=True, slots=True, eq=False)
class Size(Expr):
    """An int known when the plan is made; a run-time argument of the kernel."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class Step(Expr):
    """An int that is part of the program's structure, as a stride is: it stands in the kernel's text, where a
    division by it takes a shift or a multiplication."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    sign: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Loaded(Expr):
    """An integer element of input ``source``; outside ``range(bound)`` the kernel stops with ``error``."""

    source: int
    at: tuple[Expr, ...]
    bound: int
    error: str


class Choice:
    """What an output element is."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Read(Choice):
    """The element of input ``source`` at ``at``."""

    source: int
    at: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fill(Choice):
    value: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Select(Choice):
    condition: Expr
    then: Choice
    otherwise: Choice


def wrap(value: Expr | int) -> Expr:
    return value if isinstance(value, Expr) else Size(integer(value))


def within(position: Expr, start: int, count: int, step: int) -> tuple[Expr, Expr]:
    """Whether ``position`` is one of ``start, start + step, ...`` (``count`` of them), and which."""
    offset = position - start
    inside = (offset >= 0) & (offset < count * step)
    if step != 1:
        inside = inside & (offset % Step(step)).equals(0)
    return inside, offset if step == 1 else offset // Step(step)


def every(conditions: list[Expr]) -> Expr:
    """All of several conditions, of which there is at least one."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = result & condition
    return result


def is_loaded(expr: Expr) -> bool:
    """Whether an integer from memory takes part in ``expr``, which is checked where it is read."""
    return any(loaded(expr))


def loaded(tree: Expr | Choice) -> Iterator[Loaded]:
    """The integers from memory that take part in ``tree``."""
    if isinstance(tree, Loaded):
        yield tree
    elif isinstance(tree, Binary):
        yield from loaded(tree.left)
        yield from loaded(tree.right)
    elif isinstance(tree, Select):
        for part in (tree.condition, tree.then, tree.otherwise):
            yield from loaded(part)
    elif isinstance(tree, Read):
        for part in tree.at:
            yield from loaded(part)
