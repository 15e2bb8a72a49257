"""Output that a compiled function puts out at each call: ``print(f"loss {loss.item():.3f}")``.

While it is recorded nothing is put out. The call is noted with what it is given, and each replay makes it
when its kernels have run, in the order of the program, from a frame that shows as the user's line: loggers
tell where they were called. What is put off so must be made of numbers, texts, containers of
these and tensors, which are copied as they are at that line; nothing that the function may do later is to
show, and nobody but the stream is to see it.
"""

from __future__ import annotations

import io
import logging
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jtorch.compile.observe.effects import Place
from jtorch.compile.observe.guards import PLAIN
from jtorch.compile.observe.kinds import is_users
from jtorch.compile.observe.late_texts import (
    Constant,
    Container,
    Copied,
    Late,
    Leaf,
    Result,
    Text,
    as_now,
    is_dropped,
    is_known,
    is_number,
)
from jtorch.compile.observe.stepping import Stop
from jtorch.core.devices import device as Device
from jtorch.core.dim import is_symbolic
from jtorch.core.dtypes import dtype as Dtype
from jtorch.eager.tensor import Size, Tensor

LEVEL_OF = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "critical": 50}
"""What loggers say, and at which level; without what tells of an exception at hand."""

_OF_LOGGERS = {name: getattr(logging.Logger, name) for name in (*LEVEL_OF, "log")}
_OF_LOGGING = {name: getattr(logging, name) for name in (*LEVEL_OF, "log")}
_OF_PRINT = {"sep", "end", "file", "flush"}
_OF_STREAMS = ("write", "writelines", "flush")


@dataclass(frozen=True, eq=False)
class Call(Place):
    """The call ``function`` with what ``arguments`` makes of the values of a replay, as at a user's line.
    ``key`` tells it from others."""

    function: Callable = field(default=print)
    arguments: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()  # of the last of them
    at: Callable = field(default=lambda function, args, named: None)

    def label(self) -> str:
        return f"what {self.function.__name__}() puts out"

    @property
    def identity(self) -> tuple[int, Any]:
        return id(self), self.key

    def put(self, value: Any) -> None:
        made = [argument.made(value) for argument in self.arguments]
        n = len(made) - len(self.names)
        self.at(self.function, made[:n], dict(zip(self.names, made[n:], strict=True)))

    def snapshot(self) -> Callable[[], None]:
        return lambda: None  # what was put out stays

    def undoing(self, value: Any) -> Callable[[], None]:
        return lambda: None  # while the function is recorded it does not happen


def goes_out(callee: Any) -> bool:
    """Whether a call of ``callee`` may be put off, if what it is given allows."""
    if callee is print or callee is list.append:
        return True
    function = getattr(callee, "__func__", callee)
    name = getattr(function, "__name__", "")
    if function is _OF_LOGGERS.get(name) or function is _OF_LOGGING.get(name):
        return True
    if isinstance(callee, types.BuiltinMethodType):
        owner = callee.__self__
        return (name in _OF_STREAMS and is_stream(owner)) or (name == "append" and type(owner) is list)
    is_method = isinstance(callee, types.MethodDescriptorType)
    return is_method and name in _OF_STREAMS and issubclass(callee.__objclass__, _STREAM)


def put_off(stop: Stop, callee: Any, args: list[Any], names: tuple[str, ...], owner: Any = None) -> bool:
    """Have each call make this one when it has ended, and nobody now; whether that can be. ``owner`` is the
    stream or list whose method is called, None for other functions."""
    observer, function = stop.observer, callee
    if not stop.callee or observer.on_the_way_back or observer.text_was_told:
        return False
    made = _Arguments(observer)
    found = []
    if owner is not None:
        is_list = type(owner) is list
        if not is_list and not _is_plain_stream(owner):
            return False
        if not is_dropped(stop.frame.f_code, stop.frame.f_lasti):
            return False
        function = getattr(type(owner), callee.__name__)
        found.append(Constant(owner, f"{type(owner).__name__} {id(owner)}"))
        args = args[1:] if args and args[0] is owner else args
    elif not (goes_out(function) and _takes(function, names) and _is_apart(function, args, observer)):
        return False
    found += [made.of(value) for value in args]
    if None in found:
        return False
    key = f"{function.__name__} {found!r} {names}"
    place = Call(function, key, False, function, tuple(found), names, _as_at(stop.frame))
    observer.effects.put_off(place, made.values, [owner] if type(owner) is list else [])
    stop.put(stop.callee, _nothing)
    return True


def _takes(function: Any, names: tuple[str, ...]) -> bool:
    return _OF_PRINT.issuperset(names) if function is print else not names


