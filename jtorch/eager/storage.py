"""The memory under tensors: which of them share it, and how it is copied and pickled with them.

A storage is the whole array that a tensor is a window of. Memory that another library owns (a buffer, a
mapped file) is not the tensor's to copy whole: there the window is the storage.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.device_array import DeviceArray
from jtorch.core.devices import CPU, check, device
from jtorch.core.op import BY_NAME
from jtorch.eager.duals import KEY
from jtorch.eager.empty_views import layout
from jtorch.eager.exchange import from_numpy
from jtorch.eager.tensor import Tensor, _concrete, wrap


def _owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of ``array``, or ``array`` itself where no array does."""
    root = array
    while True:
        base = root.base if isinstance(root.base, np.ndarray) else getattr(root.base, "base", None)
        if not isinstance(base, np.ndarray):  # what as_strided makes has an object in between
            break
        root = base
    if type(root) is np.ndarray and (root.flags.owndata or _in_shared_memory(root)):
        return root
    return array


def _in_shared_memory(array: np.ndarray) -> bool:
    if "jtorch.eager.shared" not in sys.modules:  # which imports multiprocessing
        return False
    from jtorch.eager import shared

    return shared.is_shared(array)


class UntypedStorage:
    """The bytes under a tensor, by address.

    Source: https://docs.pytorch.org/docs/stable/storage.html
    """

    __slots__ = ("_address", "_bytes", "_cell", "_kept", "_place")

    def __init__(self, array: Any, cell: list) -> None:
        self._cell = cell  # the version of what is written there
        self._kept: Any  # keeps the memory alive
        if array.__class__ is DeviceArray:
            self._kept, self._place = array.block, array.device
            self._address, self._bytes = array.block.address, array.block.nbytes
            return
        self._kept, self._place = owner, _ = _owner(array), CPU
        low, high = np.lib.array_utils.byte_bounds(owner)
        self._address, self._bytes = low, high - low if owner.size else 0

    def data_ptr(self) -> int:
        return self._address

    def nbytes(self) -> int:
        return self._bytes

    size = __len__ = nbytes

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._bytes

    @property
    def device(self) -> device:
        return self._place

    def element_size(self) -> int:
        return 1

    def is_shared(self) -> bool:
        return self._place is CPU and _in_shared_memory(self._kept)

    def __repr__(self) -> str:
        return f"[jtorch.UntypedStorage(device={self._place}) of size {self._bytes}]"


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory this tensor is a window of. Tensors that share it have storages of one ``data_ptr()``."""
    held = self._data.__class__ is DeviceArray and self.is_cuda
    return UntypedStorage(self._data if held else _concrete(self, "untyped_storage()"), self._cell)


def storage_offset(self: Tensor) -> int:
    """Elements between the start of the storage and this tensor's first."""
    if self._data.__class__ is DeviceArray:
        return self._data.offset
    array = _concrete(self, "storage_offset()")
    if not array.size and self._base is not None:
        return storage_offset(self._base) + (layout(self) or (0,))[0]
    return offset_of(array)


def offset_of(array: np.ndarray) -> int:
    """The same of an array of the host."""
    low, _ = np.lib.array_utils.byte_bounds(_owner(array))
    return (array.__array_interface__["data"][0] - low) // array.itemsize if array.size else 0


def window(
    storage: UntypedStorage, dtype: np.dtype, shape: tuple[int, ...], steps: tuple[int, ...], start: int
) -> Any:
    """The elements of ``storage`` from ``start`` on, with ``steps`` in elements: places that are in it."""
    kept = storage._kept
    if not isinstance(kept, np.ndarray):
        return DeviceArray(kept, dtype, shape, steps, start)
    if 0 in shape:
        return np.empty(shape, dtype)
    if kept.nbytes != storage.nbytes():
        raise NotImplementedError(
            "a window of another library's memory that has gaps between its elements: .clone() it first"
        )
    flat = kept.ravel("K").view(np.uint8)
    strides = tuple(s * dtype.itemsize for s in steps)
    return np.ndarray(shape, dtype, flat, start * dtype.itemsize, strides)  # type: ignore[call-overload]


