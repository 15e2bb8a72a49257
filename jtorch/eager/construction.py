"""The early ways to make tensors: ``Tensor(2, 3)``, ``Tensor([...])``, ``t.new(...)``, ``t.new_zeros(...)``.

Source: https://docs.pytorch.org/docs/stable/tensors.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.core import devices, dtypes as dt, op as op_module
from jtorch.eager import creation
from jtorch.eager.binding import APPLY
from jtorch.eager.data_errors import check_fits
from jtorch.eager.duals import is_dual, share
from jtorch.eager.factory import size_named
from jtorch.eager.messages import long_name
from jtorch.eager.nested import composed, is_recorded
from jtorch.eager.python_values import as_tensor_data
from jtorch.eager.results import note_view
from jtorch.eager.signatures import whole
from jtorch.eager.tensor import Size, Tensor, wrap


def constructed(args: tuple, dtype: dt.dtype | None, device: Any = None) -> Tensor:
    """The tensor of ``Tensor(*args)``: of sizes, or of data; of ``dtype``, by default the default float.

    Sizes give zeros, where PyTorch leaves memory as it is. Raises TypeError for what is neither.
    """
    if device is not None and (place := devices.check(device)) is not devices.CPU:
        return constructed(args, dtype).to(place)
    if len(args) == 1 and _is_data(args[0]):
        return _of_data(args[0], dtype)
    if len(args) == 1 and isinstance(args[0], Tensor):
        return _alias(args[0], dtype)
    for k, size in enumerate(args):
        if not hasattr(size, "__index__") or isinstance(size, float):
            raise TypeError(
                f"new(): argument 'size' failed to unpack the object at pos {k + 1} with error \"type must "
                f'be tuple of ints,but got {type(size).__name__}"'
            )
    return creation.empty(args or (0,), dtype=dtype)


def _is_data(given: Any) -> bool:
    """Whether it is no size: what has no ``__index__``, and arrays, which all have one."""
    if isinstance(given, np.ndarray) or is_recorded(given):
        return given.ndim > 0 or given.dtype.kind not in "iu"
    return not hasattr(given, "__index__")


def _of_data(data: Any, dtype: dt.dtype | None) -> Tensor:
    if isinstance(data, Size):
        return creation.empty(data, dtype=dtype)
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if not isinstance(data, (np.ndarray, Sequence)) and not (is_recorded(data) and not data.is_number):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    made = composed(data, dtype or dt.get_default_dtype())
    if made is not None:
        return made
    array = as_tensor_data(data)  # as it is, then cut to the type: LongTensor([1.5]) is [1]
    target = dt.to_numpy(dtype or dt.get_default_dtype())
    assert target is not None
    if not isinstance(data, np.ndarray):
        check_fits(array, target)
    return wrap(op_module.CONTEXT.get().evaluator.new(as_tensor_data(array, target)))


def _alias(data: Tensor, dtype: dt.dtype | None) -> Tensor:
    if dtype is not None and data.dtype is not dtype:
        raise TypeError(
            f"expected a tensor of type {long_name(dtype.numpy)} (got {long_name(data._data.dtype)}): use "
            f".to({dtype}) for a copy of another type"
        )
    return data.detach()


# -- of the type of another tensor -------------------------------------------------------------------------


def new(self: Tensor, *args: Any, device: Any = None, size: Any = None) -> Tensor:
    """``Tensor(*args)`` of this tensor's dtype: the early form of ``new_tensor`` and ``new_empty``."""
    if size is not None:
        args = (Size(*whole("size", args, size)),)
    return constructed(args, self.dtype, device)


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``tensor(data)`` of this tensor's dtype unless told otherwise."""
    options = _here(self, {"device": device, "requires_grad": requires_grad})
    return creation.tensor(data, dtype=dtype or self.dtype, **options)


def new_full(self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    """``full(size, fill_value)`` of this tensor's dtype unless told otherwise."""
    return creation.like(
        self, creation.full(size, fill_value, dtype=dtype or self.dtype, **_here(self, options))
    )


def new_empty_strided(self: Tensor, size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    """``empty_strided(size, stride)`` of this tensor's dtype unless told otherwise."""
    return creation.empty_strided(size, stride, dtype=dtype or self.dtype, **_here(self, options))


def _here(tensor: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """Options of a factory, which makes its tensor where ``tensor`` is unless told otherwise."""
    return options if options.get("device") is not None else options | {"device": tensor.device}


def _new_of(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        return creation.like(self, make(*size, dtype=dtype or self.dtype, **_here(self, options)))

    method.__name__ = method.__qualname__ = f"new_{make.__name__}"
    method.__doc__ = f"``{make.__name__}(*size)`` of this tensor's dtype unless told otherwise."
    return method


# -- sizes and classes -------------------------------------------------------------------------------------


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None, **named: Any) -> Tensor:
    """Another shape for this very tensor: its first elements in order, then zeros where it grows.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.resize_.html
    """
    shape = tuple(creation.sizes(sizes, size_named(named, "resize_"), "resize_"))
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if is_dual(self):
        raise RuntimeError("cannot resize variables that has a forward grad")
    count = int(np.prod(shape, dtype=np.int64))
    flat = self.detach().reshape(-1)
    have = flat.numel()
    if count > have:
        grown = creation.zeros(count, dtype=self.dtype)
        grown.narrow(0, 0, have).copy_(flat)
        flat = grown
    self.data = flat.narrow(0, 0, count).reshape(shape) if count < have else flat.reshape(shape)
    return self


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """``resize_`` to the shape of another tensor."""
    return resize_(input, tuple(the_template.shape))


def as_subclass(self: Tensor, cls: type[Tensor]) -> Tensor:
    """A view of all of this tensor, of the class ``cls``: gradients flow back, and writes move both."""
    n = self._data.ndim
    view = APPLY["slice"](self, start=(0,) * n, stop=tuple(self._data.shape), step=(1,) * n)
    made = of_class(view, cls)
    made._requires_grad = self._requires_grad
    note_view(made, self, view._how)
    if op_module.CONTEXT.get().level is not None:
        share(self, made)
    return made


def of_class(tensor: Tensor, cls: type[Tensor]) -> Tensor:
    """``tensor``, which nobody else holds, as one of the class ``cls``."""
    made: Tensor = object.__new__(cls)
    made.hold(tensor._data, tensor._requires_grad)
    made._cell, made._node, made._index = tensor._cell, tensor._node, tensor._index
    return made


def make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Tensor:
    """A leaf of the class ``cls`` over the memory of ``data``."""
    return of_class(data.detach(), cls).requires_grad_(require_grad)


FUNCTIONS: dict[str, Callable] = {}
METHODS: dict[str, Any] = {
    "new": new, "new_tensor": new_tensor, "new_full": new_full, "new_empty_strided": new_empty_strided,
    "new_zeros": _new_of(creation.zeros), "new_ones": _new_of(creation.ones),
    "new_empty": _new_of(creation.empty), "resize_": resize_, "resize_as_": resize_as_,
    "as_subclass": as_subclass, "_make_subclass": staticmethod(make_subclass),
}  # fmt: skip
