"""Batches in pinned memory.

Source: https://docs.pytorch.org/docs/stable/data.html#memory-pinning
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jtorch.utils.data.collate import like_mapping, like_sequence


def pinned(data: Any) -> Any:
    """``data`` with all its tensors, and what has a ``pin_memory()``, pinned; containers of the same types,
    where those can be made, else dicts and lists."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return like_mapping(data, {k: pinned(v) for k, v in data.items()})
    if isinstance(data, tuple):
        parts = [pinned(v) for v in data]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    if isinstance(data, Sequence):
        return like_sequence(data, [pinned(v) for v in data])
    return data
