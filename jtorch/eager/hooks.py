"""Handles of hooks: what ``register_*_hook`` returns, with ``remove()``."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

_ids = itertools.count()


class RemovableHandle:
    """Removes its hook with ``remove()``, or at the end of a ``with`` block."""

    __slots__ = ("_hooks", "_on_change", "id")

    def __init__(self, hooks: dict[int, Any], on_change: Callable[[], None] | None = None) -> None:
        self._hooks = hooks
        self._on_change = on_change
        self.id = next(_ids)

    def remove(self) -> None:
        self._hooks.pop(self.id, None)
        if self._on_change is not None:
            self._on_change()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def add_hook(
    hooks: dict[int, Any] | None, hook: Any, on_change: Callable[[], None] | None = None
) -> tuple[dict[int, Any], RemovableHandle]:
    """``hooks`` with ``hook`` added (a new dict for None), and its handle."""
    hooks = {} if hooks is None else hooks
    handle = RemovableHandle(hooks, on_change)
    hooks[handle.id] = hook
    if on_change is not None:
        on_change()
    return hooks, handle


def checked(hook: Callable, result: Any, before: Any) -> Any:
    """What a tensor's hook returned in place of the gradient ``before``, or PyTorch's error."""
    if not hasattr(result, "requires_grad"):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    name = getattr(hook, "__name__", type(hook).__name__)
    if tuple(result.shape) != tuple(before.shape):
        raise RuntimeError(f"hook '{name}' has changed the size of value")
    if result.dtype is not before.dtype:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was {before.type()} got {result.type()})"
        )
    return result


def check_returned(result: Any, leaf: Any) -> None:
    """Raise PyTorch's error for what a hook after accumulation returned: there is nothing to exchange."""
    if result is None or result is leaf:
        return
    if not hasattr(result, "requires_grad"):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    raise RuntimeError("Tensor post accumulate grad hooks should return None.")


class PostAccumulate:
    """Marks a leaf's hook that gets the leaf itself, after its ``grad`` was added to."""

    __slots__ = ("function",)

    def __init__(self, function: Callable) -> None:
        self.function = function


class OnOutput:
    """The hook of a tensor that an op made, as one of the hooks of its node."""

    __slots__ = ("hook", "index")

    def __init__(self, hook: Callable, index: int) -> None:
        self.hook, self.index = hook, index

    def __call__(self, gradients: tuple) -> tuple | None:
        result = self.hook(gradients[self.index])
        if result is None:
            return None
        result = checked(self.hook, result, gradients[self.index])
        return (*gradients[: self.index], result, *gradients[self.index + 1 :])


class FromNode:
    """A hook of a tensor that was the node's and is a leaf now: called until its handle removes it there."""

    __slots__ = ("__name__", "hook", "hooks", "key")

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self.hook, self.hooks, self.key = hooks[key].hook, hooks, key
        self.__name__ = getattr(self.hook, "__name__", type(self.hook).__name__)

    def __call__(self, gradient: Any) -> Any:
        return self.hook(gradient) if self.key in self.hooks else None


class RetainGrad:
    """The hook of ``retain_grad``: keeps the gradient of a non-leaf without keeping the non-leaf."""

    __slots__ = ("index", "reference")

    def __init__(self, tensor: Any) -> None:
        self.index = tensor._index
        self.reference = weakref.ref(tensor)

    def __call__(self, gradients: tuple) -> None:
        tensor, g = self.reference(), gradients[self.index]
        if tensor is not None and g is not None:
            before = tensor.grad
            # a copy: what arrives may share memory, its elements even with each other
            tensor.grad = g.detach().contiguous().clone() if before is None else before + g.detach()
