"""Nested arguments and results as a flat list of leaves and a hashable structure."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_LEAF = "*"


def flatten(tree: Any, whole: Callable[[Any], bool] | None = None) -> tuple[list[Any], Any]:
    """(leaves in order, structure). Lists, tuples, named tuples, dicts and dataclasses are opened, except
    for those that are to stay ``whole``."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, whole)


def _flatten(tree: Any, leaves: list[Any], whole: Callable[[Any], bool] | None) -> Any:
    cls = tree.__class__
    if whole is not None and whole(tree):
        pass
    elif cls is tuple or cls is list or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return (cls, None, tuple(_flatten(t, leaves, whole) for t in tree))
    elif cls is dict or cls is OrderedDict:
        return (cls, tuple(tree), tuple(_flatten(t, leaves, whole) for t in tree.values()))
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = tuple(f.name for f in dataclasses.fields(tree))
        return (cls, names, tuple(_flatten(getattr(tree, n), leaves, whole) for n in names))
    leaves.append(tree)
    return _LEAF


def unflatten(structure: Any, leaves: list[Any]) -> Any:
    """The tree of ``structure`` with ``leaves`` in their places."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Any, leaves: Any) -> Any:
    if structure == _LEAF:
        return next(leaves)
    cls, names, parts = structure
    values = [_unflatten(p, leaves) for p in parts]
    if names is None:
        return cls._make(values) if hasattr(cls, "_fields") else cls(values)
    if cls is dict or cls is OrderedDict:
        return cls(zip(names, values, strict=True))
    if issubclass(cls, dict):  # which __post_init__ fills
        return cls(**dict(zip(names, values, strict=True)))
    made = object.__new__(cls)  # what __post_init__ did is done
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)
    return made
