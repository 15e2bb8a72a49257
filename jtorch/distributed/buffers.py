"""Tensors as the flat arrays that MPI reads and writes: of those on a device, copies in the host's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.autograd.graph import increment_version
from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor, from_numpy, no_grad

_OF_SIZE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


def check_tensor(value: Any, name: str) -> Tensor:
    """``value`` if it is a tensor. Raises TypeError, in PyTorch's words."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor, but got "
            f"{type(value)} instead."
        )
    return value


def check_tensors(values: Any, name: str) -> list[Tensor]:
    if not isinstance(values, (list, tuple)) or not all(isinstance(t, Tensor) for t in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor], but got "
            f"{type(values)} with elements of type {[type(t) for t in values]}."
            if isinstance(values, (list, tuple))
            else f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor], but "
            f"got {type(values)} instead."
        )
    return list(values)


def check_alike(op: str, tensors: list[Tensor], expected: Tensor, name: str) -> None:
    """Raise ValueError unless all have the shape and dtype of ``expected``."""
    for k, t in enumerate(tensors):
        if t.dtype is not expected.dtype or tuple(t.shape) != tuple(expected.shape):
            raise ValueError(
                f"{op}: {name}[{k}] is {told(t)}, and {told(expected)} was expected: all processes pass "
                "tensors of one shape and dtype"
            )


def told(tensor: Tensor) -> str:
    """``float32[3, 4]``"""
    return f"{tensor.dtype.name}[{', '.join(map(str, tensor.shape))}]"


def read(tensor: Tensor) -> np.ndarray:
    """The elements in order, flat; the tensor's own memory where they lie so, on the host."""
    array = tensor.detach().cpu().numpy()
    return np.ascontiguousarray(array).reshape(-1)


class Target:
    """A tensor that a collective writes: ``flat`` is its memory, or stands for it until ``commit``."""

    def __init__(self, tensor: Tensor, reads: bool = True) -> None:
        self.tensor = tensor
        self.array = tensor.detach().cpu().numpy()
        if not self.array.flags.writeable:
            raise RuntimeError(
                f"a collective can't write into this {told(tensor)}, whose memory is read-only: pass a clone"
            )
        strides = zip(tensor.shape, tensor.stride(), strict=True)
        if self.array.size and any(n > 1 and s == 0 for n, s in strides):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )
        self.in_place = self.array.flags.c_contiguous
        if self.in_place:
            self.flat = self.array.reshape(-1)
        elif reads:
            self.flat = np.ascontiguousarray(self.array).reshape(-1)
        else:
            self.flat = np.empty(self.array.size, self.array.dtype)

    def commit(self) -> None:
        """Put ``flat`` into the tensor, and count the change."""
        if self.tensor.is_cuda:
            with no_grad():
                self.tensor.detach().copy_(from_numpy(self.flat.reshape(self.array.shape)))
        elif not self.in_place:
            self.array[...] = self.flat.reshape(self.array.shape)
        increment_version(self.tensor)


def raw(flat: np.ndarray) -> np.ndarray:
    """The same memory as a dtype that MPI knows, for moving elements about."""
    return flat.view(_OF_SIZE[flat.dtype.itemsize])


def is_half(dtype: np.dtype) -> bool:
    return dtype == np.float16 or dtype == dt.BFLOAT16
