"""What a tensor says of itself: where it is, how it is kept, of what kind its elements are.

Source: https://docs.pytorch.org/docs/stable/tensors.html
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from jtorch.core import higher, memory_formats as formats, op as op_module
from jtorch.core.devices import META, cuda_is_available
from jtorch.core.memory_formats import ORDERS, memory_format
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor


def is_signed(input: Tensor) -> bool:
    """Whether the type of the elements has negative numbers."""
    return input.dtype.is_signed


def is_inference(input: Tensor) -> bool:
    """Whether tensors made now are of ``inference_mode``: here they are ordinary ones, so False."""
    return False


def is_neg(input: Tensor) -> bool:
    """Whether negation waits to be done: never, jtorch does it at once."""
    return False


def detach(input: Tensor) -> Tensor:
    """The same memory, off the tape."""
    return input.detach()


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of the shape and dtype of ``input`` with ``value`` in every element."""
    return input.clone().fill_(value)


def _no(self: Tensor) -> bool:
    """Whether it is of that kind: an ordinary tensor is not."""
    return False


def _is_cpu(self: Tensor) -> bool:
    """Whether the elements lie on the host."""
    return self.device.type == "cpu"


def _is_meta(self: Tensor) -> bool:
    """Whether it has no elements, only a shape."""
    return self.device is META


def _layout(self: Tensor) -> formats.layout:
    """How the elements lie in memory: by strides."""
    return formats.strided


def _nbytes(self: Tensor) -> int:
    """The bytes of all elements."""
    return self.numel() * self.element_size()


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether ``pin_memory`` has made the memory."""
    assert higher.device is not None
    if not isinstance(self._data, np.ndarray) or not higher.device().is_found():
        return False
    return bool(higher.device().current().is_pinned(self._data))


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in memory that is pinned: ``to("cuda", non_blocking=True)`` reads it while the program goes on.
    This tensor where it is there already.

    Raises RuntimeError without a CUDA device, and for what does not lie on the host.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.pin_memory.html
    """
    if not cuda_is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if not isinstance(self._data, np.ndarray):
        name = f"torch.{'cuda.' if self.is_cuda else ''}{long_name(self._data.dtype)}Tensor"
        raise RuntimeError(f"cannot pin '{name}' only dense CPU tensors can be pinned")
    if is_pinned(self):
        return self
    assert higher.device is not None
    made = self.clone()
    made._data = higher.device().current().pinned(self._data)
    return made


def lies_in(tensor: Tensor, wanted: memory_format) -> bool:
    """Whether the elements lie one after the other in that order."""
    axes = ORDERS.get(wanted)
    if axes is None:
        return tensor.is_contiguous()
    return tensor.ndim == len(axes) and tensor.permute(axes).is_contiguous()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


def apply_(self: Tensor, callable: Callable) -> Tensor:
    """Overwrite each element by a Python function of it: slow. Raises where gradients would be lost."""
    if self.requires_grad and op_module.CONTEXT.get().grad:
        raise RuntimeError(
            "Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead."
        )
    values = [callable(v) for v in self.reshape(-1).tolist()]
    made: Tensor = self.new_tensor(values).reshape(tuple(self.shape))
    return self.copy_(made)


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """This tensor, which is dense, in ``dtype``."""
    return self if dtype is None else self.to(dtype)


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dims by the sizes of their strides, the outermost first; those of one stride in their order.

    With ``ambiguity_check`` RuntimeError is raised for strides that say it of several orders, unless exactly
    one of the memory formats in a list is this tensor's.
    """
    strides = self.stride()
    named = ambiguity_check if isinstance(ambiguity_check, list) else []
    if not isinstance(ambiguity_check, (bool, list)) or any(not isinstance(f, memory_format) for f in named):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    several = 1 in self.shape or any(a == b for a, b in pairwise(strides))
    fitting = sum(self.is_contiguous(memory_format=f) for f in named)
    if ambiguity_check is not False and several and fitting != 1:
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given memory "
            "formats."
        )
    return tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))


_NOT_OF = (
    "is_ipu", "is_maia", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized",
    "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu",
)  # fmt: skip
FUNCTIONS: dict[str, Callable] = {
    f.__name__: f for f in (is_signed, is_inference, is_neg, detach, fill, is_same_size)
}
METHODS: dict[str, Any] = {
    "is_signed": is_signed, "is_inference": is_inference, "is_neg": is_neg, "is_pinned": is_pinned,
    "pin_memory": pin_memory, "ndimension": Tensor.dim, "is_same_size": is_same_size, "apply_": apply_,
    "to_dense": to_dense, "dim_order": dim_order, "sparse_dim": lambda self: 0, "dense_dim": Tensor.dim,
    "is_cpu": property(_is_cpu), "is_meta": property(_is_meta), "layout": property(_layout),
    "itemsize": property(Tensor.element_size), "nbytes": property(_nbytes),
} | {name: property(_no) for name in _NOT_OF}  # fmt: skip
