"""A pickle read as data: the opcodes that containers, numbers and text are made of, and no others.

A global is looked up in a table that the caller gives, never imported; what is called is only what that
table says can be. Python's own unpickler is not used: it can be made to call ``__setstate__``, to allocate
memory for any memo number, and to do what later versions add.
Source: https://github.com/python/cpython/blob/main/Lib/pickletools.py
"""

from __future__ import annotations

import pickle
import pickletools
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.core.errors import DataError

_MARK = object()


class Constructor:
    """A global that may be called: its name in the file, and what makes the value.

    ``each``: the bytes that a call takes for each element of its arguments.
    """

    __slots__ = ("each", "make", "name", "new")

    def __init__(
        self, name: str, make: Callable[..., Any], new: Callable[..., Any] | None = None, each: int = 64
    ) -> None:
        self.name = name
        self.make = make
        self.each = each
        self.new = new or make  # what stands for ``cls.__new__(cls, ...)``


class UnsafeGlobalError(DataError, pickle.UnpicklingError):
    """A file needs a class or function that is no plain data."""


class Budget:
    """What reading may make in memory beside the storages: so that a small file stays a small load.

    A pickle names one value any number of times, and a byte of it may stand for a set of 216: what the
    opcodes make is counted before it can fill the memory.
    """

    LEAST = 1 << 27  # bytes that any file may make
    PER_BYTE = 32  # and beyond those: per byte of the file. A pickled list of numbers makes 8

    def __init__(self, file_size: int) -> None:
        self.limit = max(self.LEAST, self.PER_BYTE * file_size)
        self.left = self.limit

    def spend(self, size: int) -> None:
        """Raise ValueError where ``size`` bytes more are too many."""
        self.left -= size
        if self.left < 0:
            raise ValueError(f"it unfolds to more than {self.limit} bytes")


def set_size(count: int) -> int:
    """Bytes of a set's table, at most: it grows to four times its elements, above 50,000 to twice."""
    return 56 * (count + min(count, 50_000))


def dict_size(target: dict, count: int) -> int:
    """Bytes of the table ``target`` has with ``count`` items, at most; an OrderedDict has links beside it."""
    first, each = (256, 128) if isinstance(target, OrderedDict) else (160, 64)
    return first + each * count if count else 0


def loads(
    data: bytes,
    where: str,
    find: Callable[[str, str], Any],
    persistent: Callable[[Any], Any],
    build: Callable[[Any, Any], None],
    budget: Budget | None = None,
) -> Any:
    """The object in ``data``.

    ``find(module, name)`` gives what stands for a global, ``persistent(id)`` an object kept outside the
    pickle, ``build(object, state)`` sets an object's state. Raises DataError for damage and whatever these
    three raise.
    """
    machine = _Machine(find, persistent, build, budget or Budget(len(data)))
    position = 0
    try:
        for opcode, argument, at in pickletools.genops(data):
            position = at or 0
            machine.run(opcode.name, argument)
        return machine.result()
    except (DataError, NotImplementedError):
        raise
    except (
        ValueError, TypeError, LookupError, AttributeError, ArithmeticError, struct.error,
        RecursionError, MemoryError,
    ) as error:  # fmt: skip
        reason = str(error)[:500]
        raise DataError(f"{where}: a malformed pickle, at byte {position}: {reason}") from None


