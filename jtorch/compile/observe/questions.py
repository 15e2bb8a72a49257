"""What a function asks of tensors apart from their elements: which is which, and what they say of themselves.

While it is recorded, arguments are stand-ins. So whether one *is* another tensor, or lies in a container of
the user's, is answered by the tensors that were passed, and becomes a question that each call asks again.
Of captured tensors that the plan computes with, the plan itself follows shape, dtype and requires_grad; of
those that are only asked, a guard does.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any

import numpy as np

from jtorch.compile.observe.fact_guards import FactsRead
from jtorch.compile.observe.guards import Read, contents
from jtorch.compile.observe.kinds import Kind, kind_of
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.reading import Question, source_of
from jtorch.compile.observe.stand_ins import is_array_stand_in, is_stand_in
from jtorch.core.device_array import ARRAYS
from jtorch.core.dim import is_symbolic
from jtorch.core.environment import Exact
from jtorch.core.errors import Restart
from jtorch.eager.storage import storage_offset
from jtorch.eager.tensor import Tensor

ABOUT = frozenset({
    "requires_grad", "is_leaf", "grad_fn", "shape", "ndim", "dtype", "size", "dim", "ndimension", "stride",
    "numel", "nelement", "is_contiguous", "element_size", "itemsize", "nbytes", "is_floating_point",
    "is_complex", "output_nr", "retains_grad", "T", "mT", "__len__",
})  # fmt: skip
_OF_A_GRAPH = frozenset({"is_leaf", "grad_fn", "output_nr", "retains_grad"})
_OF_MEMORY = frozenset({
    "as_strided", "as_strided_", "_base", "_is_view", "storage", "untyped_storage", "storage_offset",
})  # fmt: skip
_HOLDERS = (dict, list, tuple, set, frozenset, deque)
_OPENED = (*_HOLDERS, KeysView, ValuesView, ItemsView)


class ArgumentReached(Restart):
    """The function uses the memory of argument ``place`` without going through its arguments, too."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class TensorRead(FactsRead):
    """What a captured tensor says of itself: (shape, strides, dtype, requires_grad, is a leaf)."""

    __slots__ = ()

    @staticmethod
    def facts_of(tensor: Any) -> tuple:
        data = tensor._data
        return data.shape, data.strides, data.dtype, tensor._requires_grad, tensor._node is None

    def label(self) -> str:
        return f"what a tensor of shape {tuple(self.value[0])} says of itself"


class VersionRead(Read):
    """The version that a captured tensor has when a call begins."""

    __slots__ = ()

    def _look(self) -> Any:
        return self.container._version

    def _text(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('g', self.container)}._version"

    def label(self) -> str:
        return f"the version of a tensor of shape {tuple(self.container.shape)}"


def see_tensor(observer: Observer, frame: types.FrameType | None, tensor: Any, name: str) -> None:
    """``tensor.name`` is about to be asked."""
    place = observer.places.get(id(tensor))
    is_made = tensor._data.__class__ not in ARRAYS and id(tensor._cell) not in observer.rebound
    if place is None and (is_made or (name != "_version" and tensor._data.__class__ not in ARRAYS)):
        return
    written = observer.versions_before.get(id(tensor._cell))  # by the function
    version = tensor._version if written is None else int(written[1])
    if place is None:
        if name == "_version":
            observer.read(VersionRead, frame, tensor, name, version)
        elif name in ABOUT:
            identity = (TensorRead, id(tensor))
            if identity not in observer.reads:
                observer.reads[identity] = TensorRead(tensor, source_of(frame))
    elif observer.on_the_way_back and (name == "requires_grad" or name in _OF_A_GRAPH):
        raise observer.error(
            frame,
            f"asks {name} of an argument on the way back, which comes later",
            "Ask in forward and keep the answer on ctx, or call backward() inside.",
        )
    elif name == "_version":
        observer.ask(("version", place), lambda _: f"a{place}._cell[0] == {version}")
    elif name in _OF_MEMORY:
        base = observer.leaves[place]._base
        observer.ask(("base", place), lambda name: f"a{place}._base is {name('T', base)}")
        if base is None:
            start = storage_offset(observer.leaves[place])
            observer.ask(("offset", place), lambda name: f"{name('S', storage_offset)}(a{place}) == {start}")
    elif name in _OF_A_GRAPH and observer.leaves[place]._node is not None:
        raise observer.error(
            frame,
            f"asks {name} of an argument that was computed outside, whose graph a recording does not see",
            "Ask it outside and pass the answer in, or ask requires_grad.",
        )


