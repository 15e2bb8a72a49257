"""What the tape keeps of gathered parameters: not their memory, but the place to find it at when needed.

An op saves the parameters that its gradient needs, or views of them. Hooks on saved tensors know them by
their address and keep a place in its stead; backward asks for the place, and that gathers. What is no
gathered memory is left to the hooks around (those of a checkpoint, say), or kept as it is.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.eager.public import DECLINED, Tensor, from_numpy, saved_tensors_hooks

if TYPE_CHECKING:
    from jtorch.distributed.fsdp.group import ParameterGroup


class Place:
    """A window of the ``number``-th parameter of a group."""

    __slots__ = ("dtype", "group", "number", "offset", "shape", "strides", "version")

    def __init__(self, group: ParameterGroup, number: int, array: np.ndarray) -> None:
        self.group, self.number, self.version = group, number, group.versions[number]
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.offset = _address(array) - _address(group.wholes[number])

    def tensor(self) -> Tensor:
        """The same window, of what is gathered now: the same elements, or a RuntimeError."""
        self.group.gather_for_backward(self.number, self.version)
        memory = self.group.wholes[self.number].reshape(-1).view(np.uint8)
        window: Any = np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)  # type: ignore[call-overload]
        return from_numpy(window)


class Regions:
    """The memory of all parameters that are gathered in this process, by address."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._found: list[tuple[int, Any, int]] = []  # (end, group, number of the parameter)

    def add(self, group: Any, wholes: list[np.ndarray]) -> None:
        for number, whole in enumerate(wholes):
            if whole.size:
                begin = _address(whole)
                k = bisect.bisect(self._begins, begin)
                self._begins.insert(k, begin)
                self._found.insert(k, (begin + whole.nbytes, group, number))

    def remove(self, wholes: list[np.ndarray]) -> None:
        for whole in wholes:
            if whole.size:
                k = bisect.bisect_left(self._begins, _address(whole))
                del self._begins[k], self._found[k]

    def find(self, array: np.ndarray) -> tuple[Any, int] | None:
        """(group, number of its parameter) that ``array`` is a window of."""
        address = _address(array)
        k = bisect.bisect(self._begins, address) - 1
        if k < 0 or not array.size or address >= self._found[k][0]:
            return None
        return self._found[k][1:]


REGIONS = Regions()


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _pack(tensor: Tensor) -> Any:
    array = tensor.numpy()
    found = REGIONS.find(array)
    if found is None:
        return DECLINED
    group, number = found
    group.is_saved = True
    return Place(group, number, array)


def keeping_places() -> saved_tensors_hooks:
    """The hooks; a context."""
    return saved_tensors_hooks(_pack, Place.tensor)