class _Machine:
    def __init__(self, find: Callable, persistent: Callable, build: Callable, budget: Budget) -> None:
        self.find = find
        self.persistent = persistent
        self.build = build
        self.budget = budget
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.keys = Keys(budget.spend)
        self.finished = False

    def run(self, name: str, argument: Any) -> None:
        if name in _IGNORED:
            return
        self.budget.spend(_COSTS.get(name, 16))
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _ARGUMENTS:
            self.budget.spend(sys.getsizeof(argument))
            self.stack.append(argument)
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        else:
            raise ValueError(f"the opcode {name} is none of plain data's")

    def result(self) -> Any:
        if not self.finished or len(self.stack) != 1:
            raise ValueError(f"it ends with {len(self.stack)} values")
        return self.pop()

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise ValueError("a mark where a value was expected")
        return value

    def top(self, kind: type) -> Any:
        value = self.stack[-1]
        if not isinstance(value, kind):
            raise ValueError(f"a {kind.__name__} was expected")
        return value

    def since_mark(self) -> list[Any]:
        values: list[Any] = []
        while (value := self.stack.pop()) is not _MARK:
            values.append(value)
        values.reverse()
        return values

    def remember(self, number: int) -> None:
        value = self.stack[-1]
        if value is _MARK:
            raise ValueError("a mark where a value was expected")
        self.memo[number] = value

    def take(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self.stack.append(tuple(reversed(values)))

    def set_items(self, flat: list[Any]) -> None:
        target = self.top(dict)
        if len(flat) % 2:
            raise ValueError("a key without a value")
        before = len(target)
        self.budget.spend(dict_size(target, before + len(flat) // 2) - dict_size(target, before))
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            target[self.keys.checked(key)] = value

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def call(self, new: bool = False) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Constructor) or not isinstance(arguments, tuple):
            raise ValueError(f"a call of {_told(function)}")
        # what goes in is looked at, and much of it copied, each time: it may be one memoised list
        self.budget.spend(200 + sum(function.each * len(a) for a in arguments if isinstance(a, _SIZED)))
        self.stack.append((function.new if new else function.make)(*arguments))

    def add_items(self) -> None:
        values, target = self.since_mark(), self.top(set)
        self.budget.spend(set_size(len(target) + len(values)) - set_size(len(target)))
        target.update(map(self.keys.checked, values))

    def frozen_set(self) -> None:
        values = self.since_mark()
        self.budget.spend(set_size(len(values)))
        self.stack.append(frozenset(map(self.keys.checked, values)))

    def set_state(self) -> None:
        state = self.pop()
        self.budget.spend(300 + (64 * len(state) if isinstance(state, _SIZED) else 0))
        self.build(self.stack[-1], state)

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("a global without a name")
        self.budget.spend(len(module) + len(name))
        self.stack.append(self.find(module, name))

    def named_global(self, text: str) -> None:
        self.budget.spend(len(text))
        module, _, name = text.partition(" ")  # genops joins the two lines by a space
        self.stack.append(self.find(module, name))

    def persistent_id(self) -> None:
        self.stack.append(self.persistent(self.pop()))

    def finish(self) -> None:
        self.finished = True


_PLAIN_KEYS = (str, bytes, int, float, complex, type(None))
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
_LONGEST_KEY = 64  # parts of a tuple; and 64 bits for each of an int: their hashes are not kept
_MOST_COLLISIONS = 64


def hashable(key: Any) -> Any:
    """``key`` where it is a plain value or a tuple of such: deeper ones exhaust the stack in ``hash``."""
    if isinstance(key, tuple) and len(key) <= _LONGEST_KEY and all(isinstance(k, _PLAIN_KEYS) for k in key):
        parts = key
    elif isinstance(key, (tuple, frozenset)):
        raise ValueError("a key nested too deep, or too long")
    else:
        parts = (key,)
    if any(isinstance(part, int) and part.bit_length() > 64 * _LONGEST_KEY for part in parts):
        raise ValueError("a key that is too long a number")
    hash(key)  # TypeError for what has none
    return key


class Keys:
    """The keys that were met, so that no dict is filled with those of one hash.

    Python hashes text with a secret, numbers without one: 40,000 ints that are multiples of 2**61 - 1 take a
    dict 20 seconds. ``spend`` is told the bytes that remembering takes.
    """

    def __init__(self, spend: Callable[[int], None] = lambda size: None) -> None:
        self._spend = spend
        self._first: dict[int, Any] = {}
        self._others: dict[int, list[Any]] = {}

    def checked(self, key: Any) -> Any:
        """``key``. Raises ValueError for one that cannot be, or that is one of too many of its hash."""
        key = hashable(key)
        if isinstance(key, (str, bytes)) or key is None:
            return key
        number = hash(key)
        if isinstance(key, int) and key == number:  # no two of them have one hash: nothing to remember
            return key
        if number not in self._first:
            self._spend(128)
        first = self._first.setdefault(number, key)
        if first is not key and first != key:
            others = self._others.setdefault(number, [])
            if key not in others:
                self._spend(256)
                others.append(key)
            if len(others) > _MOST_COLLISIONS:
                raise ValueError("keys that are made to collide")
        return key


def told(value: Any, most: int = 80) -> str:
    """``value`` for a message: never more than a line of it, however it is nested and whatever it says.

    A file of 600 bytes can hold a tuple whose text has 2**40 parts.
    """
    if isinstance(value, str):
        return repr(value[:most])
    if value is None or isinstance(value, (bool, float, dt.dtype)):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if value.bit_length() <= 64 else f"an int of {value.bit_length()} bits"
    if (
        isinstance(value, (tuple, list))
        and len(value) <= 16
        and all(type(v) is int and v.bit_length() <= 64 for v in value)
    ):
        return str(tuple(value))
    return _told(value)


def _told(value: Any) -> str:
    return f"a {type(value).__name__}"


_IGNORED = frozenset({"PROTO", "FRAME"})
_COSTS = {"EMPTY_LIST": 72, "EMPTY_DICT": 80, "EMPTY_SET": 232, "FROZENSET": 232, "TUPLE": 64, "TUPLE1": 64,
    "TUPLE2": 64, "TUPLE3": 72, "MEMOIZE": 128, "BINPUT": 128, "LONG_BINPUT": 128, "GLOBAL": 200,
    "STACK_GLOBAL": 200, "BINPERSID": 200, "APPEND": 56}  # fmt: skip
"""Bytes that an opcode makes, its place on the stack included; others take a place and no more.

The tables of sets and dicts are paid for as they grow: see ``set_size``.
"""
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_LIST": list,
    "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple, "EMPTY_SET": set, "MARK": lambda: _MARK,
}  # fmt: skip
_ARGUMENTS = frozenset({
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
})  # fmt: skip
_ACTIONS: dict[str, Callable[[_Machine, Any], Any]] = {
    "BINPUT": lambda m, n: m.remember(n),
    "LONG_BINPUT": lambda m, n: m.remember(n),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)),
    "BINGET": lambda m, n: m.stack.append(m.memo[n]),
    "LONG_BINGET": lambda m, n: m.stack.append(m.memo[n]),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.since_mark())),
    "TUPLE1": lambda m, _: m.take(1),
    "TUPLE2": lambda m, _: m.take(2),
    "TUPLE3": lambda m, _: m.take(3),
    "APPEND": lambda m, _: (value := m.pop(), m.top(list).append(value)),
    "APPENDS": lambda m, _: (values := m.since_mark(), m.top(list).extend(values)),
    "ADDITEMS": lambda m, _: m.add_items(),
    "FROZENSET": lambda m, _: m.frozen_set(),
    "SETITEM": lambda m, _: m.set_item(),
    "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
    "GLOBAL": lambda m, text: m.named_global(text),
    "STACK_GLOBAL": lambda m, _: m.stack_global(),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(new=True),
    "BUILD": lambda m, _: m.set_state(),
    "BINPERSID": lambda m, _: m.persistent_id(),
    "STOP": lambda m, _: m.finish(),
}
