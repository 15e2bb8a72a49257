"""The value stack of a running frame, which Python shows to nobody: what an instruction is about to use.

``sys.settrace`` says which instruction comes next, but not what it works on. The interpreter keeps that in a
structure whose layout is fixed within a minor version of CPython; ``LAYOUTS`` has the few offsets that are
needed. Before the first use ``check`` compares addresses found through them with known ones, as integers,
and refuses to go on if they differ: a wrong layout is an error, never a wild pointer.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import Any

NULL: Any = type("Null", (), {"__repr__": lambda self: "NULL"})()


@dataclass(frozen=True)
class Layout:
    """Offsets in bytes: of the inner frame in a frame object; in that of its code, function, stack size and
    first local."""

    inner: int
    code: int
    function: int
    size: int
    slots: int


# Source: Include/internal/pycore_frame.h. Another version also needs its instructions in ``instructions``.
LAYOUTS = {(3, 11): Layout(inner=24, code=32, function=0, size=64, slots=72)}

_word = ctypes.c_size_t.from_address
_int = ctypes.c_int.from_address
_object = ctypes.py_object.from_address
_layout = LAYOUTS.get(sys.version_info[:2], LAYOUTS[3, 11])
_INNER, _SIZE, _SLOTS = _layout.inner, _layout.size, _layout.slots


def peek(frame: FrameType, depth: int) -> Any:
    """The value ``depth`` places down the stack (1 is the top), NULL where an instruction put none. Only
    for a frame that stopped at an instruction, as the trace function sees it."""
    inner = _word(id(frame) + _INNER).value
    try:
        return _object(inner + _SLOTS + 8 * (_int(inner + _SIZE).value - depth)).value
    except ValueError:  # a null pointer
        return NULL


def function_of(frame: FrameType) -> FunctionType | None:
    """The function whose call a frame is; None for a module's or a class's body."""
    found = _object(_word(id(frame) + _INNER).value + _layout.function).value
    return found if isinstance(found, FunctionType) else None


def check() -> None:
    """Raise NotImplementedError unless this interpreter's frames are laid out as ``LAYOUTS`` says."""
    if not _is_right():
        version = ".".join(map(str, sys.version_info[:2]))
        raise NotImplementedError(
            f"jtorch.compile cannot observe functions in {sys.implementation.name} {version}, only in "
            "CPython 3.11. Eager mode runs everywhere."
        )


@functools.cache
def _is_right() -> bool:
    return sys.implementation.name == "cpython" and sys.version_info[:2] in LAYOUTS and _probe()


def _probe() -> bool:
    """Whether the layout is right, on a call whose function and stack are known; compares integers only."""
    found: list[bool] = []

    def target(first: Any, second: Any) -> tuple:
        return (first, second)

    def look(frame: FrameType, event: str, arg: Any) -> Callable | None:
        if frame.f_code is not target.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti >= 0:
            inner = _word(id(frame) + _INNER).value
            right = _word(inner + _layout.code).value == id(target.__code__)
            right = right and _word(inner + _layout.function).value == id(target)
            size = _int(inner + _SIZE).value if right else -1
            if size == 4:  # two locals, and both of them loaded
                top = [_word(inner + _SLOTS + 8 * k).value for k in (2, 3)]
                found.append(top == [id(one), id(two)])
        return look

    one, two = object(), object()
    before = sys.gettrace()
    sys.settrace(look)
    try:
        target(one, two)
    finally:
        sys.settrace(before)
    return found == [True]
