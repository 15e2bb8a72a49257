"""Batched values: raw values for ops, of which each is about one example."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from jtorch.core import op as op_module
from jtorch.core.op import BY_NAME
from jtorch.core.sizes import Shape
from jtorch.core.strides import contiguous_strides

ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
    "Tensor, please try to rewrite what you're doing with other operations."
)
CONTROL_FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
    "support that yet: compute both ways and choose with jtorch.where."
)
NO_STORAGE = (
    "Cannot access data pointer of Tensor that doesn't have storage: {wanted_by} of a tensor that is mapped "
    "over by vmap."
)
ESCAPED = (
    "Either your tensor may have escaped from inside a function being vmapped and this is a user error, or "
    "it was handed to code that takes arrays alone: it stands for all examples of a batch. Return it from "
    "the function that is mapped."
)
DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape: {wanted_by} looks at the "
    "elements of a tensor that is mapped over, and may give more of them for one example than for another."
)
_OF_MEMORY = (
    "numpy()", "tolist()", "data_ptr()", "storage_offset()", "untyped_storage()", "is_shared()", "copy()",
    "deepcopy()", "pickle",
)  # fmt: skip
_OF_NUMBERS = ("item()", "float()", "int()", "complex()", "index()")


class MappedAxis:
    """The axis that one call of vmap adds: its ``size`` and what random ops do, "error", "same" or
    "different". ``drawn`` are the (seed, call) that it gave to random ops which differ."""

    __slots__ = ("drawn", "name", "randomness", "size")

    def __init__(self, size: Any, randomness: str, name: str) -> None:
        self.size = size
        self.randomness = randomness
        self.name = name  # of the function that is mapped
        self.drawn: list[tuple[Any, Any]] = []


class ExampleShape(tuple):
    """The shape of one example, which knows its batch: nodes of the tape keep it of a batched output."""

    axis: MappedAxis


class SymbolicExampleShape(Shape):
    """The same where sizes are symbols."""

    axis: MappedAxis  # type: ignore[misc]


def shape_in(axis: MappedAxis, sizes: tuple) -> Any:
    """``sizes`` as the shape of an example of a batch."""
    shape: Any = (SymbolicExampleShape if sizes.__class__ is Shape else ExampleShape)(sizes)
    shape.axis = axis
    return shape


class Flags:
    """The part of ``ndarray.flags`` that Tensor asks for."""

    __slots__ = ("c_contiguous", "forc")

    def __init__(self, c_contiguous: bool) -> None:
        self.c_contiguous = self.forc = c_contiguous


class Batched:
    """The values of all examples: ``value`` has the batch axis first, everything else is one example's."""

    __slots__ = ("axis", "dtype", "ndim", "shape", "value")
    base = None  # what ndarrays say whose memory they share: here the value knows
    __array_ufunc__ = None  # an array on the left of an operator leaves it to us

    def __init__(self, value: Any, axis: MappedAxis) -> None:
        self.axis = axis
        self.value = value
        self.dtype = value.dtype
        self.shape = shape = shape_in(axis, value.shape[1:])
        self.ndim = len(shape)

    @property
    def size(self) -> Any:
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.value.strides[1:])

    @property
    def flags(self) -> Flags:
        width = self.dtype.itemsize
        expected = zip(self.shape, self.strides, contiguous_strides(tuple(self.shape)), strict=True)
        return Flags(all(n == 1 or s == e * width for n, s, e in expected) or 0 in self.shape)

    @property
    def leaked(self) -> bool:
        """Whether this is used outside the function that is mapped."""
        return not op_module.CONTEXT.get().evaluator.knows(self)

    def lies_in(self, other: Any) -> bool:
        """Whether its memory is that of ``other``."""
        from jtorch.eager.binding import shares_memory

        return isinstance(other, Batched) and shares_memory(other.value, self.value)

    def concrete(self, wanted_by: str) -> NoReturn:
        """The elements of one example, which nobody has: raises PyTorch's errors."""
        if self.leaked:
            raise RuntimeError(ESCAPED)
        if wanted_by == "bool()":
            raise RuntimeError(CONTROL_FLOW)
        if wanted_by in _OF_NUMBERS:
            raise RuntimeError(ITEM)
        raise RuntimeError((NO_STORAGE if wanted_by in _OF_MEMORY else DYNAMIC).format(wanted_by=wanted_by))

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        raise RuntimeError(ESCAPED)

    def __bool__(self) -> bool:
        raise RuntimeError(CONTROL_FLOW)

    def __repr__(self) -> str:
        return f"Batched({self.dtype}{list(self.shape)}, {self.axis.size} times)"


class Pending(Batched):
    """A batch that is computed when somebody asks for it, or never: of gradients of what all examples share
    only the sum is wanted, which ``summed`` makes at once (one product instead of one for each example)."""

    __slots__ = ("_made", "make", "summed")

    def __init__(
        self, axis: MappedAxis, dtype: Any, shape: tuple, make: Callable[[], Any], summed: Callable[[], Any]
    ) -> None:
        self.axis = axis
        self.dtype = dtype
        self.shape = shape_in(axis, shape)
        self.ndim = len(shape)
        self.make = make
        self.summed = summed
        self._made: Any = None

    @property
    def value(self) -> Any:  # type: ignore[override]
        if self._made is None:
            self._made = self.make()
        return self._made


def _operator(name: str, reflected: bool = False) -> Any:
    index = BY_NAME[name].index

    def operator(self: Batched, *other: Any) -> Any:
        """By the evaluator in force, which knows the axis, or stands above one that does."""
        if other and other[0].__class__.__name__ == "Tensor":
            return NotImplemented
        values = (*other, self) if reflected else (self, *other)
        return op_module.CONTEXT.get().table[index](*values)

    return operator


_cls: Any = Batched
for _symbol, _name in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow",
}.items():  # fmt: skip
    setattr(_cls, f"__{_symbol}__", _operator(_name))
    setattr(_cls, f"__r{_symbol}__", _operator(_name, reflected=True))
_cls.__neg__ = _operator("neg")
