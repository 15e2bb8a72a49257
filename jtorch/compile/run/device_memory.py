"""The memory of the device that tensors lie on, and how ops are computed there: what ``core/higher.py``
offers to eager mode as ``device``.

There is one device, found when somebody asks for it. All of it is in one stream, so memory may be handed on
while what used it still runs.
"""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.run import device_halves, device_routines
from jtorch.compile.run.cuda_gather import move
from jtorch.compile.run.cuda_texts import check_texts
from jtorch.compile.run.device_kernels import Cache
from jtorch.core.device_array import DeviceArray
from jtorch.core.devices import device as name_of_device
from jtorch.core.errors import CudaError
from jtorch.core.op import BY_NAME, Op
from jtorch.core.strides import contiguous_strides
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.driver import FORKED

_ITEMSIZES = (1, 2, 4, 8, 16)


class Block:
    """Memory of a device, for as long as anybody has this: see ``core/device_array.py``."""

    __slots__ = ("address", "buffer", "memory", "nbytes")

    def __init__(self, memory: DeviceMemory, nbytes: int, buffer: Any = None) -> None:
        self.memory, self.nbytes = memory, nbytes
        self.buffer = memory.native.allocate(nbytes) if buffer is None else buffer
        self.address = self.buffer.address

    @property
    def device(self) -> Any:
        return self.memory.name

    @property
    def stream(self) -> int:
        return self.memory.native.stream

    def download(self, begin: int, nbytes: int, wanted_by: str) -> np.ndarray:
        found, native = np.empty(nbytes, np.uint8), self.memory.native
        with native.own():
            native.download(found.ctypes.data, self.address + begin, nbytes)
        return found

    def assign(self, array: DeviceArray, value: Any) -> None:
        value = self.memory.uploaded(value)
        if value.block is self and not (
            value.offset == array.offset and value.element_strides == array.element_strides
        ):
            value = self.memory.copied(value)  # which may lie where it is written
        strides = (0,) * (array.ndim - value.ndim) + tuple(
            0 if n == 1 else s for n, s in zip(value.shape, value.element_strides, strict=True)
        )
        with self.memory.native.own():
            move(
                self.memory.native, array.address, array.element_strides, value.address, strides, array.shape,
                array.itemsize,
            )  # fmt: skip


class Borrowed(NamedTuple):
    """In place of a buffer of the device's: memory of another library."""

    address: int
    owner: Any