def check_bounds(size: tuple[int, ...], stride: tuple[int, ...], start: int, width: int, nbytes: int) -> None:
    """Raise PyTorch's error where these places, of ``width`` bytes each, are not all in memory of so many."""
    end = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    if start < 0 or (0 not in size and end * width > nbytes):
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and "
            f"itemsize {width} requiring a storage size of {end * width} are out of bounds for storage of "
            f"size {nbytes}"
        )


def is_shared(self: Tensor) -> bool:
    """Whether this memory is what ``share_memory_`` makes, which other processes may see."""
    if self._data.__class__ is DeviceArray:
        return False
    return _in_shared_memory(_concrete(self, "is_shared()"))


def share_memory_(self: Tensor) -> Tensor:
    """Move the elements to memory that child processes see and change, forked ones and those it is sent to.

    Raises NotImplementedError where other tensors, arrays or compiled functions use the same memory: they
    would stay behind.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.share_memory_.html
    """
    from jtorch.eager import shared

    if self._data.__class__ is DeviceArray:
        raise NotImplementedError(f"share_memory_() of a tensor on {self.device}: take x.cpu() first")
    if is_shared(self):
        return self
    if self._data.size and _has_others(self):
        raise NotImplementedError(
            "share_memory_(): other tensors, arrays or compiled functions use this memory and would not move "
            "with it. Share it before those are made, or a clone()"
        )
    self.data = wrap(shared.copied(self._data))
    shared.sent_as_memory(type(self))
    return self


def _has_others(tensor: Tensor) -> bool:
    """Whether anything else refers to the memory of ``tensor``: more than to that of one just made."""
    owns = _owner(tensor._data) is tensor._data
    if owns and tensor._data.base is not None:
        return True  # memory of another library's
    alone = wrap(np.zeros(1) if owns else np.zeros(2)[:1])
    pairs = zip(_references(tensor), _references(alone), strict=True)
    return any(found > expected for found, expected in pairs)


def _references(tensor: Tensor) -> tuple[int, int]:
    """To the array of ``tensor`` and to the owner of its memory."""
    return sys.getrefcount(tensor._data), sys.getrefcount(_owner(tensor._data))


# -- copies ------------------------------------------------------------------------------------------------


def _alike(tensor: Tensor, array: Any) -> Tensor:
    """A leaf of the same type and ``requires_grad`` over ``array``."""
    return _rebuild(type(tensor), array, tensor._requires_grad)


def _rebuild(cls: type[Tensor], array: Any, requires_grad: bool, place: device | None = None) -> Tensor:
    tensor: Tensor = object.__new__(cls)
    if place is not None:
        array = op_module.CONTEXT.get().evaluator.move(array, check(place))
    known = np.dtype(array.dtype.type)
    # an unpickled dtype equals NumPy's own object and is another one, where ops compare by identity
    tensor.hold(array if array.dtype is known or place is not None else array.view(known))
    tensor._requires_grad = requires_grad
    return tensor


def _copy(self: Tensor) -> Tensor:
    """``copy.copy``: another tensor over the same memory, off the tape."""
    copied = _alike(self, self._data if self._data.__class__ is DeviceArray else _concrete(self, "copy()"))
    copied.__dict__.update(_of_users(self))
    return copied


def _of_users(tensor: Tensor) -> dict[str, Any]:
    """What users hung on ``tensor``. Copies have no tangent, as in PyTorch."""
    return {name: value for name, value in tensor.__dict__.items() if name != KEY}


def _deepcopy(self: Tensor, memo: dict) -> Tensor:
    """``copy.deepcopy``: memory of its own, shared by copies as it was by the originals of one call."""
    if id(self) in memo:
        return memo[id(self)]
    if self._node is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
            "moment.  If you were attempting to deepcopy a module, this may be because of a "
            "torch.nn.utils.weight_norm "
            "usage, see https://github.com/pytorch/pytorch/pull/103001"
        )
    copied = _alike(self, _copied(self, memo))
    memo[id(self)] = copied
    if self.grad is not None:
        copied.grad = _deepcopy(self.grad, memo)
    copied.__dict__.update(copy.deepcopy(_of_users(self), memo))
    return copied


