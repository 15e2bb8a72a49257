"""Code that nobody watches gets what stands for a number or a tensor, and may not take it for one.

Most asks what it gets by Python's protocols, which answer as a number does. Some looks at types
(``json.dumps``, ``1j + k``, ``decimal``), and raises an error that the number itself would not raise; a
function that catches it would be recorded on another way than it goes. Such an error is looked at where it
is caught, or at the end: the function is recorded once more with plain numbers, which are guarded, or
refused where the number is known only when a replay has run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from jtorch.compile.observe.kinds import is_users as is_users_class
from jtorch.compile.observe.scalar import Scalar, StandIn
from jtorch.core.dim import is_symbolic
from jtorch.core.environment import Exact
from jtorch.core.errors import (
    NOT_THE_USERS,
    CompileError,
    Restart,
    instruction_of,
    is_raised_by_user,
    is_users,
    line_of,
)


class Closed(Restart):
    """What the function does with the container at ``place`` needs that very object."""

    def __init__(self, place: Any) -> None:
        super().__init__()
        self.place = place


_STAND_INS = re.compile(r"\b(Scalar|Item|Sym|NumpyArray|Dim|DimFloat)\b")
_OF_STAND_INS = (TypeError, ValueError, RuntimeError, AttributeError)
_ASKING = ("CALL", "PRECALL")  # beginnings of the names of instructions that run code of C's


NUMBERS = (int, float, complex, np.generic)


def is_stand_in(value: Any) -> bool:
    return issubclass(type(value), Scalar)


def stands_in(value: Any) -> bool:
    """Whether ``value`` stands for a number or an array."""
    return issubclass(type(value), StandIn)


def is_array_stand_in(value: Any) -> bool:
    return stands_in(value) and not is_stand_in(value)


def check_attribute(value: Scalar, name: str) -> None:
    """Raise where ``value.name`` is not what it is of the number that ``value`` stands for."""
    kind = type(value.as_runtime_scalar)
    has = hasattr(kind, name)
    if has is not hasattr(type(value), name) and (not has or name.startswith("__")):
        raise value.refuse(f"the attribute {name!r}")
    if has and name != "__class__" and name.startswith("__") and not callable(getattr(kind, name)):
        raise value.refuse(f"the attribute {name!r}")


def check_class(value: Any, cls: Any) -> None:
    """Raise where ``isinstance(value, cls)`` is not what it is of the number that ``value`` stands for."""
    if not is_stand_in(value) or not isinstance(cls, type) or is_users_class(type(cls)):
        return
    scalar: Any = value
    if isinstance(scalar, cls) and not isinstance(value.as_runtime_scalar, cls):
        raise value.refuse(f"isinstance() of a {cls.__name__}")


def check_numbers(values: Iterable[Any], wanted_by: str) -> None:
    """Raise where one of ``values`` stands for a number, and ``wanted_by`` looks for the number itself."""
    for value in values:
        if is_symbolic(value):
            raise Exact(f"{wanted_by} takes no size that is a symbol")
        if stands_in(value):
            raise value.refuse(wanted_by)


def check_error(observer: Any, error: BaseException) -> None:
    """Raise where ``error`` came up because code did not take what stands for a number or a tensor."""
    if not isinstance(error, Exception) or isinstance(error, CompileError):
        return
    named = _is_named(error)
    if observer.numpy_arrays.in_use and not is_raised_by_user(error):  # perhaps by what it does not take
        raise observer.runtime_numbers([]) or CompileError(
            f"{line_of(error)}: '{observer.name}' raises {type(error).__name__} where something stands for "
            f"an array or number of NumPy's while it is recorded ({error})."
        ) from error
    handed = observer.handed if named or _is_of_a_call(error) else []
    if not named and not handed:
        return
    if observer.has_symbols and (named or any(map(is_symbolic, handed))):
        raise Exact(f"code that takes no symbol for a number raises {type(error).__name__}")
    numbers = observer.runtime_numbers([value for value in handed if is_stand_in(value)])
    if numbers is not None:
        raise numbers
    if not _is_of_an_operator(error) if named else isinstance(error, TypeError):
        raise CompileError(
            f"{line_of(error)}: '{observer.name}' hands a number or a tensor that is known only at each call "
            f"to code which does not take what stands for it while a function is recorded "
            f"({type(error).__name__}: {error}). Hand over float() of a number that was passed in, compute "
            "with jtorch's functions, or do this outside."
        ) from error


def _is_named(error: Exception) -> bool:
    """Whether the text names what stands for a number or a tensor, and no class of the user's."""
    text = error.args[0] if error.args and type(error.args[0]) is str else ""  # else a stand-in may be there
    found = _STAND_INS.search(text)
    frame, instruction = instruction_of(error)
    if found is None or frame is None or not isinstance(error, _OF_STAND_INS):
        return False
    if frame.f_code.co_filename.startswith(NOT_THE_USERS):
        return True
    theirs = found[0] in frame.f_globals or found[0] in frame.f_locals
    return isinstance(error, TypeError) and not theirs and instruction != "RAISE_VARARGS"


def _is_of_an_operator(error: Exception) -> bool:
    """Whether one of Python's own operators says of a stand-in what it would say of a number."""
    frame, instruction = instruction_of(error)
    ours = frame is not None and frame.f_code.co_filename.startswith(NOT_THE_USERS)
    return not ours and not instruction.startswith(_ASKING)


def _is_of_a_call(error: Exception) -> bool:
    """Whether it came up in a call of what nobody watches, other than jtorch's."""
    frame, instruction = instruction_of(error)
    if frame is None or frame.f_code.co_filename.startswith(NOT_THE_USERS):
        return False
    return instruction.startswith(_ASKING) or not is_users(frame.f_code.co_filename)