class DeviceMemory:
    """Over a device of the driver's."""

    def __init__(self, native: Device, index: int = 0) -> None:
        self.native, self.name, self.index = native, name_of_device("cuda", index), index
        self._cache = Cache(self)

    def empty(self, dtype: np.dtype, shape: tuple[int, ...]) -> DeviceArray:
        """Of undefined content."""
        count = 1
        for n in shape:
            count *= n
        with self.native.own():
            return DeviceArray(Block(self, count * dtype.itemsize), dtype, tuple(shape))

    def borrowed(self, address: int, nbytes: int, owner: Any) -> Block:
        """Memory that is somebody else's, who keeps it as long as ``owner`` lives."""
        return Block(self, nbytes, Borrowed(address, owner))

    def uploaded(self, value: Any, later: bool = False) -> Any:
        """A copy of an array; of a tuple of them each, and what lies here already as it is. Of pinned memory
        it may be made ``later``: nobody may write that until the device was waited for."""
        if value.__class__ is tuple:
            return tuple([self.uploaded(v) for v in value])
        if value is None or value.__class__ is DeviceArray:
            return value
        if value.__class__ is np.ndarray and value.size > 1 and not any(value.strides):
            return self.filled(value[(0,) * value.ndim], value.shape)
        given = np.asarray(value, order="C")
        made = self.empty(given.dtype, given.shape)
        with self.native.own():
            self.native.upload(made.address, given.ctypes.data, given.nbytes, later)
        return made

    def pinned(self, array: np.ndarray) -> np.ndarray:
        """A copy in memory that is pinned, with the same order of axes."""
        with self.native.own():
            memory = self.native.pinned.empty(array.nbytes)
        strides = np.empty_like(array).strides
        made: np.ndarray = np.ndarray(array.shape, array.dtype, memory, 0, strides)  # type: ignore[call-overload]
        made[...] = array
        return made

    def is_pinned(self, array: np.ndarray) -> bool:
        """Whether its elements lie in memory that ``pinned`` has made."""
        return bool(array.size) and self.native.pinned.holds(array.ctypes.data)

    def filled(self, number: Any, shape: tuple[int, ...]) -> DeviceArray:
        """``number``, which has a dtype, throughout."""
        one = self.uploaded(np.asarray(number))
        return self.copied(DeviceArray(one.block, one.dtype, shape, (0,) * len(shape), 0, one))

    def copied(self, array: DeviceArray) -> DeviceArray:
        """The elements side by side in memory of their own."""
        made = self.empty(array.dtype, array.shape)
        with self.native.own():
            move(
                self.native, made.address, contiguous_strides(array.shape), array.address,
                array.element_strides, array.shape, array.itemsize,
            )  # fmt: skip
        return made

    def in_order(self, array: DeviceArray) -> DeviceArray:
        """Itself where it is laid out row by row, else a copy that is."""
        return array if array.in_order else self.copied(array)

    def made(self, op: Op, at_once: Callable, values: tuple, statics: dict[str, Any]) -> Any:
        """What an op makes of no arrays; ``at_once`` does on the host, but for one number throughout, and for
        random bits."""
        if op is BY_NAME["random_bits"]:
            seeds = tuple([self.uploaded(np.asarray(v, np.uint64)) for v in values])
            call = self.kernels(op.body, seeds, statics)
            return self.uploaded(at_once(*values, **statics)) if call is None else call(seeds)
        if op is BY_NAME["full"] and math.prod(statics["shape"]) > 1:
            return self.filled(at_once(*values, **statics | {"shape": ()}), tuple(statics["shape"]))
        return self.uploaded(at_once(*values, **statics))

    def routine(self, op: Op, xp: Any, values: tuple, statics: dict[str, Any]) -> Any:
        """What computes an op that no kernel is made for; None where nothing does."""
        return device_routines.compute(op, self, xp, values, statics)

    def widened(self, array: DeviceArray) -> DeviceArray:
        """An array of 16 bits in float32."""
        return device_halves.widened(self, array)

    def rounded(self, array: DeviceArray, dtype: np.dtype) -> DeviceArray:
        """An array of float32 in a dtype of 16 bits."""
        return device_halves.rounded(self, array, dtype)

    def kernels(
        self, function: Callable, values: tuple, statics: dict[str, Any], moves: Any = None, parts: Any = None
    ) -> Callable[[tuple], Any] | None:
        """What computes ``function(xp, *values, **statics)`` here; None where the host has to. What moves
        elements alone runs by ``moves``, where that is given, so that it copies none; what has ops with
        routines of their own by ``parts``, op by op."""
        return self._cache.call_of(function, values, statics, moves, parts)


_found: DeviceMemory | None = None
_looking = threading.Lock()
_forked = False
make: Callable[[], Device] = Device  # tests have another one


def current() -> DeviceMemory:
    """The device that there is, which the first call looks for. Raises CudaError where there is none, and in
    the child of a process that had found it."""
    global _found
    if _forked:
        raise CudaError(FORKED)
    if _found is None:
        with _looking:
            if _found is None:
                check_texts()
                _found = DeviceMemory(make())
    return _found


def of(native: Device) -> DeviceMemory:
    """That over a device, which is the one that tensors lie on, if any do."""
    return _found if _found is not None and _found.native is native else DeviceMemory(native)


@functools.cache
def _lacks() -> str:
    """Why there is none, where there is none; a driver does not come while a process runs."""
    try:
        current()
        return ""
    except CudaError as error:
        return str(error)


def is_available() -> bool:
    """Whether there is one, and what computes on it is installed."""
    if _found is None and not _forked:
        return not _lacks()
    return _found is not None


def is_found() -> bool:
    """Whether anybody has asked for it, and it was there."""
    return _found is not None


def use(memory: DeviceMemory | None) -> None:
    """Let that be the device from now on; None to look again at the next question."""
    global _found
    _found = memory
    _lacks.cache_clear()


def _after_fork() -> None:
    global _forked, _looking
    _looking, _forked = threading.Lock(), _found is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
