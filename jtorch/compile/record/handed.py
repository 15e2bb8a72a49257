"""What a disabled function is handed by a replay, and whether somebody keeps it afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from jtorch.core.device_array import DeviceArray, copied, on_host
from jtorch.eager.tensor import Tensor, wrap

Known = Callable[[Any], Tensor | None]
"""Gives a tensor as the object that the user knows, by the arguments of the call; None where that is gone."""
_ARGUMENTS: ContextVar[Any] = ContextVar("jtorch_arguments")  # of the call that replays


def with_arguments(call: Callable) -> Callable:
    """``call(leaves)``, in which disabled functions get tensors among ``leaves`` as the objects they are."""

    def called(leaves: Any) -> Any:
        token = _ARGUMENTS.set(leaves)
        try:
            return call(leaves)
        finally:
            _ARGUMENTS.reset(token)

    return called


class Handed:
    """A tensor with the elements ``value``: the very object where it is ``known``, else one that is made. It
    lies where ``value`` does.

    Where the plan has yet to write what the object shall hold here (``stale`` memory), it is lent a copy.
    """

    def __init__(
        self, value: Any, needs_grad: bool, known: Known | None, stale: Sequence[np.ndarray]
    ) -> None:
        tensor = None if known is None else known(_ARGUMENTS.get())
        self.is_made = tensor is None
        if tensor is None:
            tensor = wrap(copied(value))
            tensor._requires_grad = needs_grad
        self.tensor = tensor
        self.is_written = False
        self._grad = tensor._grad
        self._memory = self._lent = tensor._data
        self._before: np.ndarray = on_host(value)
        if not self.is_made and self._is_current(value, stale):
            self._before = np.array(self._before)
        elif not self.is_made:
            self._lent = copied(value)

    def _is_current(self, value: Any, stale: Sequence[np.ndarray]) -> bool:
        memory = self._memory
        if any(np.may_share_memory(memory, a) for a in stale):
            return False
        return _is_same_memory(memory, value) or _bytes_of(memory) == self._before.tobytes()

    def lend(self) -> None:
        self.tensor._data = self._lent

    def take_back(self) -> None:
        """The object has its own memory again, and in that what was there."""
        self.is_written = self.tensor._data is not self._lent or (
            _bytes_of(self._lent) != self._before.tobytes()
        )
        if self.is_written and self._lent is self._memory:
            self._memory[...] = self._before
        self.tensor._data = self._memory

    @property
    def has_other_grad(self) -> bool:
        return self.tensor._grad is not self._grad


def _is_same_memory(a: Any, b: Any) -> bool:
    """Whether a plan has the elements where the object has them, too."""
    if a.__class__ is DeviceArray and b.__class__ is DeviceArray:  # of which the plan's has no block
        return (a.address, a.element_strides) == (b.address, b.element_strides)
    return bool(np.may_share_memory(a, b))


def _bytes_of(array: Any) -> bytes:
    return on_host(array).tobytes()


class Kept:
    """Whether somebody holds more of the containers among ``args`` and ``kwargs`` than before. ``containers``
    are all of the call, as ``tree.py`` opens and makes them, what holds the two last. Of tuples alone, it
    makes no difference who holds them."""

    def __init__(self, containers: list[Any], args: tuple, kwargs: dict[str, Any]) -> None:
        self._containers = [c for c in containers[:-1] if c is not args and c is not kwargs]
        if all(isinstance(container, tuple) for container in self._containers):
            self._containers = []
        self._before = self._references()

    def _references(self) -> list[int]:
        return [sys.getrefcount(container) for container in self._containers]

    def has_more(self) -> bool:
        return any(now > before for now, before in zip(self._references(), self._before, strict=True))


def is_kept(leaves: list[Any], k: int) -> bool:
    """Whether ``leaves[k]`` is a tensor that others hold than this list and the structure it was found in."""
    if not isinstance(leaves[k], Tensor):
        return False
    times = sum(leaf is leaves[k] for leaf in leaves)
    structure = [wrap(np.zeros(()))] * times
    return _references(leaves, k) > _references([structure[0]] * times, 0)


def _references(leaves: list[Any], k: int) -> int:
    leaf = leaves[k]
    return sys.getrefcount(leaf)
