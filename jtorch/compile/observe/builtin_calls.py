"""What Python's own functions read or change: ``len``, ``getattr``, ``isinstance``, ``next``, ``id``."""

from __future__ import annotations

import operator
import types
from collections import deque
from collections.abc import Callable
from typing import Any

from jtorch.compile.observe import user_attributes
from jtorch.compile.observe.attributes import (
    TRUTH,
    find,
    hashes_in_python,
    is_in_python,
    read_attribute,
    read_special,
    write_attribute,
)
from jtorch.compile.observe.guards import MISSING, LengthRead, MembershipRead, TruthRead
from jtorch.compile.observe.kinds import Kind, kind_of
from jtorch.compile.observe.latest import see_length
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.questions import (
    has_argument,
    see_identity,
    see_search,
    see_tensor,
)
from jtorch.compile.observe.stand_ins import check_class, stands_in
from jtorch.compile.observe.stepping import Stop
from jtorch.core.dim import is_symbolic
from jtorch.eager.tensor import Tensor


def _length(stop: Stop, args: list[Any]) -> None:
    """``len(args[0])``. Where each call brings how much a container holds, that is given in its place, and so
    is a size that is a symbol; a ``__len__`` of the user's class is called as the function that it is, which
    may give such a number."""
    lengths, value = stop.observer.effects.lengths, args[0]
    if stop.callee and len(args) == 1 and (rows := _rows_of(value)) is not None:
        stop.put(stop.callee, lambda _: rows)
    if stop.callee and len(args) == 1 and type(value) is list and id(value) in stop.observer.effects.grown:
        grown = see_length(stop.observer, stop.frame, value)
        if grown is not None:
            stop.put(stop.callee, lambda _: grown)
            return
    if lengths and stop.callee and len(args) == 1:
        if id(value) in lengths and not _is_changed(stop.observer, value):
            stop.put(stop.callee, lambda _: lengths[id(value)])
            return
        method = find(type(value), "__len__")
        if is_in_python(type(value), "__len__") and isinstance(method, types.FunctionType):
            stop.put(stop.callee, method)
    read_length(stop.observer, stop.frame, value)


def _rows_of(value: Any) -> Any:
    """How many there are, where that is a symbol; a class of the user's may count in another way."""
    if not issubclass(type(value), Tensor) or type(value).__len__ is not Tensor.__len__:
        return None
    shape = value._data.shape
    return shape[0] if shape and is_symbolic(shape[0]) else None


def _is_changed(observer: Observer, container: Any) -> bool:
    """Whether the function has changed what ``container`` holds."""
    return id(container) in observer.effects.grown or id(container) in observer.effects.changed


