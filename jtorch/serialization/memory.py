"""What the writers ask about tensors: which are one memory, which class comes back, what hangs on them."""

from __future__ import annotations

import bisect
import copyreg
import math
from typing import Any, NamedTuple

import numpy as np

from jtorch.eager.public import Tensor, downloaded, from_numpy
from jtorch.nn.parameter import Buffer, Parameter
from jtorch.serialization.unpickle import Keys, told


class Region:
    """A run of bytes that is written once, whoever looks at it."""

    __slots__ = ("dtypes", "high", "location", "low", "number", "told")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self.dtypes: set[np.dtype] = set()  # of the tensors met in it
        self.number = -1  # in the order of being met
        self.told: Any = None  # its facts when the writer was told of it
        self.location = "cpu"  # where the tensors lie; of those on a device this is the host's copy

    def __len__(self) -> int:
        return self.high - self.low

    @property
    def dtype(self) -> np.dtype | None:
        """That of all its tensors; None where they differ, or where it is no whole number of elements."""
        if len(self.dtypes) != 1:
            return None
        (dtype,) = self.dtypes
        return None if len(self) % dtype.itemsize else dtype

    @property
    def facts(self) -> Any:
        return self.low, self.high, self.dtype

    def content(self) -> np.ndarray:
        """Its bytes where they are."""
        return np.asarray(_Bytes(self.low, len(self))) if len(self) else np.zeros(0, np.uint8)


class _Bytes:
    """What NumPy takes for an array: memory of someone who is alive."""

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "data": (address, True), "shape": (size,)
        }  # fmt: skip


class Window(NamedTuple):
    """A tensor's place in a region; offset and strides in elements."""

    region: Region
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @property
    def is_all(self) -> bool:
        """Whether its elements, row by row, are the whole region."""
        whole = self.offset == 0 and math.prod(self.shape) * self.dtype.itemsize == len(self.region)
        return whole and all(
            n == 1 or s == row for n, s, row in zip(self.shape, self.strides, _rows(self.shape), strict=True)
        )


class Memories:
    """The regions that tensors are windows of, numbered in the order they are met.

    A region is a tensor's storage. Where that belongs to another library (a mapped file), it is what the
    saved tensors of it reach, and of two that overlap the union: it may grow when a later one is met. A
    writer that was told of it begins anew then, with all that is known: see ``settled``.
    With ``storages=False`` regions are never more than what the tensors reach.
    """

    def __init__(self, storages: bool = True) -> None:
        self.met: list[Region] = []
        self._storages = storages
        self._regions: list[Region] = []  # by address; they do not overlap
        self._lows: list[int] = []  # where they begin
        self._kept: list[Any] = []  # what is alive can't have its address given to something else
        self._own: dict[int, np.ndarray] = {}  # id of a tensor -> its elements, where no region can hold it
        self._copies: dict[int, np.ndarray] = {}  # address on a device -> the host's copy of that memory

    def of(self, tensor: Tensor) -> Window:
        """Its place, in the region of every other tensor of the same memory."""
        array = downloaded(tensor, self._copies) if tensor.is_cuda else tensor.detach().numpy()
        self._kept.append((tensor, array))
        window = self._placed(array, *self._reach(tensor, array)) if array.size else _empty(array)
        if window is None:
            array = self._own.setdefault(id(tensor), np.array(array, order="C"))
            window = self._placed(array, *_bounds(array))
        assert window is not None
        region = window.region
        region.location = str(tensor.device)
        region.dtypes.add(array.dtype)
        if region.number < 0:
            region.number = len(self.met)
            region.told = region.facts
            self.met.append(region)
        return window

    def settled(self) -> bool:
        """Whether all that the writer was told still holds; if not, regions are numbered anew."""
        holds = all(region.told == region.facts for region in self.met)
        if not holds:
            for region in self.met:
                region.number = -1
            self.met = []
        return holds

    def _reach(self, tensor: Tensor, array: np.ndarray) -> tuple[int, int]:
        if not self._storages:
            return _bounds(array)
        storage = (from_numpy(array) if tensor.is_cuda else tensor).untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()

    def _placed(self, array: np.ndarray, low: int, high: int) -> Window | None:
        """Where it lies; None where steps of whole elements from the region's begin don't lead there."""
        size = array.itemsize
        if any(s < 0 or s % size for s in array.strides):
            return None
        region = self._region(low, high)
        begin = array.__array_interface__["data"][0] - region.low
        if begin % size:
            return None
        return Window(
            region, begin // size, array.shape, tuple(s // size for s in array.strides), array.dtype
        )

    def _region(self, low: int, high: int) -> Region:
        """The one of these bytes: one that was there, or made of those that they overlap."""
        first = max(bisect.bisect_right(self._lows, low) - 1, 0)
        if first < len(self._lows) and self._regions[first].high <= low:
            first += 1
        last = bisect.bisect_left(self._lows, high, first)
        parts = self._regions[first:last]
        if len(parts) == 1 and parts[0].low <= low and high <= parts[0].high:
            return parts[0]
        made = Region(min([low, *(p.low for p in parts)]), max([high, *(p.high for p in parts)]))
        for part in parts:
            made.dtypes |= part.dtypes
            part.told = "merged"
        self._regions[first:last] = [made]
        self._lows[first:last] = [made.low]
        return made


