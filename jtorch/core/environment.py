"""The symbols of one recording, what is known of them, and what it has asked of them: see ``core/dim.py``."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from jtorch.core.errors import Restart, Source, user_source
from jtorch.core.polynomial import Atom, Terms, added, is_constant, replaced

NAMES = re.compile(r"[A-Za-z_]\w*")
LEAST = 2  # of a symbol: programs treat 0 and 1 in their own ways, so these are recorded as they are


class Exact(Restart):
    """Sizes must be numbers, for a reason in words; those of these ``symbols``, where any are named."""

    def __init__(self, why: str, symbols: Collection[str] = ()) -> None:
        super().__init__(why)
        self.symbols = frozenset(symbols)


@dataclass(frozen=True, slots=True)
class SizeGuard:
    """Something that sizes must answer alike: ``text`` is Python. ``source`` is the line that asked, None
    where the planner did. ``pins``: it is a number's value, not a comparison."""

    text: str
    source: Source | None
    pins: bool = False


def is_same_float(a: float, b: float) -> bool:
    """Whether they are one number: nan is nan, and 0.0 is not -0.0."""
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b) if a == a else b != b


def _content(value: Any) -> Any:
    """What tells functions apart that compute something else, and what they hold."""
    if isinstance(value, types.FunctionType):
        held = tuple(_content(cell.cell_contents) for cell in value.__closure__ or ())
        return value.__code__, _content(value.__defaults__), _content(value.__kwdefaults__), held
    if isinstance(value, dict):
        return dict, tuple((k, _content(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_content, value))
    if isinstance(getattr(value, "env", None), Environment):
        return Environment, value.text
    if isinstance(value, float):  # -0.0 is equal to 0.0, and NaN to nothing
        return float, value.hex()
    return (type(value), value) if type(value).__hash__ is not None else id(value)


def is_computed(expression: Callable[[], Any]) -> bool:
    """Whether it is a real number, and no error."""
    try:
        return type(expression()) is not complex
    except (ArithmeticError, ValueError):  # of a domain, as math.sqrt(-1) raises
        return False


class Environment:
    """The symbols of one recording, what is known of them, and what was asked of them.

    ``planning``: the recording is over and its plan is being made. ``closed``: that is made, too. Then a
    question is an error: whoever asks has kept a symbol.
    """

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.symbols: list[str] = []
        self.limits: list[str] = []  # of each symbol, as Python
        self.guards: dict[str, SizeGuard] = {}
        self._named: dict[Any, str] = {}  # the names of functions, by what they are
        self.functions: dict[str, Any] = {
            "max": max, "min": min, "inf": math.inf, "nan": math.nan, "same": is_same_float,
            "is_computed": is_computed,
        }  # fmt: skip
        self.planning = self.closed = self.looking = False
        self.version = 0  # moves on when something is solved
        self._known: dict[str, int] = {}
        self._closed_with: dict[str, SizeGuard] = {}
        self._solved: dict[int, Terms] = {}  # atoms that guards say are equal to something else

    @property
    def tests(self) -> list[str]:
        """The guards, as Python."""
        return list(self.guards)

    def atom(self, atom: Atom) -> int:
        """The number of an atom, which has one by its text."""
        if atom.text not in self._known:
            self._known[atom.text] = len(self.atoms)
            self.atoms.append(atom)
        return self._known[atom.text]

    def number_of(self, text: str) -> int:
        """The number of a known atom."""
        return self._known[text]

    def value_of(self, symbol: str) -> int:
        """The number that a symbol is in this run."""
        return self.atoms[self._known[symbol]].value

    def symbols_in(self, text: str) -> set[str]:
        """The names of the symbols that a text has."""
        return {name for name in NAMES.findall(text) if name in self.symbols}

    def is_about(self, test: str, names: Collection[str]) -> bool:
        """Whether a test asks of no other symbols than those of these ``names``."""
        return self.symbols_in(test) <= {*names}

    def function(self, f: Callable) -> str:
        """A name for ``f`` in texts: one for all functions that are the same code over equal things."""
        key = _content(f)
        name = self._named.get(key)
        if name is None:
            name = self._named[key] = f"of_sizes{len(self.functions)}"
            self.functions[name] = f
        return name

    def decide(self, test: str, answer: bool, pins: bool = False) -> bool:
        """``answer``, which is that of this run, noted."""
        if self.looking:
            return answer
        if self.closed:
            raise AssertionError(f"a size of a recording that is over was asked: {test}")
        text = test if answer else f"not {test}"
        if text not in self.guards:
            self.guards[text] = SizeGuard(text, None if self.planning else user_source(), pins)
        return answer

    def exact(self, n: Any) -> int:
        """The number that ``n`` is, noted."""
        terms = n.terms
        if is_constant(terms):
            return terms.get((), 0)
        number = n.value
        self.decide(f"{n.text} == {number}", True, pins=True)
        self.solve(added(terms, {(): 1}, -number))
        return number

    def solve(self, terms: Terms) -> None:
        """A guard says that a polynomial is 0: an atom in it is written by the others. While a plan is made
        expressions stay as they are, as dictionaries hold them."""
        if self.planning:
            return
        for term, c in sorted(terms.items(), reverse=True):
            alone = len(term) == 1 and c in (1, -1)
            if alone and not any(term[0] in other for other in terms if other != term):
                rest = {other: -d * c for other, d in terms.items() if other != term}
                by = {term[0]: rest}
                self._solved = {a: replaced(t, by) for a, t in self._solved.items()} | by
                self.version += 1
                return

    def close(self) -> None:
        """All is recorded and planned."""
        self.closed, self._closed_with = True, dict(self.guards)

    @contextmanager
    def planning_for(self, space: Mapping[str, Any]) -> Iterator[None]:
        """Plan a part once more, for the sizes that texts find in ``space``: they answer what is asked, which
        is noted beside what had been asked when all was closed."""
        self.guards = dict(self._closed_with)
        self.atoms = [replace(atom, value=eval(atom.text, dict(space))) for atom in self.atoms]
        self.version += 1
        self.closed = False
        try:
            yield
        finally:
            self.closed = True

    @contextmanager
    def looked_into(self) -> Iterator[None]:
        """Somebody looks into a plan that is made: what is asked is that of this run, and noted nowhere."""
        self.looking = True
        try:
            yield
        finally:
            self.looking = False

    def current(self, terms: Terms) -> Terms:
        """``terms`` without atoms that are solved."""
        return replaced(terms, self._solved)