class _Truth:
    """The truth of an object by the ``__len__`` of its class, a user's, which may give a number that only a
    replay knows: Python's own way would ask for its digits."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __bool__(self) -> bool:
        length = type(self.value).__len__(self.value)
        if not stands_in(length) and operator.index(length) < 0:
            raise ValueError("__len__() should return >= 0")
        return bool(length > 0)


def truth_of(value: Any) -> Any:
    """What is as true as ``value``."""
    cls = type(value)
    by_length = kind_of(cls) is Kind.OBJECT and find(cls, "__bool__") is MISSING
    return _Truth(value) if by_length and is_in_python(cls, "__len__") else value


def read_length(
    observer: Observer, frame: types.FrameType, value: Any, methods: tuple[str, ...] = ("__len__",)
) -> None:  # fmt: skip
    """The length of ``value``, or its truth, is asked for."""
    kind = kind_of(type(value))
    if kind is Kind.PLAIN:
        return
    read_special(observer, frame, value, *methods)
    if kind is Kind.TENSOR:
        see_tensor(observer, frame, value, "__len__")
    elif kind is Kind.CONTAINER and id(value) in observer.outside:
        if not is_in_python(type(value), "__len__"):
            asked = TruthRead if methods is TRUTH else LengthRead
            if asked is TruthRead and type(value) is list and observer.effects.appended(value):
                return  # it holds what the function has appended
            observer.read(asked, frame, value, None, len(value) > 0 if asked is TruthRead else len(value))
    elif kind is Kind.FOREIGN and id(value) in observer.outside:
        observer.contents(frame, value)
    elif kind is Kind.ARRAY and id(value) not in observer.places:  # whose shape is guarded
        observer.array(frame, value)


def read_membership(observer: Observer, frame: types.FrameType, container: Any, value: Any) -> None:
    """``value in container``."""
    if see_search(observer, frame, container, value):
        return
    if id(container) not in observer.outside:
        if isinstance(container, (list, tuple, deque)):  # compares what they hold
            observer.deep(frame, container)
            observer.deep(frame, value)
        return
    if isinstance(container, (dict, set)) and not hashes_in_python(value):
        observer.read(MembershipRead, frame, container, value, value in container)
    else:
        observer.contents(frame, container)
        observer.deep(frame, container)


def _attribute(stop: Stop, args: list[Any]) -> None:
    if len(args) > 1 and isinstance(args[1], str):
        read_attribute(stop.observer, stop.frame, args[0], args[1])


def _class_test(stop: Stop, args: list[Any]) -> None:
    if len(args) > 1:
        stop.observer.see_class(stop.frame, args[0])
        stop.observer.registry(stop.frame, *args[:2])
        for cls in args[1] if isinstance(args[1], tuple) else (args[1],):
            check_class(args[0], cls)


def _identity(stop: Stop, args: list[Any]) -> None:
    if len(args) == 2:
        see_identity(stop.observer, stop.frame, *args)


def _names(stop: Stop, args: list[Any]) -> None:
    if args and isinstance(args[0], Tensor):
        user_attributes.see_all(stop.observer, stop.frame, args[0])
    if args and stands_in(args[0]):
        raise args[0].refuse("dir()")
    if args:
        stop.observer.members(stop.frame, args[0])


def _set_attribute(stop: Stop, args: list[Any]) -> None:
    if len(args) > 1 and isinstance(args[1], str):
        write_attribute(stop.observer, stop.frame, args[0], args[1], args[2] if len(args) > 2 else MISSING)


def _advance(stop: Stop, args: list[Any]) -> None:
    check_iterator(stop.observer, stop.frame, args[0])


def _namespace(stop: Stop, args: list[Any]) -> None:
    if args and isinstance(args[0], Tensor):
        user_attributes.see_all(stop.observer, stop.frame, args[0])
    elif not args or stop.observer.is_outside(args[0]):
        stop.pending = stop.observer.meet


def _outside_world(name: str) -> Callable:
    def refuse(stop: Stop, args: list[Any]) -> None:
        raise stop.observer.error(
            stop.frame,
            f"calls {name}(), whose result a recording would keep",
            "Read it outside, and pass what you read in.",
        )

    return refuse


def _made(stop: Stop, args: list[Any]) -> None:
    stop.pending = stop.observer.made


def _address(stop: Stop, args: list[Any]) -> None:
    check_address(stop.observer, stop.frame, args)


def check_address(observer: Observer, frame: types.FrameType, args: list[Any]) -> None:
    """Raise where the id() or hash() of an argument, or of a container of some, is taken."""
    observer.check_open(*args)
    if has_argument(observer, *args):
        raise observer.error(
            frame,
            "asks for the id() or hash() of an argument, which is another one at each call",
            "Compare tensors by 'is', or pass the number in.",
        )


BUILTINS: dict[str, Callable] = {
    "id": _address,
    "hash": _address,
    "len": _length,
    "getattr": _attribute,
    "hasattr": _attribute,
    "isinstance": _class_test,
    "issubclass": _class_test,
    "setattr": _set_attribute,
    "delattr": _set_attribute,
    "next": _advance,
    "vars": _namespace,
    "dir": _names,
    "is_": _identity,
    "is_not": _identity,
    "globals": _namespace,
    "input": _outside_world("input"),
    "open": _outside_world("open"),
    "__build_class__": _made,
}


def check_iterator(observer: Observer, frame: types.FrameType, value: Any) -> None:
    """An iterator from outside would be advanced by the recording, and never again."""
    kind = kind_of(type(value))
    loader = kind is Kind.OURS and type(value).__module__.startswith("jtorch.utils.data")
    if (kind is Kind.ITERATOR or loader) and id(value) in observer.outside:
        raise observer.error(
            frame,
            f"takes elements from a {type(value).__name__} from outside, which a recording would do once",
            "Call the function for each element, from a loop outside.",
        )
