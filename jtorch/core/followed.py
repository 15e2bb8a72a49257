"""A function of numbers, worked out again for others that go the same way through it.

``followed`` runs it once on numbers that note what is done with them. What comes out is a function without a
branch: the arithmetic, one line after the other, and between the lines each answer that decided the way, as a
guard. Where all answers are the same, its results are those of the function, and where one is not, it says so
(specialisation by tracing: Futamura, Partial Evaluation of Computation Process, 1971).

A number that becomes an ``int``, an index or a key is a guard of its own: that is right for any function, and
of use for few sizes. What is to be one step, as a logarithm that is rounded, is called by ``one_step``.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jtorch.core import config

Result = tuple[Any, list[Any]]
"""What a function gives that is followed: anything that holds no number that it worked out, and these."""

_SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//", operator.mod: "%",
    operator.truediv: "/",
}  # fmt: skip


class Followed:
    """A number, and the name that it has in what is written down."""

    __slots__ = ("name", "notes", "value")

    def __init__(self, value: Any, name: str, notes: _Notes) -> None:
        self.value, self.name, self.notes = value, name, notes

    def __repr__(self) -> str:
        return f"Followed({self.value}, {self.name})"

    def __neg__(self) -> Followed:
        return self.notes.line(f"-{self.name}", -self.value)

    def __abs__(self) -> Followed:
        return self.notes.line(f"abs({self.name})", abs(self.value))

    def __bool__(self) -> bool:
        return self.notes.answer(self.name, bool(self.value))

    def __int__(self) -> int:
        if type(self.value) is not int:
            raise TypeError("a float that is followed becomes an int in a step alone")
        self.notes.answer(f"{self.name} == {self.value}", True)
        return self.value

    __index__ = __int__

    def __hash__(self) -> int:
        return hash(int(self))


_NEUTRAL = {"+": 0, "-": 0, "*": 1, "//": 1}


def _arithmetic(f: Callable[[Any, Any], Any], sign: str) -> tuple[Callable, Callable]:
    neutral, between = _NEUTRAL.get(sign), f" {sign} "

    def left(self: Followed, other: Any) -> Any:
        if type(other) is Followed:
            return self.notes.line(self.name + between + other.name, f(self.value, other.value))
        if type(other) is int and type(self.value) is int:
            if other == neutral:
                return self
            if other == 0 and sign == "*":
                return 0
        return self.notes.line(self.name + between + _name(other), f(self.value, other))

    def right(self: Followed, other: Any) -> Any:
        if sign in "+*":
            return left(self, other)
        return self.notes.line(_name(other) + between + self.name, f(other, self.value))

    return left, right


def _comparison(f: Callable[[Any, Any], bool], sign: str) -> Callable:
    between = f" {sign} "

    def compared(self: Followed, other: Any) -> bool:
        return self.notes.answer(self.name + between + _name(other), f(self.value, _value(other)))

    return compared


for _f, _sign in _SIGNS.items():
    _left, _right = _arithmetic(_f, _sign)
    setattr(Followed, f"__{_f.__name__}__", _left)
    setattr(Followed, f"__r{_f.__name__}__", _right)
for _f, _sign in {
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==",
    operator.ne: "!=",
}.items():  # fmt: skip
    setattr(Followed, f"__{_f.__name__}__", _comparison(_f, _sign))


def _name(n: Any) -> str:
    if type(n) is Followed:
        return n.name
    if type(n) not in (int, float, bool):
        raise TypeError(f"a number that is followed meets {n!r}")
    return repr(n) if n >= 0 else f"({n!r})"


def _value(n: Any) -> Any:
    return n.value if type(n) is Followed else n


def one_step(f: Callable[..., Any], *arguments: Any) -> Any:
    """``f(*arguments)``: one step where numbers among the arguments are followed. The same numbers must give
    the same one."""
    for n in arguments:
        if type(n) is Followed:
            return n.notes.step(f, arguments)
    return f(*arguments)


def alike(a: Any, b: Any) -> bool:
    """Whether two numbers are known to be equal: where they are followed that is no guard."""
    if type(a) is Followed or type(b) is Followed:
        return type(a) is type(b) and a.name == b.name
    return bool(a == b)


class _Notes:
    """The lines of what is written down: ``numbers`` are those it begins with."""

    def __init__(self, numbers: Sequence[Any]) -> None:
        self.lines: list[str] = []
        self.space: dict[str, Any] = {"inf": math.inf, "nan": math.nan}
        self._known: dict[str, Followed] = {}
        self._steps: dict[Callable[..., Any], str] = {}
        self._asked: set[str] = set()
        self.numbers = [Followed(n, f"given[{k}]", self) for k, n in enumerate(numbers)]

    def line(self, text: str, value: Any) -> Followed:
        """The number that ``text`` works out, once."""
        known = self._known.get(text)
        if known is None:
            name = f"n{len(self._known)}"
            known = self._known[text] = Followed(value, name, self)
            self.lines.append(f"{name} = {text}")
        return known

    def answer(self, test: str, answer: bool) -> bool:
        if test not in self._asked:
            self._asked.add(test)
            self.lines.append(f"if {f'not {test}' if answer else test}: return")
        return answer

    def step(self, f: Callable[..., Any], arguments: Sequence[Any]) -> Followed:
        known = self._steps.get(f)
        if known is None:
            known = self._steps[f] = f"f{len(self._steps)}"
            self.space[known] = f
        return self.line(f"{known}({', '.join(map(_name, arguments))})", f(*map(_value, arguments)))

    def function(self, results: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any] | None]:
        body = [*self.lines, f"return [{', '.join(map(_name, results))}]"]
        text = "\n    ".join(["def f(given):", *body])
        exec(compile(text, "<jtorch numbers>", "exec"), self.space)
        return self.space["f"]


class Way(NamedTuple):
    """One way through a function: what it gives beside numbers, and these for the numbers it is asked for;
    None where they go another one."""

    beside: Any
    numbers: Callable[[Sequence[Any]], list[Any] | None]


def followed(f: Callable[[Sequence[Any]], Result], numbers: Sequence[Any]) -> tuple[Way, Result]:
    """The way that ``numbers``, ints and floats, go through ``f``, and what it gives for them. Raises
    TypeError where it does to one of them what cannot be noted."""
    notes = _Notes(numbers)
    beside, results = f(notes.numbers)
    return Way(beside, notes.function(results)), (beside, [*map(_value, results)])


class Ways:
    """``f(numbers)``, by the ways through it that are known. One is followed where ``FIRST`` calls have found
    none, and as long as those that are known serve."""

    FIRST, MOST, UNUSED = 2, 24, 4

    def __init__(self, f: Callable[[Sequence[Any]], Result]) -> None:
        self.f = f
        self.known: tuple[Way, ...] = ()
        self.missed = self.served = 0

    def __call__(self, numbers: Sequence[Any]) -> Result:
        known = self.known
        for k, way in enumerate(known):
            try:
                found = way.numbers(numbers)
            except ArithmeticError:  # only what all guards before it let pass has to be defined
                continue
            if found is not None:
                self.served += 1
                if k:
                    self.known = (way, *known[:k], *known[k + 1 :])
                return way.beside, found
        self.missed += 1
        if self.FIRST < self.missed <= self.FIRST + self.UNUSED + self.served:
            return self._follow(numbers)
        return self.f(numbers)

    def _follow(self, numbers: Sequence[Any]) -> Result:
        try:
            way, result = followed(self.f, numbers)
        except TypeError:
            if config.get("CHECK"):
                raise
            self.missed = -sys.maxsize  # it is asked itself from now on
            return self.f(numbers)
        self.known = (way, *self.known)[: self.MOST]
        return result
