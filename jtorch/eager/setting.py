"""``set_``: a tensor that looks at other memory from now on.

Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.set_.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.strides import contiguous_strides
from jtorch.eager.duals import is_dual
from jtorch.eager.messages import long_name
from jtorch.eager.rebase import check_allowed, renamed
from jtorch.eager.storage import (
    UntypedStorage,
    check_bounds,
    storage_offset as offset_of,
    untyped_storage,
    window,
)
from jtorch.eager.tensor import Tensor, wrap
from jtorch.ops import axes as ax

_C_NAMES = {
    "Half": "c10::Half", "BFloat16": "c10::BFloat16", "Byte": "unsigned char", "Char": "signed char",
    "Short": "short int", "Long": "long int", "ComplexFloat": "c10::complex<float>",
    "ComplexDouble": "c10::complex<double>",
}  # fmt: skip


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same window of one memory: storage, offset, shape and strides."""
    mine, its = ((t.shape, t.stride(), offset_of(t)) for t in (self, tensor))
    storages = untyped_storage(self), untyped_storage(tensor)
    return mine == its and storages[0].data_ptr() == storages[1].data_ptr()


def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Let this very tensor look at the memory of ``source``, a tensor or an ``UntypedStorage``; at none at
    all without one.

    With ``size`` and ``stride`` (in elements, row by row where it is left out) at a window of all of that
    memory, ``storage_offset`` elements after its begin, or after the first one of a tensor. Raises
    RuntimeError for another dtype or device, for places outside of the memory, which does not grow, and where
    gradients flow through one of the two.
    """
    _check(self, source, size, storage_offset)
    if source is None:
        made, cell = wrap(np.empty(0, self._data.dtype)).to(self.device), [0]
    elif isinstance(source, Tensor) and size is None:
        made, cell = source, source._cell
    else:
        start = offset_of(source) if isinstance(source, Tensor) else 0
        storage = untyped_storage(source) if isinstance(source, Tensor) else source
        made, cell = _window(self, storage, start + storage_offset, size, stride), storage._cell
    if self._data is not made._data:
        renamed(self, "set_")
        self._cell[0] += 1
        self.data = made
        self._cell, self._base, self._how = cell, None, None
    return self


def _check(tensor: Tensor, source: Any, size: Any, start: int) -> None:
    if not (source is None or isinstance(source, (Tensor, UntypedStorage))) or (size is None and start):
        raise TypeError(
            "set_() takes nothing, a tensor or an UntypedStorage, and storage_offset, size, stride for a "
            f"part of it, got {type(source).__name__}" + (" and no size" if size is None and start else "")
        )
    if op_module.CONTEXT.get().grad:
        check_allowed(tensor, ())
    if is_dual(tensor) or is_dual(source):
        raise RuntimeError("set_() of tensors that have a forward grad: their tangents have memory, too")
    if op_module.CONTEXT.get().grad and (tensor._requires_grad or getattr(source, "requires_grad", False)):
        raise RuntimeError("the derivative for 'set_' is not implemented. Give it x.detach()")
    if isinstance(source, Tensor) and source._data.dtype != tensor._data.dtype:
        mine, its = (_c_name(t) for t in (tensor, source))
        raise RuntimeError(f"Could not set tensor of type {its} to a tensor of type {mine}")
    if source is not None and source.device != tensor.device:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{tensor.device}" to a storage on different '
            f'device "{source.device}".  This is no longer allowed; the devices must match.'
        )


def _c_name(tensor: Tensor) -> str:
    name = long_name(tensor._data.dtype)
    return _C_NAMES.get(name, name.lower())


def _window(tensor: Tensor, storage: UntypedStorage, start: int, size: Any, stride: Any) -> Tensor:
    width = tensor.element_size()
    shape = (storage.nbytes() // width,) if size is None else ax.sizes((size,))
    steps = contiguous_strides(shape) if stride is None else ax.sizes((stride,))
    if len(shape) != len(steps):
        raise RuntimeError(f"unequal size length ({len(shape)}) and stride length ({len(steps)})")
    if min((start, *shape, *steps)) < 0:
        raise RuntimeError(
            f"set_(): negative numbers in sizes {list(shape)}, strides {list(steps)}, storage offset {start}"
        )
    check_bounds(shape, steps, start, width, storage.nbytes())
    return wrap(window(storage, tensor._data.dtype, shape, steps, start))


METHODS: dict[str, Any] = {"set_": set_, "is_set_to": is_set_to}
