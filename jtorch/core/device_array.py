"""Arrays in the memory of a device: what stands in a Tensor's place of memory that lies there.

A ``DeviceArray`` is metadata over a block of memory, and computes nothing itself: operators go to the
evaluator in force, as ops do. It is no ndarray, and NumPy gets nothing from it unasked: ``concrete`` is the
one way out, and it waits for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.op import BY_NAME, Op
from jtorch.core.strides import contiguous_strides

Numbers = tuple[int, ...]

_NOT_NUMPYS = (
    "can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
    "first."
)
_OF_THE_HOST = frozenset({"numpy()", "__array__()", "__dlpack__()"})  # what would share memory


class Block(Protocol):
    """Memory of a device, for as long as anybody has this."""

    address: int
    nbytes: int
    memory: Any  # what made it: it has a device's name, kernels and ways to copy

    @property
    def device(self) -> Any:
        """What ``tensor.device`` is."""

    @property
    def stream(self) -> int:
        """The driver's handle of the queue that all work on it goes through."""

    def download(self, begin: int, nbytes: int, wanted_by: str) -> np.ndarray:
        """These bytes on the host, as uint8, when all that was asked of the device before is done."""

    def assign(self, array: DeviceArray, value: DeviceArray | np.ndarray) -> None:
        """The elements of ``value`` in the place of those of ``array``, which is a window of this."""


class Flags:
    """The part of ``ndarray.flags`` that eager mode asks for."""

    __slots__ = ("c_contiguous", "forc")
    writeable = aligned = True

    def __init__(self, c_contiguous: bool, dense: bool) -> None:
        self.c_contiguous, self.forc = c_contiguous, dense


class DeviceArray:
    """A window of ``block``: ``element_strides`` and ``offset`` count elements of ``dtype``. ``base`` is the
    array that it is a view of, None for one that covers what was allocated for it."""

    __slots__ = ("__weakref__", "base", "block", "dtype", "element_strides", "offset", "shape")

    __array_priority__ = 1000  # a NumPy array on the left of an operator leaves it to this

    def __init__(
        self, block: Block, dtype: np.dtype, shape: Numbers, strides: Numbers | None = None, offset: int = 0,
        base: DeviceArray | None = None,
    ) -> None:  # fmt: skip
        self.block, self.dtype, self.shape, self.offset, self.base = block, dtype, shape, offset, base
        self.element_strides = contiguous_strides(shape) if strides is None else strides

    # -- metadata --------------------------------------------------------------------------------------------

    @property
    def device(self) -> Any:
        return self.block.device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> Numbers:
        """In bytes, as an ndarray's."""
        return tuple(s * self.dtype.itemsize for s in self.element_strides)

    @property
    def address(self) -> int:
        """Of its first element."""
        return self.block.address + self.offset * self.dtype.itemsize

    @property
    def in_order(self) -> bool:
        """Whether its elements lie side by side, row by row."""
        expected = zip(self.shape, self.element_strides, contiguous_strides(self.shape), strict=True)
        return all(n == 1 or s == e for n, s, e in expected) or 0 in self.shape

    @property
    def flags(self) -> Flags:
        return Flags(self.in_order, self.in_order or self.viewed_by(_REVERSE, {}).in_order)

    def lies_in(self, value: Any) -> bool:
        """Whether its memory is that of ``value``."""
        return value.__class__ is DeviceArray and value.block is self.block

    def viewed_by(self, op: Op, statics: dict[str, Any]) -> DeviceArray:
        """This memory as an op of kind view sees it. Raises ValueError where no strides say how."""
        if op is _REVERSE:
            return DeviceArray(
                self.block, self.dtype, self.shape[::-1], self.element_strides[::-1], self.offset, self
            )
        assert op.shape is not None and op.affine is not None
        shape = tuple(op.shape(self.shape, **statics))
        moved = op.affine(self.shape, self.element_strides, **statics)
        if moved is None:
            raise ValueError(f"{op.name} of this memory is no view")
        offset, strides = moved
        if op.strides is not None:
            strides = op.strides(self.shape, self.element_strides, **statics)
        return DeviceArray(
            self.block, self.dtype, shape, tuple(strides), self.offset + offset, self.base or self
        )

    def view(self) -> DeviceArray:
        """Another array over the same elements."""
        return DeviceArray(
            self.block, self.dtype, self.shape, self.element_strides, self.offset, self.base or self
        )

    def span(self) -> tuple[int, int]:
        """The addresses at which its elements begin, and end."""
        spans = list(zip(self.element_strides, self.shape, strict=True))
        low = sum(min(s * (n - 1), 0) for s, n in spans)
        high = sum(max(s * (n - 1), 0) for s, n in spans) + 1
        begin = self.address
        return begin + low * self.dtype.itemsize, begin + high * self.dtype.itemsize

    # -- elements --------------------------------------------------------------------------------------------

    def concrete(self, wanted_by: str) -> np.ndarray:
        """A copy of the elements on the host; it waits for the device. Raises TypeError for what would share
        their memory."""
        if wanted_by in _OF_THE_HOST:
            self.refuse()
        if not self.size:
            return np.empty(self.shape, self.dtype)
        itemsize, spans = self.dtype.itemsize, list(zip(self.element_strides, self.shape, strict=True))
        low = self.offset + sum(min(s * (n - 1), 0) for s, n in spans)
        high = self.offset + sum(max(s * (n - 1), 0) for s, n in spans) + 1
        found = self.block.download(low * itemsize, (high - low) * itemsize, wanted_by)
        begin = (self.offset - low) * itemsize
        seen: np.ndarray = np.ndarray(self.shape, self.dtype, found, begin, self.strides)  # type: ignore[call-overload]
        return seen if self.in_order else np.array(seen, order="C")

    def item(self) -> Any:
        """The one element; it waits for the device."""
        return self.concrete("item()").item()

    def refuse(self) -> NoReturn:
        """What NumPy is told."""
        raise TypeError(_NOT_NUMPYS.format(device=self.device))

    def __setitem__(self, key: Any, value: Any) -> None:
        assert key is Ellipsis, "a part of a device's array is written through a view of it"
        self.block.assign(self, value)

    def __array__(self, *args: Any, **options: Any) -> Any:
        self.refuse()

    def __array_function__(self, function: Any, types: Any, operands: Any, options: Any) -> Any:
        if function is np.may_share_memory or function is np.shares_memory:
            return _may_share_memory(*operands)
        return self.refuse()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        compute = UFUNCS.get(ufunc)
        if compute is None or method != "__call__" or options:
            self.refuse()
        return compute(operands)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Source: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html"""
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.address if self.size else 0, False),
            "version": 3, "strides": None if self.in_order else self.strides, "stream": self.block.stream,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<{self.dtype} {self.shape} on {self.device}>"


def _may_share_memory(a: Any, b: Any) -> bool:
    """Whether elements of the two, of which one lies on a device, lie between each other's."""
    if not (a.__class__ is b.__class__ is DeviceArray and a.block is b.block and a.size and b.size):
        return False
    (begin, end), (other_begin, other_end) = a.span(), b.span()
    return begin < other_end and other_begin < end


