"""Plain Python values that a function reads from outside: globals and closure cells that hold numbers.

Traced values cannot see them, and a recording would keep the number of the first call for ever. So
they are guarded by identity and value. Found by looking at code objects, of the function and of the
Python functions it names: what is read through attributes of other objects, or out of lists and
dicts, is not seen. (Modules announce changed attributes by themselves.)
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class PlainRead:
    """``container[key]`` is ``value``: a dict of globals and a name, or a cell and "cell_contents"."""

    container: Any
    key: str
    value: Any

    def holds(self) -> bool:
        """Whether the value is still the same."""
        now = self.now()
        return now is self.value or (now.__class__ is self.value.__class__ and now == self.value)

    def now(self) -> Any:
        if isinstance(self.container, dict):
            return self.container.get(self.key)
        try:
            return self.container.cell_contents
        except ValueError:  # an empty cell
            return None


def plain_reads(function: Any) -> list[PlainRead]:
    """The plain values that ``function`` and the functions it names may read from outside."""
    found: dict[tuple[int, str], PlainRead] = {}
    seen: set[int] = set()
    stack = [function]
    while stack:
        target = _python_function(stack.pop())
        if target is None or id(target) in seen or target.__module__.startswith("jtorch."):
            continue
        seen.add(id(target))
        for read in _outside(target):
            if isinstance(read.value, PLAIN):
                found[(id(read.container), read.key)] = read
            elif callable(read.value):
                stack.append(read.value)
    return list(found.values())


def _python_function(value: Any) -> types.FunctionType | None:
    if isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, types.MethodType):
        value = value.__func__
    if hasattr(value, "function"):  # another compiled function
        value = value.function
    if not isinstance(value, (types.FunctionType, type)) and hasattr(type(value), "forward"):
        value = type(value).forward  # a Module
    return value if isinstance(value, types.FunctionType) else None


def _outside(function: types.FunctionType) -> Iterator[PlainRead]:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for cell in cells.values():
        try:
            yield PlainRead(cell, "cell_contents", cell.cell_contents)
        except ValueError:
            continue
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield PlainRead(function.__globals__, name, function.__globals__[name])


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)

