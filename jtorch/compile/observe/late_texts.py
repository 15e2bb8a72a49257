"""Texts that show numbers of the call, on their way to a call that puts them out: ``f"loss {x.item():.3f}"``.

While a function is recorded nobody knows their digits. Where such a text goes straight to ``print``, a logger
or a stream, a marker takes the place of the number: what makes the text finds that on the stack, and each
replay makes the text of the number it has computed. That nothing else looks at the text is read off the code:
it is used by the instruction that makes the call, with others in between that only add to it.
"""

from __future__ import annotations

import dis
import functools
import itertools
import math
import operator
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jtorch.compile.observe.frames import NULL
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.observe.stack_depth import depths
from jtorch.compile.observe.stand_ins import check_numbers
from jtorch.compile.observe.stepping import Stop
from jtorch.core.device_array import ARRAYS
from jtorch.core.dim import is_symbolic
from jtorch.eager.printing import graph_text, tensor_text
from jtorch.eager.tensor import Size, Tensor

_MARKER = re.compile("\ue0f0([0-9]+)\ue0f1")  # of a private use, which no text of a user's holds
_numbers = itertools.count()

_LOADING = (
    "LOAD_CONST",
    "LOAD_FAST",
    "LOAD_GLOBAL",
    "LOAD_NAME",
    "LOAD_DEREF",
    "LOAD_SMALL_INT",
    "LOAD_COMMON_CONSTANT",
)
_USED: dict[str, int] = {  # how many values of the stack an instruction uses
    "FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2, "CONVERT_VALUE": 1, "LOAD_ATTR": 1, "LOAD_METHOD": 1,
    "BINARY_OP": 2, "BINARY_SUBSCR": 2, "BINARY_SLICE": 3, "COMPARE_OP": 2, "PUSH_NULL": 0, "KW_NAMES": 0,
    "NOP": 0, "EXTENDED_ARG": 0, "CACHE": 0,
}  # fmt: skip
_JOINING = ("BUILD_STRING", "BUILD_TUPLE", "BUILD_LIST")
_CALLS = {"PRECALL": 2, "CALL": 2, "CALL_KW": 3}  # those beside the arguments
_ONCE = "PRECALL" in dis.opmap  # which comes before CALL, and says what that uses


def receiver(code: types.CodeType, offset: int, made: int, is_text: bool = True) -> int | None:
    """Where the function lies on the stack (1 is the lowest place) whose call uses the value that the
    instruction at ``offset`` makes at ``made``; texts that are put together from it count as the value, sums
    too where it ``is_text``. It is the lower of two places, of which one may be NULL. None where something
    else may look at the value, or where ways part or meet."""
    instructions, depth = _instructions(code)
    at = made
    later = itertools.dropwhile(lambda it: it.offset < offset, instructions)
    later = itertools.dropwhile(lambda it: it.opname == "EXTENDED_ARG", later)  # a prefix of it
    for it in itertools.islice(later, 1, None):
        if it.offset not in depth or it.is_jump_target or it.opcode in _JUMPS:
            return None
        name, n = it.opname, it.arg or 0
        if name == "CALL" and _ONCE:
            continue
        if name in _CALLS:
            lowest = depth[it.offset] - n - _CALLS[name] + 1
            if at >= lowest:
                return lowest if at > lowest + 1 else None
            continue
        used = _used(name, n)
        if used is None:
            return None
        if depth[it.offset] - used < at:
            if name not in _JOINING and not (is_text and name == "BINARY_OP" and it.argrepr == "+"):
                return None
            is_text = is_text and not name.startswith(("BUILD_T", "BUILD_L"))
            at = depth[it.offset] - used + 1
    return None


def is_dropped(code: types.CodeType, offset: int) -> bool:
    """Whether nobody uses what the call at ``offset`` gives."""
    instructions, _ = _instructions(code)
    after = (it.opname for it in instructions if it.offset > offset)
    return next((n for n in after if n not in ("CALL", "CACHE", "EXTENDED_ARG")), "") == "POP_TOP"


_JUMPS = {*dis.hasjrel, *dis.hasjabs}


def _used(name: str, n: int) -> int | None:
    if name.startswith(_LOADING):
        return 0
    if name == "FORMAT_VALUE":
        return 2 if n & 4 else 1
    return n if name in _JOINING else _USED.get(name)


@functools.lru_cache(maxsize=64)
def _instructions(code: types.CodeType) -> tuple[Sequence[dis.Instruction], dict[int, int]]:
    found = list(dis.get_instructions(code))
    return found, depths(code, found)


# -- what a replay makes again -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """A value that each call has anew: which of them it is."""

    index: int

    def made(self, values: Sequence[Any]) -> Any:
        return values[self.index]


@dataclass(frozen=True)
class Constant:
    value: Any = field(repr=False, compare=False)
    told: str  # which it is

    def made(self, values: Sequence[Any]) -> Any:
        return self.value