def append_later(stop: Stop, callee: Any, args: list[Any]) -> bool:
    """``log.append(f"{loss.item():.3f}")``: whether each call appends to this list from outside when it has
    ended, of what only a replay knows."""
    observer = stop.observer
    owner = args[0] if callee is list.append and args else getattr(callee, "__self__", None)
    if type(owner) is not list or getattr(callee, "__name__", "") != "append":
        return False
    if id(owner) not in observer.outside or id(owner) in observer.given or id(owner) in observer.opened:
        return False
    return put_off(stop, callee, args, (), owner)


def _nothing(*args: Any, **named: Any) -> None:
    """What is called while a function is recorded."""


_STREAM: Any = io.IOBase.__mro__[1]  # of all streams: asking a class written in C runs no code of the user's


def is_stream(value: Any) -> bool:
    return issubclass(type(value), _STREAM)


def _is_plain_stream(stream: Any) -> bool:
    """Whether no code of a user's takes what is written to it, nor is it closed."""
    while is_stream(stream) and not _is_written_by_users(type(stream)) and not stream.closed:
        below = [getattr(stream, name, None) for name in ("buffer", "raw")]
        below = [one for one in below if one is not None]
        if not below:
            return True
        stream = below[0]
    return False


def _is_written_by_users(cls: type) -> bool:
    """Whether a class is of the user's program: neither of a library nor of an installed package, as that of
    a notebook's output is."""
    file = str(getattr(sys.modules.get(cls.__module__), "__file__", ""))
    return is_users(cls) and "site-packages" not in file and "dist-packages" not in file


def _is_apart(function: Any, args: list[Any], observer: Any) -> bool:
    """Whether no code of a user's sees what is put out, which might do what the function then looks at."""
    if function is print:
        return sys.stdout is observer.stdout and _is_plain_stream(sys.stdout)
    named = args and isinstance(args[0], logging.Logger)
    logger: logging.Logger | None = args[0] if named else logging.root
    if logging.getLogRecordFactory() is not logging.LogRecord:
        return False
    while logger is not None:
        heard: list[Any] = [logger, *logger.filters]
        for handler in logger.handlers:
            formatter = handler.formatter
            heard += [handler, *handler.filters, formatter, getattr(formatter, "_style", None)]
            if isinstance(handler, logging.StreamHandler) and not _is_plain_stream(handler.stream):
                return False
            if any(isinstance(fact, types.FunctionType) for fact in vars(formatter or handler).values()):
                return False
        if any(_is_written_by_users(type(each)) or isinstance(each, types.FunctionType) for each in heard):
            return False
        logger = logger.parent
    return True


class _Arguments:
    """What the arguments of calls are made of: ``values`` of each replay, and what stays."""

    def __init__(self, observer: Any) -> None:
        self.observer, self.texts = observer, observer.late_texts
        self.values: list[Any] = []

    def of(self, value: Any) -> Any:
        """What makes ``value`` again, None where nothing may."""
        kind = type(value)
        if is_number(value) or (kind is Size and any(map(is_symbolic, value))):
            return self._leaf(value)
        if kind is Tensor:
            return self.of(as_now(value)) if is_known(value) else None
        if kind is Copied:
            return self._leaf(value.tensor)
        if kind is Late:
            return self._part((value.function, value.arguments))
        if kind is str and self.texts.are_in([value]):
            parts = tuple(self._part(part) for part in self.texts.parts(value))
            return None if None in parts else parts[0] if len(parts) == 1 else Text(parts)
        if kind in PLAIN or kind is Size or isinstance(value, (np.generic, Dtype, Device)):
            return Constant(value, f"{kind.__name__} {value!r}")
        if isinstance(value, logging.Logger) or kind is type or _is_plain_stream(value):
            return Constant(value, f"{kind.__name__} {id(value)}")
        if kind in (tuple, list, dict) and not self._is_from_outside(value):
            keys = tuple(value) if kind is dict else ()
            parts = tuple(self.of(part) for part in (value.values() if kind is dict else value))
            if None in parts or not all(type(key) in PLAIN for key in keys):
                return None
            return Container(kind, keys, parts)
        return None

    def _is_from_outside(self, value: Any) -> bool:
        """Whether each call finds a list or dict, which may be another one then."""
        known = self.observer.outside, self.observer.opened, self.observer.given
        return type(value) is not tuple and any(id(value) in ids for ids in known)

    def _leaf(self, value: Any) -> Leaf:
        self.values.append(value)
        return Leaf(len(self.values) - 1)

    def _part(self, part: Any) -> Any:
        if isinstance(part, str):
            return self.of(part)
        function, arguments = part
        made = tuple(self.of(argument) for argument in arguments)
        return None if None in made else Result(function, function.__name__, made)


_call: Callable = lambda function, args, named: function(*args, **named)  # noqa: E731 - in one line, see below


def _as_at(frame: types.FrameType) -> Callable:
    """What makes a call that shows as one of ``frame`` at its line."""
    code = frame.f_code
    shown = _call.__code__.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname,
        co_firstlineno=frame.f_lineno,
    )  # fmt: skip
    return types.FunctionType(shown, frame.f_globals)