def _bounds(array: np.ndarray) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def _empty(array: np.ndarray) -> Window:
    return Window(Region(0, 0), 0, array.shape, _rows(array.shape), array.dtype)


def _rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The steps of elements that lie row by row."""
    lengths = [max(n, 1) for n in shape]
    return tuple(math.prod(lengths[k + 1 :]) for k in range(len(lengths)))


def strided(
    key: str, content: np.ndarray, offset: Any, size: Any, stride: Any, dtype: np.dtype
) -> np.ndarray:
    """A view of the bytes ``content`` of storage ``key``. Raises ValueError for one out of their bounds."""
    if not isinstance(size, (tuple, list)) or not isinstance(stride, (tuple, list)):
        raise ValueError(f"a tensor of size {told(size)}, stride {told(stride)}")
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError(f"a tensor of size {told(size)}, stride {told(stride)} at {told(offset)}")
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and (last + 1) * dtype.itemsize > content.size:
        raise ValueError(
            f"a tensor of size {told(size)}, stride {told(stride)} at {told(offset)} reaches beyond storage "
            f"{told(key)}"
        )
    if 0 in size:
        return np.zeros(size, dtype)
    strides = tuple(s * dtype.itemsize for s in stride)
    return np.ndarray(tuple(size), dtype, content, offset * dtype.itemsize, strides)  # type: ignore[call-overload]


def class_of(tensor: Tensor) -> type[Tensor] | None:
    """The class of which plain data gives ``tensor`` back; None for one that only pickling keeps.

    A subclass of Parameter comes back as a Parameter, as in PyTorch.
    """
    kind = type(tensor)
    if kind in (Tensor, Parameter, Buffer):
        return kind
    as_parameter = isinstance(tensor, Parameter) and kind.__reduce_ex__ is Parameter.__reduce_ex__
    return Parameter if as_parameter else None


def state_of(tensor: Tensor) -> Any:
    """What hangs on ``tensor``, as PyTorch has it: attributes, or (attributes, those of slots), or None."""
    if type(tensor).__getstate__ is not object.__getstate__:
        return tensor.__getstate__()
    named = dict(tensor.__dict__)
    if isinstance(tensor, Buffer):
        named = {"persistent": tensor.persistent, **named}
    if type(tensor) is Buffer:  # which in PyTorch is a Tensor with this mark
        named["_is_buffer"] = True
    names: Any = copyreg._slotnames(type(tensor))  # type: ignore[attr-defined]
    slots = {n: getattr(tensor, n) for n in names if n not in _OWN_SLOTS and hasattr(tensor, n)}
    return (named or None, slots) if slots else named or None


_OWN_SLOTS = frozenset(copyreg._slotnames(Buffer))  # type: ignore[attr-defined]


def path_text(place: tuple[Any, ...]) -> str:
    """``obj['model'][0]``: the place of a value inside the object that is saved."""
    return "obj" + "".join(f"[{step!r}]" for step in place)


class NotPlainError(TypeError):
    """The object has something in it that is no plain data."""


def refusal(value: Any, place: tuple[Any, ...]) -> NotPlainError:
    """The error for a value that is no plain data."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return NotPlainError(
        f"jtorch.save: {path_text(place)}: {name} can't be saved. It takes tensors, numbers, strings, None, "
        "dtypes, devices, dicts, OrderedDicts, Counters, lists and tuples. Of a module, optimizer or "
        "scheduler save its state_dict(), of an array jtorch.from_numpy(array), of a tensor of another class "
        "tensor.as_subclass(jtorch.Tensor), of another kind of dict or list dict(...) or list(...)."
    )


def key_refusal(key: Any, place: tuple[Any, ...]) -> NotPlainError:
    return NotPlainError(
        f"jtorch.save: {path_text(place)}: a dict with a key of type {type(key).__name__}; keys are strings, "
        "numbers, bools or None"
    )


def checked_key(keys: Keys, key: Any, place: tuple[Any, ...]) -> Any:
    """``key``, which reading must accept: one that it refuses would make a file that can't be loaded."""
    if key is not None and not isinstance(key, (str, int, float)):
        raise key_refusal(key, place)
    try:
        return keys.checked(key)
    except ValueError as error:
        raise NotPlainError(f"jtorch.save: {path_text(place)}: a dict with {error}") from None
