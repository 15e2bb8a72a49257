"""The text of a tensor, which shows elements that a recording would keep: ``str(y)``, ``f"{y}"``.

It is let through where it goes to print(), logging, a warning or an exception, whose texts are those of the
recording. Where a text goes to is seen on the stack: the function that waits for it lies below.
"""

from __future__ import annotations

import logging
import sys
import types
import warnings
from typing import Any

from jtorch.compile.observe.frames import NULL
from jtorch.compile.observe.stepping import Stop
from jtorch.core.errors import NOT_THE_USERS, CompileError, Restart, user_source

PLACEHOLDER = "(..., shape="  # what stands in the text of a traced tensor for its elements
_MAKERS: tuple[Any, ...] = (str, repr, format, ascii, print)
_TELLING = ("logging", "warnings", "_warnings")
_FILES = (logging.__file__, warnings.__file__)
_NULL = -1 if sys.version_info >= (3, 13) else 1  # where NULL lies from a function that is no method
_NEAR = 8  # bytes from where an instruction is looked at to where it runs
_OF_OBJECTS = ("__repr__", "__str__", "__format__")


class ErrorText(Restart):
    """jtorch makes a text of what only a replay knows: an error's ("Expected parameter scale ..., but found
    invalid values"). The call runs as plain Python, which raises it; where it cannot, ``refusal`` is said."""

    def __init__(self, refusal: str) -> None:
        super().__init__(refusal)
        self.refusal = refusal


def refused_text(refusal: str, frame: types.FrameType | None) -> BaseException:
    """What to raise for a text of what is not known, which ``frame`` makes: a CompileError, unless a function
    of jtorch's makes it that the user has called for something else."""
    called = None
    while frame is not None and frame.f_code.co_filename.startswith(NOT_THE_USERS):
        called, frame = frame, frame.f_back
    if called is None or called.f_code.co_name in _OF_OBJECTS:
        return CompileError(refusal)
    return ErrorText(refusal)


def makes_text(callee: Any) -> bool:
    """Whether a call makes a text of what it is given."""
    if isinstance(callee, types.BuiltinMethodType) and type(callee.__self__) is str:
        return True
    if isinstance(callee, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return callee.__objclass__ is str
    return any(callee is made for made in _MAKERS)


def see_text(stop: Stop, below: int, callee: Any = None) -> None:
    """A text is about to be made, by ``callee`` or by the instruction itself, for who lies at ``below`` or
    further down the stack."""
    told = callee is print or _is_for_a_message(stop, below)
    stop.observer.telling = (stop.frame, stop.frame.f_lasti) if told else None


def _is_for_a_message(stop: Stop, below: int) -> bool:
    for k in range(below, stop.place.depth + 1):
        value = stop.peek(k)
        if value is AssertionError:
            return True
        if not callable(value) or (makes_text(value) and value is not print):
            continue
        if isinstance(value, types.FunctionType) and value.__module__ in _TELLING:
            return True
        at = k + _NULL
        called = 0 < at <= stop.place.depth and stop.peek(at) is NULL
        if called and (value is print or getattr(value, "__module__", None) in _TELLING):
            return True
        return called and isinstance(value, type) and issubclass(value, BaseException)
    return False


def check_text(observer: Any) -> None:
    """Raise the CompileError of a tensor's text that goes elsewhere."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(NOT_THE_USERS):
        frame = frame.f_back
    observer.text_was_told = True
    if frame.f_code.co_filename in _FILES:
        return
    told, at = observer.telling or (None, 0)
    if told is frame and 0 <= frame.f_lasti - at <= _NEAR:
        return
    raise refused_text(
        f"{user_source()}: the text of a tensor needs its elements, which are not known while a function is "
        "compiled. Return the tensor and make the text outside; print(), logging and the messages of "
        "exceptions may show it here.",
        sys._getframe(1),
    )


def check_kept(values: list[Any], name: str) -> None:
    """Raise for a text of a message that is kept, as ``str(error)`` is where an exception was caught."""
    if any(isinstance(value, str) and PLACEHOLDER in value for value in values):
        raise CompileError(
            f"'{name}' keeps or returns the text of a tensor, whose elements are not known while a function "
            "is compiled. Return the tensor and make the text outside."
        )