def see_identity(observer: Observer, frame: types.FrameType | None, one: Any, other: Any) -> None:
    """``one is other`` is about to be asked, or what amounts to it."""
    if _is_number(one) and _is_number(other) and one is not other:
        _see_numbers(observer, frame, (one, other))
    if one is not other and is_array(one) and is_array(other) and is_brought(observer, one, other):
        raise observer.error(
            frame,
            "asks whether two of NumPy's arrays are one, and each call may bring others",
            "Pass tensors, or compare the elements.",
        )
    for a, b in ((one, other), (other, one)):
        place = observer.places.get(id(a)) if isinstance(a, Tensor) else None
        if place is None or not isinstance(b, Tensor) or a is b:
            continue
        second = observer.places.get(id(b))
        if second is not None:
            first, second = sorted((place, second))
            observer.ask(("is", first, second), _apart(f"a{first}", f"a{second}"))
            return
        if observer.leaves[place] is b:
            raise ArgumentReached(place)
        observer.ask(("outside", place, id(b)), _apart(f"a{place}", b))


def is_array(value: Any) -> bool:
    """Whether it is one of NumPy's, or stands for one."""
    return type(value) is np.ndarray or is_array_stand_in(value)


def is_brought(observer: Observer, *arrays: Any) -> bool:
    """Whether each call may bring another one of ``arrays``."""
    return any(is_array_stand_in(array) or id(array) in observer.places for array in arrays)


def _is_number(value: Any) -> bool:
    return is_stand_in(value) or is_symbolic(value) or isinstance(value, (int, float))


def _see_numbers(observer: Observer, frame: types.FrameType | None, pair: tuple[Any, Any]) -> None:
    """What stands for a number is an object of jtorch's, which ``is`` no other one."""
    if any(map(is_symbolic, pair)):
        raise Exact("it asks whether a size 'is' a number")
    number = next((a for a in pair if is_stand_in(a)), None)
    if number is None:
        return
    if not any(isinstance(value, bool) for value in pair):
        raise number.refuse("'is'")
    raise observer.error(
        frame,
        "asks whether a number that may change from call to call 'is' True or False",
        "Use it as a condition, or compare by ==.",
    )


def _apart(argument: str, other: Any) -> Question:
    """That an argument is not ``other``: another argument, by its name, or a tensor from outside."""
    return lambda name: f"{argument} is not {other if isinstance(other, str) else name('T', other)}"


def see_search(observer: Observer, frame: types.FrameType | None, container: Any, value: Any) -> bool:
    """``value`` is looked for in ``container``; whether that is answered here, as tensors are by identity."""
    if not isinstance(value, Tensor) or not isinstance(container, _HOLDERS):
        return False
    place = observer.places.get(id(value))
    if place is None or id(container) not in observer.outside:
        for part in contents(container):
            see_identity(observer, frame, value, part)
        return place is not None
    if is_in(observer.leaves[place], container):
        raise ArgumentReached(place)
    observer.ask(
        ("in", place, id(container)),
        lambda name: f"not {name('is_in', is_in)}(a{place}, {name('c', container)})",
    )  # fmt: skip
    return True


def see_hashed(observer: Observer, frame: types.FrameType | None, *values: Any) -> None:
    """Tensors among ``values``, or in containers there, become keys or members together: which of them are
    one decides how many there are. What lies in an iterator, or in a
    container of another library's, may be any argument."""
    tensors, others = _tensors_in(values)
    held = {place for t in tensors if (place := observer.places.get(id(t))) is not None}
    iterators = any(isinstance(other, Iterator) for other in others)
    hidden = iterators or (held and any(kind_of(type(other)) is Kind.FOREIGN for other in others))
    given = {p for p in observer.places.values() if isinstance(observer.leaves[p], Tensor)}
    places = sorted(given if hidden else held)
    if len(places) > 1:
        apart = f"len({{{', '.join(f'id(a{k})' for k in places)}}}) == {len(places)}"
        observer.ask(("apart", *places), lambda _: apart)
    captured = [t for t in tensors if id(t) not in observer.places]
    for tensor in tensors if held else ():
        for other in captured:
            see_identity(observer, frame, tensor, other)


def _tensors_in(values: tuple) -> tuple[list[Any], list[Any]]:
    """(the tensors among ``values`` and in their containers, what else there is)"""
    found: dict[int, Any] = {}
    stack, seen, others = list(values), set(), []
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor):
            found[id(value)] = value
        elif id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, _OPENED):
                stack += contents(value)
            else:
                others.append(value)
    return list(found.values()), others


def has_argument(observer: Observer, *values: Any) -> bool:
    """Whether one of ``values`` is a tensor or an array of the arguments, or a container of some."""
    tensors, others = _tensors_in(values)
    return any(id(tensor) in observer.places for tensor in tensors) or is_brought(
        observer, *filter(is_array, others)
    )


def is_in(tensor: Any, container: Any) -> bool:
    """Whether ``tensor`` itself is a key or an element."""
    return any(part is tensor for part in container)
