"""Nested tuples, lists and dicts of tensors, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.eager.tensor import Tensor


def flatten(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """(the leaves from left to right, a function that builds the same structure of other leaves)"""
    leaves: list[Any] = []
    shape = _shape(tree, leaves)
    return leaves, lambda new: shape(iter(new))


def _shape(tree: Any, leaves: list[Any]) -> Callable:
    if isinstance(tree, dict):
        parts = {k: _shape(v, leaves) for k, v in tree.items()}
        return lambda new: type(tree)((k, part(new)) for k, part in parts.items())
    if isinstance(tree, (tuple, list)):
        several = [_shape(v, leaves) for v in tree]
        if hasattr(tree, "_fields"):  # a named tuple
            return lambda new: type(tree)(*[part(new) for part in several])
        return lambda new: type(tree)([part(new) for part in several])
    leaves.append(tree)
    return next


def tensors_of(tree: Any, what: str) -> tuple[list[Tensor], Callable[[list[Any]], Any]]:
    """The same for a structure that must hold tensors alone."""
    leaves, rebuild = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{what} must only contain Tensors, got unexpected type {type(leaf)}")
    return leaves, rebuild


def mapped(function: Callable, tree: Any) -> Any:
    """``function`` of each tensor of ``tree``; other leaves stay."""
    leaves, rebuild = flatten(tree)
    return rebuild([function(t) if isinstance(t, Tensor) else t for t in leaves])
