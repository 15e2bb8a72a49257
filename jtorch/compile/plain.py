"""What a function reads from outside without going through its arguments: globals, closure cells, and what
hangs on the objects it finds there.

Traced values cannot see such reads, and a recording would keep the number, or the tensor, of the
first call for ever. So they are guarded: numbers and strings by value, tensors, modules and all else
by identity. Found by looking at code objects, of the function and of the Python functions it names:
attributes of objects and items of dicts count where a name or a string in that code is theirs. What
lies in lists and sets is not seen. (Modules announce changed attributes by themselves.)
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MISSING = object()


@dataclass(frozen=True, slots=True)
class PlainRead:
    """``container[key]`` is ``value``: a dict and a key, or a closure cell and "cell_contents".

    Where not ``guarded``, somebody else tells of changes between calls, and only those during a
    recording matter.
    """

    container: Any
    key: str
    value: Any
    guarded: bool = True

    def holds(self) -> bool:
        """Whether the value is still the same."""
        now, before = self.now(), self.value
        if now is before:
            return True
        if now.__class__ is not before.__class__ or not isinstance(before, PLAIN):
            return False
        if isinstance(before, float) and not before:
            return not now and math.copysign(1.0, now) == math.copysign(1.0, before)
        return bool(now == before)

    def restore(self) -> None:
        """Put the value back."""
        if isinstance(self.container, dict):
            self.container[self.key] = self.value
        else:
            self.container.cell_contents = self.value

    def now(self) -> Any:
        if isinstance(self.container, dict):
            return self.container.get(self.key, _MISSING)
        try:
            return self.container.cell_contents
        except ValueError:  # an empty cell
            return _MISSING


def plain_reads(function: Any, arguments: Iterable[Any] = ()) -> list[PlainRead]:
    """What ``function`` and the functions it names may read from outside, or from ``arguments`` that are
    objects of a class of their own."""
    return _Search().run(function, arguments)


class _Search:
    def __init__(self) -> None:
        self.found: dict[tuple[int, str], PlainRead] = {}
        self.seen: dict[int, Any] = {}
        self.objects: list[Any] = []
        self.functions: list[types.FunctionType] = []
        self.names: set[str] = set()

    def run(self, function: Any, arguments: Iterable[Any]) -> list[PlainRead]:
        self._meet(function)
        for argument in arguments:
            self._meet(argument)
        done = -1
        while done != len(self.seen):  # a new function may name what an object seen before has
            done = len(self.seen)
            for found in list(self.functions):
                for read in _outside(found):
                    self._read(read)
            for value in list(self.objects):
                for read in self._inside(value):
                    self._read(read)
        return list(self.found.values())

    def _read(self, read: PlainRead) -> None:
        if isinstance(read.value, (types.ModuleType, types.BuiltinFunctionType, type)):
            return
        if not _ours(read.value):
            self.found.setdefault((id(read.container), read.key), read)
        self._meet(read.value)

    def _meet(self, value: Any) -> None:
        """Look once at ``value`` for what can be read of it."""
        if isinstance(value, (types.ModuleType, type, *PLAIN)) or id(value) in self.seen:
            return
        self.seen[id(value)] = value
        if isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._meet(part)
        elif isinstance(value, types.MethodType):
            self._meet(value.__self__)
            self._meet(value.__func__)
        elif isinstance(value, types.FunctionType):
            if not _ours(value):
                self.functions.append(value)
                self.names.update(_names(value.__code__))
        elif not isinstance(value, types.BuiltinFunctionType):
            self._meet_object(value)

    def _meet_object(self, value: Any) -> None:
        self.objects.append(value)
        facts = getattr(value, "__dict__", None)
        if isinstance(facts, dict) and callable(facts.get("function")):  # another compiled function
            self._meet(facts["function"])
        elif _is_module(value):
            for module in value.modules():
                self._meet(module)
        call = getattr(type(value), "forward" if _is_module(value) else "__call__", None)
        if isinstance(call, types.FunctionType):
            self._meet(call)

    def _inside(self, value: Any) -> Iterator[PlainRead]:
        """What the code names of an object: its attributes, or the items of a dict."""
        if isinstance(value, dict):
            for key in [k for k in value if isinstance(k, str) and k in self.names]:
                yield PlainRead(value, key, value[key])
            return
        facts = getattr(value, "__dict__", None)
        if not isinstance(facts, dict):
            return
        is_module = _is_module(value)
        for registered in (facts["_parameters"], facts["_buffers"]) if is_module else ():
            for key in [k for k in registered if k in self.names]:
                yield PlainRead(registered, key, registered[key], guarded=False)
        if type(value).__module__.startswith("jtorch."):
            if "last_epoch" in facts and "optimizer" in facts:  # a scheduler must not be stepped inside
                yield PlainRead(facts, "last_epoch", facts["last_epoch"], guarded=False)
            return
        for key in [k for k in facts if k in self.names]:
            if not is_module or (isinstance(facts[key], (dict, *PLAIN)) and key not in _MODULE_FACTS):
                yield PlainRead(facts, key, facts[key], guarded=not is_module)
        for name in self.names & vars(type(value)).keys():
            method = vars(type(value))[name]
            method = method.fget if isinstance(method, property) else method
            if isinstance(method, types.FunctionType) or hasattr(method, "function"):
                self._meet(method)


_MODULE_FACTS = ("training", "_parameters", "_buffers", "_modules")


def _is_module(value: Any) -> bool:
    return hasattr(type(value), "forward") and hasattr(type(value), "named_modules")


def _ours(value: Any) -> bool:
    module = getattr(value, "__module__", None)
    return isinstance(value, types.FunctionType) and isinstance(module, str) and module.startswith("jtorch.")


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
    """Names of globals and attributes, and strings that may be keys."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
        elif isinstance(constant, str):
            yield constant
