"""The value stack of a running frame, which Python shows to nobody: what an instruction is about to use.

The interpreter keeps it in a structure whose layout is fixed within a minor version of CPython: what is
particular to a version stands in ``LAYOUTS``, and nowhere else. Before the first use ``is_right`` compares
addresses found through a layout with known ones, as integers: a wrong layout is an error, never a wild
pointer. How deep the stack is at an instruction follows from the code, see ``stack_depth``.
"""

from __future__ import annotations

import ctypes
import dis
import platform
import sys
import sysconfig
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

NULL: Any = type("Null", (), {"__repr__": lambda self: "NULL"})()


@dataclass(frozen=True)
class Layout:
    """Offsets in bytes in the interpreter's frame: of its code, its function, the frame object that Python
    shows of it, and its first local variable, behind which the other ones, cells and the stack follow."""

    code: int
    function: int
    shown: int
    locals: int


# Source: Include/internal/pycore_frame.h, from 3.14 on pycore_interpframe_structs.h
LAYOUTS = {
    (3, 11): Layout(code=32, function=0, shown=40, locals=72),
    (3, 12): Layout(code=0, function=16, shown=48, locals=72),
    (3, 13): Layout(code=0, function=16, shown=48, locals=72),
    (3, 14): Layout(code=0, function=16, shown=48, locals=80),
    (3, 15): Layout(code=0, function=16, shown=48, locals=80),
}
KNOWN = ", ".join(f"{major}.{minor}" for major, minor in LAYOUTS)

# the events of an instruction with a large argument come before its prefix alone, later before both
STOPS_AT_PREFIX = sys.version_info < (3, 12)

_INNER = 24  # of the interpreter's frame in a frame object, in all of them
_TAG = 3  # from 3.14 on the low bits tell whether a reference is counted; 3 is a number, no reference

_UNCOUNTED = 1 if sys.version_info >= (3, 14) else 0  # the tag of True, False and None

_word = ctypes.c_size_t.from_address
_object = ctypes.py_object.from_address
_box = ctypes.py_object.from_buffer
_counting = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_count, _discount = (_counting((name, ctypes.pythonapi)) for name in ("Py_IncRef", "Py_DecRef"))
_layout = LAYOUTS.get(sys.version_info[:2], LAYOUTS[3, 11])
_FUNCTION, _LOCALS = _layout.function, _layout.locals


def locals_of(frame: FrameType) -> int:
    """The address of the first local variable. The stack's lowest value lies ``n_locals`` words above."""
    return _word(id(frame) + _INNER).value + _LOCALS


def n_locals(code: CodeType) -> int:
    """How many words local variables and cells take; an argument that is a cell, too, takes one."""
    shared = set(code.co_varnames)
    return code.co_nlocals + sum(name not in shared for name in code.co_cellvars) + len(code.co_freevars)


def value_at(address: int) -> Any:
    """The object that a word of a frame refers to, NULL where there is none."""
    word = _word(address).value
    if word & _TAG == _TAG or not word & ~_TAG:
        return NULL
    if not word & _TAG:
        return _object(address).value
    return _box(ctypes.c_size_t(word & ~_TAG)).value


def put(address: int, value: Any) -> None:
    """Have a word of a frame refer to ``value`` instead of what it refers to, of which it holds a reference
    unless a tag says that it does not."""
    old = _word(address).value
    if _UNCOUNTED and (value is True or value is False or value is None):  # jumps compare with these words
        _word(address).value = id(value) | _UNCOUNTED
    else:
        _count(id(value))
        _word(address).value = id(value)
    if not old & _TAG:
        _discount(old)


def function_of(frame: FrameType) -> FunctionType | None:
    """The function whose call a frame is; None for a module's or a class's body."""
    found = value_at(_word(id(frame) + _INNER).value + _FUNCTION)
    return found if isinstance(found, FunctionType) else None


def require_known() -> None:
    """Raise NotImplementedError unless this is an interpreter of ``LAYOUTS``: CPython with the lock, built
    in the usual way."""
    known = (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] in LAYOUTS
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and object.__basicsize__ == 16
        and ctypes.sizeof(ctypes.c_void_p) == 8
    )
    if not known:
        raise unsupported("its frames are not known here")


def unsupported(why: str) -> NotImplementedError:
    """The error that functions cannot be recorded by this interpreter."""
    return NotImplementedError(
        f"jtorch.compile records functions in CPython {KNOWN}, and not in {sys.implementation.name} "
        f"{platform.python_version()}: {why}. Eager mode runs everywhere: with JTORCH_COMPILE=0 decorated "
        "functions do, too."
    )


def is_right(code: CodeType, function: FunctionType, frame: FrameType, values: tuple) -> bool:
    """Whether the layout is right for the frame of a call of ``function``, which is known to hold ``values``
    in its locals and stack, from the first on. Compares integers, and follows no pointer it has not seen."""
    inner = _word(id(frame) + _INNER).value
    if inner % 8 or _word(inner + _layout.shown).value != id(frame):
        return False
    header = [_word(inner + place).value & ~_TAG for place in (_layout.code, _FUNCTION)]
    held = [_word(inner + _LOCALS + 8 * k).value & ~_TAG for k in range(len(values))]
    return header == [id(code), id(function)] and held == list(map(id, values))


def changes_more(frame: FrameType) -> bool:
    """Whether what follows the instruction of ``frame``, up to where branches part or meet, stores something
    or calls something for what it does: a call whose result is dropped."""
    after = [i for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti]
    if after and after[0].opname == "POP_TOP":  # of this very call
        del after[0]
    called = False
    for instruction in after:
        name = instruction.opname
        if instruction.is_jump_target or "JUMP" in name or name.startswith(("RETURN", "RAISE")):
            return False
        if name.startswith(("STORE_", "DELETE_")) and not name.startswith("STORE_FAST"):
            return True
        if called and name == "POP_TOP":
            return True
        called = name.startswith("CALL")
    return False