def _copied(tensor: Tensor, memo: dict) -> Any:
    """The elements of ``tensor`` in memory of their own, shared by the copies of its views."""
    if tensor._data.__class__ is not DeviceArray:
        return _copied_window(_concrete(tensor, "deepcopy()"), memo)
    array = tensor._data
    if tensor.device.type == "meta" or not array.size:
        return op_module.bind(BY_NAME["clone"], array)
    key = ("storage", id(array.block))
    if key not in memo:
        memo[key] = array.block.memory.copied(_bytes_of(array))
    return _window(memo[key], array.dtype, array.shape, array.element_strides, array.offset)


def _bytes_of(array: DeviceArray) -> DeviceArray:
    """All the memory that ``array`` is a window of."""
    return DeviceArray(array.block, np.dtype(np.uint8), (array.block.nbytes,))


def _window(
    whole: DeviceArray, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> DeviceArray:
    return DeviceArray(whole.block, dtype, shape, strides, offset, whole)


def downloaded(tensor: Tensor, copies: dict[int, np.ndarray]) -> np.ndarray:
    """The elements of a tensor on a device, as a window of the host's copy of all its memory, of which there
    is one in ``copies`` for each address."""
    array = tensor._data
    if not array.size:
        return np.empty(array.shape, array.dtype)
    if array.block.address not in copies:
        copies[array.block.address] = _bytes_of(array).concrete("a copy to the host")
    begin, whole = array.offset * array.itemsize, copies[array.block.address]
    return np.ndarray(array.shape, array.dtype, whole, begin, array.strides)  # type: ignore[call-overload]


class Uploads:
    """Arrays of the host as tensors on devices: windows of one array become windows of one memory."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, device], tuple[np.ndarray, DeviceArray]] = {}

    def tensor(self, array: np.ndarray, whole: np.ndarray, place: device) -> Tensor:
        """A tensor of the elements of ``array``, which is a window of ``whole``: over this very memory where
        ``place`` is the host. ``whole`` lies row by row."""
        if place is CPU or not array.size:
            return from_host(array, place)
        key = (id(whole), place)
        if key not in self._made:
            flat = whole.reshape(-1).view(np.uint8)
            self._made[key] = whole, op_module.CONTEXT.get().evaluator.move(flat, place)
        begin = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        strides = tuple(s // array.itemsize for s in array.strides)
        known = np.dtype(array.dtype.type)
        return wrap(_window(self._made[key][1], known, array.shape, strides, begin // array.itemsize))


def from_host(array: np.ndarray, place: device) -> Tensor:
    """``array`` as a tensor over its memory, or over a copy of it on another device."""
    made = from_numpy(array)
    return made if place is CPU else made.to(place)


def _copied_window(array: np.ndarray, memo: dict) -> np.ndarray:
    """``array`` in memory of its own: the same window of a copy of its owner, made once for a memo."""
    owner = _owner(array)
    low, high = np.lib.array_utils.byte_bounds(owner)
    borrowed = owner is array and array.base is not None
    if borrowed or high - low != owner.nbytes or not array.size:
        return np.array(array)
    key = ("storage", id(owner))
    if key not in memo:
        memo[key] = np.array(owner)
    copied = memo[key]
    if owner is array:
        return copied
    offset = array.__array_interface__["data"][0] - low
    flat = copied.ravel("K").view(np.uint8)
    return np.ndarray(array.shape, array.dtype, flat, offset, array.strides)  # type: ignore[call-overload]


def _reduce(self: Tensor, protocol: Any) -> Any:
    """Pickles hold the elements and what users hung on the tensor, and no tape."""
    place = (self.device,) if self._data.__class__ is DeviceArray else ()
    made = (type(self), np.array(_concrete(self, "pickle")), self._requires_grad, *place)
    kept = _of_users(self)
    return (_rebuild, made, kept) if kept else (_rebuild, made)


FUNCTIONS: dict[str, Callable] = {}
METHODS: dict[str, Any] = {
    "untyped_storage": untyped_storage, "storage_offset": storage_offset, "is_shared": is_shared,
    "share_memory_": share_memory_, "__copy__": _copy, "__deepcopy__": _deepcopy, "__reduce_ex__": _reduce,
}  # fmt: skip
