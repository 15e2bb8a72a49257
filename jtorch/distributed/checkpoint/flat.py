"""State dicts as paths and leaves, and leaves put back.

Dicts are gone through, and lists that hold a tensor or a dict; what is left are tensors and plain values. A
path is the keys and numbers that lead to a leaf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from jtorch.eager.public import Tensor

Path = tuple[Any, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """(path, leaf) of all that is in ``value``. Raises TypeError for keys but strings and ints, and for
    tensors in tuples, which could not be put back."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if type(key) not in (str, int):
                raise TypeError(f"{told(path)}: a key {key!r}; those of a checkpoint are strings and ints")
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and _is_nested(value):
        for k, inner in enumerate(value):
            yield from leaves(inner, (*path, k))
    elif isinstance(value, tuple) and _is_nested(value):
        raise TypeError(f"{told(path)}: a tuple with tensors or dicts in it; make it a list")
    else:
        yield path, value


def _is_nested(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_nested, value))
    return isinstance(value, (Tensor, Mapping))


def put(root: Any, path: Path, value: Any) -> None:
    """Let ``value`` be the leaf at ``path``."""
    _place(root, path)[path[-1]] = value


def check_place(root: Any, path: Path) -> None:
    """Raise TypeError where ``put`` can't write."""
    place = _place(root, path)
    if not isinstance(place, (MutableMapping, list)):
        raise TypeError(f"{told(path)}: the {type(place).__name__} that it stands in can't be changed")


def _place(root: Any, path: Path) -> Any:
    for step in path[:-1]:
        root = root[step]
    return root


def told(path: Path) -> str:
    """``model.layers.0.weight``"""
    return ".".join(map(str, path)) or "the state dict"