def address_of(array: Any) -> int:
    """Where the first element of an array of the host, or of a device, lies."""
    if array.__class__ is DeviceArray:
        return array.address
    return array.__array_interface__["data"][0]


def copied(array: Any) -> Any:
    """Its elements in memory of their own."""
    return array.block.memory.copied(array) if array.__class__ is DeviceArray else np.copy(array)


def in_order(array: Any) -> Any:
    """Row by row; unlike ``np.ascontiguousarray`` without an axis where there was none."""
    if array.__class__ is DeviceArray:
        return array.block.memory.in_order(array)
    return np.asarray(array, order="C")


def on_host(value: Any) -> Any:
    """The elements of what lies on a device, and anything else as it is."""
    return value.concrete("a computation on the host") if value.__class__ is DeviceArray else value


ARRAYS = np.ndarray, DeviceArray
"""What holds elements, where tensors of a recording hold none."""


_REVERSE: Any = object()  # all axes, the last first
UFUNCS: dict[Any, Callable[[tuple], Any]] = {}
"""What computes a function of NumPy's that an op is the name of, given its operands."""


def _operator(name: str, reflected: bool = False) -> Any:
    def operator(self: DeviceArray, *other: Any) -> Any:
        index = BY_NAME[name].index
        return op_module.CONTEXT.get().table[index](*((*other, self) if reflected else (self, *other)))

    return operator


for _symbol, _name in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow",
}.items():  # fmt: skip
    setattr(DeviceArray, f"__{_symbol}__", _operator(_name))
    setattr(DeviceArray, f"__r{_symbol}__", _operator(_name, reflected=True))
setattr(DeviceArray, "__neg__", _operator("neg"))  # noqa: B010 - as those above
