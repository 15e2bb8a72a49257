"""Batches in pinned memory.

Source: https://docs.pytorch.org/docs/stable/data.html#memory-pinning
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any


def pinned(data: Any) -> Any:
    """``data`` with all its tensors, and what has a ``pin_memory()``, pinned; containers of the same types,
    where those can be made, else dicts and lists."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _mapping(data, {k: pinned(v) for k, v in data.items()})
    if isinstance(data, tuple):
        parts = [pinned(v) for v in data]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    if isinstance(data, Sequence):
        return _sequence(data, [pinned(v) for v in data])
    return data


def _mapping(data: Any, found: dict[Any, Any]) -> Any:
    try:
        if isinstance(data, MutableMapping):
            made = copy.copy(data)  # which keeps what else hangs on it
            made.update(found)
            return made
        return type(data)(found)
    except TypeError:
        return found


def _sequence(data: Any, found: list[Any]) -> Any:
    try:
        if isinstance(data, MutableSequence):
            made = copy.copy(data)
            for k, value in enumerate(found):
                made[k] = value
            return made
        return type(data)(found)
    except TypeError:
        return found
