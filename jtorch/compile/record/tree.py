"""Nested arguments and results as a flat list of leaves and a hashable structure."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from types import MemberDescriptorType
from typing import Any

from jtorch.compile.observe.values import alike
from jtorch.core.errors import CompileError

_LEAF = "*"
_Whole = Callable[[Any], bool] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Shared:
    """A container that stood at an earlier place: number ``index`` of those opened, inner ones first."""

    index: int


class Keys(tuple):
    """The keys of a dict, not all of them plain texts: equal to others where each is the same as the other,
    class and sign included. As a tuple (1,) would be equal to (1.0,) and (True,)."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and len(self) == len(other) and all(map(alike, self, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def _keys_of(tree: dict) -> tuple:
    for key in tree:
        if key.__class__ is not str:
            return Keys(tree)
    return tuple(tree)


_Opened = dict[int, tuple[Shared, Any]]  # by id


def flatten(tree: Any, whole: _Whole = None) -> tuple[list[Any], Any]:
    """(leaves in order, structure). Lists, tuples, named tuples, dicts and dataclasses are opened, except
    for those that are to stay ``whole``; one that stands at two places is opened once."""
    leaves: list[Any] = []
    return leaves, _whole_of(tree, leaves, whole, {})


class Leaves(list):
    """The leaves of a call's arguments, and the containers that held them, inner ones first."""

    def __init__(self, leaves: Iterable[Any], containers: list[Any]) -> None:
        super().__init__(leaves)
        self.containers = containers


def flatten_call(args: tuple, kwargs: dict[str, Any]) -> tuple[Leaves, Any]:
    """(leaves and containers, structure) of the arguments of a call."""
    leaves: list[Any] = []
    opened: _Opened = {}
    structure = _whole_of((args, kwargs), leaves, None, opened)
    return Leaves(leaves, [tree for _, tree in opened.values()]), structure


def _whole_of(tree: Any, leaves: list[Any], whole: _Whole, opened: _Opened) -> Any:
    try:
        return _flatten(tree, leaves, whole, opened)
    except RecursionError:
        raise CompileError(
            "a container that holds itself, or hundreds in each other, is among the arguments or results, "
            "and a recording opens all of them: pass or return what is in it, or an object that has it."
        ) from None


def _flatten(tree: Any, leaves: list[Any], whole: _Whole, opened: _Opened) -> Any:
    cls = tree.__class__
    if whole is not None and whole(tree):
        pass
    elif cls is tuple or cls is list:
        return _open(tree, None, tree, leaves, whole, opened)
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        more = getattr(tree, "__dict__", None)  # of a subclass without __slots__
        if not more:
            return _open(tree, None, tree, leaves, whole, opened)
        return _open(tree, (*tree._fields, *more), [*tree, *more.values()], leaves, whole, opened)
    elif cls is dict or cls is OrderedDict:
        return _open(tree, _keys_of(tree), tree.values(), leaves, whole, opened)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = _attributes_of(tree)
        return _open(tree, names, [getattr(tree, n) for n in names], leaves, whole, opened)
    leaves.append(tree)
    return _LEAF


def _attributes_of(tree: Any) -> tuple[str, ...]:
    """The names of all that a dataclass holds: fields that are set, and what was set beside them. One that is
    a dict as well is made again from its fields."""
    fields = [field.name for field in dataclasses.fields(tree)]
    if isinstance(tree, dict):
        return tuple(fields)
    own = getattr(tree, "__dict__", {})
    if list(own) == fields:
        return tuple(fields)
    cls = tree.__class__
    slots = [n for n in fields if n not in own and isinstance(getattr(cls, n, None), MemberDescriptorType)]
    return (*(n for n in slots if hasattr(tree, n)), *own)


def _open(
    tree: Any, names: tuple | None, parts: Iterable[Any], leaves: list[Any], whole: _Whole, opened: _Opened
) -> Any:  # fmt: skip
    if (earlier := opened.get(id(tree))) is not None:
        return earlier[0]
    structure = (tree.__class__, names, tuple(_flatten(t, leaves, whole, opened) for t in parts))
    opened[id(tree)] = Shared(len(opened)), tree  # which lives as long as its id counts
    return structure


def unflatten(structure: Any, leaves: list[Any]) -> Any:
    """The tree of ``structure`` with ``leaves`` in their places."""
    return _unflatten(structure, iter(leaves), [])


def rebuild(structure: Any, leaves: list[Any]) -> tuple[Any, list[Any]]:
    """(the tree of ``structure`` with ``leaves`` in their places, its containers, inner ones first)"""
    made: list[Any] = []
    return _unflatten(structure, iter(leaves), made), made


def _unflatten(structure: Any, leaves: Iterator[Any], made: list[Any]) -> Any:
    if structure == _LEAF:
        return next(leaves)
    if structure.__class__ is Shared:
        return made[structure.index]
    cls, names, parts = structure
    made.append(_built(cls, names, [_unflatten(p, leaves, made) for p in parts]))
    return made[-1]


def _built(cls: Any, names: tuple | None, values: list[Any]) -> Any:
    if names is None:
        return cls._make(values) if hasattr(cls, "_fields") else cls(values)
    if issubclass(cls, tuple):
        n = len(cls._fields)
        made = cls._make(values[:n])
        vars(made).update(zip(names[n:], values[n:], strict=True))
        return made
    if cls is dict or cls is OrderedDict:
        return cls(zip(names, values, strict=True))
    if issubclass(cls, dict):  # which __post_init__ fills
        return cls(**dict(zip(names, values, strict=True)))
    made = object.__new__(cls)  # what __post_init__ did is done
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)
    return made