@dataclass(frozen=True)
class Text:
    """Texts that follow each other."""

    parts: tuple[Any, ...]

    def made(self, values: Sequence[Any]) -> str:
        return "".join(str(part.made(values)) for part in self.parts)


@dataclass(frozen=True)
class Result:
    """What ``function`` gives for these."""

    function: Callable = field(repr=False)
    name: str
    arguments: tuple[Any, ...]

    def made(self, values: Sequence[Any]) -> Any:
        arguments = [argument.made(values) for argument in self.arguments]
        try:
            return self.function(*arguments)
        except (TypeError, ValueError, LookupError, OverflowError) as error:  # of the user's text
            raise error.with_traceback(None) from None


@dataclass(frozen=True)
class Container:
    """A tuple, list or dict, of which ``keys`` are the keys."""

    kind: type
    keys: tuple[Any, ...]
    parts: tuple[Any, ...]

    def made(self, values: Sequence[Any]) -> Any:
        found = (part.made(values) for part in self.parts)
        return dict(zip(self.keys, found, strict=True)) if self.kind is dict else self.kind(found)


# -- while a function is recorded ----------------------------------------------------------------------------


class Late:
    """What stands for a value that only a replay knows, on its way: ``function(*arguments)``."""

    def __init__(self, function: Callable, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments


class Copied:
    """A tensor that nobody else has, and so nobody writes to."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach().clone()


class Shown:
    """A tensor that shows as one with a graph."""

    def __init__(self, tensor: Tensor, graph: str) -> None:
        self.tensor, self.graph = tensor, graph

    def __repr__(self) -> str:
        return tensor_text(self.tensor, self.graph)

    def __format__(self, spec: str) -> str:
        return format(self.tensor, spec) if spec or not self.tensor.ndim else repr(self)

    def __float__(self) -> float:
        return float(self.tensor)

    def __int__(self) -> int:
        return int(self.tensor)

    def __index__(self) -> int:
        return operator.index(self.tensor)


def as_now(value: Any) -> Any:
    """``value``, or a tensor as it is now and shows."""
    if type(value) is not Tensor:
        return value
    graph = graph_text(value)
    return Late(Shown, Copied(value), graph) if graph else Copied(value)


class LateTexts:
    """The markers of one recording: what each stands for."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Callable, tuple[Any, ...]]] = {}
        self.is_used = False

    def late(self, function: Callable, *arguments: Any) -> Late:
        """What stands for ``function(*arguments)``."""
        self.is_used = True
        return Late(function, *arguments)

    def marker(self, function: Callable, *arguments: Any) -> str:
        """What stands for the text ``function(*arguments)``."""
        self.is_used = True
        name = str(next(_numbers))
        self._known[name] = function, arguments
        return f"\ue0f0{name}\ue0f1"

    def parts(self, text: str) -> Iterator[str | tuple[Callable, tuple[Any, ...]]]:
        """The pieces of a text, and what makes those between them."""
        for k, part in enumerate(_MARKER.split(text)):
            if k % 2 and part in self._known:
                yield self._known[part]
            elif part:
                yield part

    def are_in(self, values: Iterable[Any]) -> bool:
        """Whether one of ``values``, or of what lists and tuples of them hold, is a text with a marker, or
        stands for what only a replay knows."""
        return self.is_used and any(map(self._is_in, values))

    def values_in(self, values: Iterable[Any]) -> list[Any]:
        """The values that such texts show, numbers, sizes and tensors."""
        found: list[Any] = []
        for value in values:
            if type(value) is str:
                parts = (part for part in self.parts(value) if not isinstance(part, str))
                found += self.values_in(argument for _, arguments in parts for argument in arguments)
            elif type(value) is Late:
                found += self.values_in(value.arguments)
            elif type(value) in (list, tuple):
                found += self.values_in(value)
            else:
                found.append(value)
        return found

    def _is_in(self, value: Any) -> bool:
        if type(value) is str:
            return any(name in self._known for name in _MARKER.findall(value))
        return type(value) is Late or (type(value) in (list, tuple) and any(map(self._is_in, value)))


def is_number(value: Any) -> bool:
    """Whether ``value`` stands for a number whose digits only a replay knows: of the call, or a size."""
    return issubclass(type(value), Scalar) or is_symbolic(value)


def is_known(tensor: Tensor) -> bool:
    """Whether a recording can copy a tensor, which none of a vmap can be."""
    return hasattr(tensor._data, "tracer") or isinstance(tensor._data, ARRAYS)


def _is_late(value: Any) -> bool:
    """Whether ``value`` shows what only a replay knows."""
    if type(value) is Tensor:
        return is_known(value)
    return is_number(value) or (type(value) is Size and any(map(is_symbolic, value)))


def see_format(stop: Stop, goes_out: Callable[[Any], bool]) -> None:
    """A value is about to become a text in an f-string: a marker, where only a replay knows it and that text
    ``goes_out``."""
    name, flags = stop.place.opname, stop.place.arg
    has_spec = name == "FORMAT_WITH_SPEC" or (name == "FORMAT_VALUE" and bool(flags & 4))
    if name == "CONVERT_VALUE" or (name == "FORMAT_VALUE" and flags & 3):
        return
    at = 2 if has_spec else 1
    value, spec = stop.peek(at), stop.peek(1) if has_spec else ""
    if not _is_late(value) or type(spec) is not str:
        return
    if not _may_raise(format, value, spec) and _goes_out(stop, stop.place.depth - at + 1, goes_out):
        stop.put(at, stop.observer.late_texts.marker(format, as_now(value), spec))
        if has_spec:
            stop.put(1, "")


def see_operator(stop: Stop, goes_out: Callable[[Any], bool]) -> None:
    """``"loss %.3f" % x.item()``, and ``"loss " + str(x.item())``, where a marker is joined to other texts.
    Raises CompileError where one meets something else."""
    right, left = stop.peek(1), stop.peek(2)
    if stop.place.symbol == "%" and type(left) in (str, bytes) and type(right) is tuple:
        star = "*" if type(left) is str else b"*"
        if star in left:  # a width or a precision
            check_numbers(right, "a width of '%*d' and its like")
    if stop.place.symbol == "%" and type(left) is str:
        values = right if type(right) is tuple else (right,)
        late = any(map(_is_late, values)) and all(_is_late(v) or type(v) in _SHOWN for v in values)
        if (
            late
            and not _may_raise(_percent, left, *values)
            and _goes_out(stop, stop.place.depth - 1, goes_out)
        ):
            stop.put(2, stop.observer.late_texts.marker(_percent, left, *map(as_now, values)))
            stop.put(1, ())
    elif stop.observer.late_texts.are_in((left, right)) and not type(left) is type(right) is str:
        raise stop.observer.error(
            stop.frame,
            f"adds a {type(right).__name__} to a text of a number that only a replay knows",
            "Make the text outside.",
        )


def instead_of_text(stop: Stop, callee: Any, args: list[Any], goes_out: Callable[[Any], bool]) -> Any:
    """What is called instead of ``callee``, which makes a text, rounds a number or lists elements, and that
    goes straight to output: ``str(loss.item())``, ``"{:.3f}".format(loss)``, ``y.tolist()``. None where it
    is to be called itself."""
    if isinstance(callee, types.BuiltinMethodType) and type(callee.__self__) is str:
        if callee.__name__ != "format":
            return None
        callee, args = str.format, [callee.__self__, *args]
    lists = callee is Tensor.tolist and len(args) == 1 and type(args[0]) is Tensor
    if not lists and not any(callee is made for made in _MAKING):
        return None
    if not any(map(_is_late, args)) or not all(_is_late(v) or type(v) in _SHOWN for v in args):
        return None
    if callee is round and type(args[0]) is Tensor:
        return None
    if not lists and _may_raise(callee, *args):
        return None
    is_text = not lists and callee is not round
    if not _goes_out(stop, stop.place.depth - stop.place.arg - 1, goes_out, is_text):
        return None
    if lists:
        found: Any = stop.observer.late_texts.late(callee, Copied(args[0]))
    else:
        found = stop.observer.late_texts.marker(callee, *map(as_now, args))
    return lambda *given: found


_FLOATS, _WHOLE = (1.5, math.nan, math.inf), (1, -1, 2**62)


def _may_raise(function: Callable, *arguments: Any) -> bool:
    """Whether making a text of such numbers may raise, as that of an integer of nan does. A tensor's may
    where it shows as the number that it holds."""
    for k in range(len(_FLOATS)):
        try:
            function(*(_sample(value, k) for value in arguments))
        except (TypeError, ValueError, LookupError, OverflowError):
            return True
    return False


def _sample(value: Any, k: int) -> Any:
    if type(value) is Tensor:
        kind = value._data.dtype.kind
        number = _FLOATS[k] if kind in "fV" else kind != "b" or bool(k)
        return "a tensor" if value._data.shape else number
    if issubclass(type(value), Scalar):
        kind = type(value.as_runtime_scalar)
        return _FLOATS[k] if kind is float else _WHOLE[k] if kind is int else bool(k)
    if type(value) is Size:
        return "a size"
    return _WHOLE[0] if is_symbolic(value) else value


_MAKING = (str, repr, round, format, str.format)
_SHOWN = (str, int, float, bool)


def _percent(text: str, *values: Any) -> str:
    return text % values


def _goes_out(stop: Stop, made: int, goes_out: Callable[[Any], bool], is_text: bool = True) -> bool:
    """Whether what the instruction leaves at ``made`` goes to a call of what ``goes_out``, and is part of
    nothing else."""
    found = receiver(stop.frame.f_code, stop.frame.f_lasti, made, is_text)
    if found is None:
        return False
    first, second = (stop.peek(stop.place.depth - k + 1) for k in (found, found + 1))
    return goes_out(second if first is NULL else first)
