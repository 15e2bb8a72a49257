"""Layers that only change the shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jtorch.eager.public import Tensor
from jtorch.nn.module import Module


class Flatten(Module):
    """Dims ``start_dim`` to ``end_dim`` as one: by default all but the batch.

    >>> import jtorch
    >>> images = jtorch.zeros(32, 1, 5, 5)
    >>> jtorch.nn.Flatten()(images).shape, jtorch.nn.Flatten(0, 2)(images).shape
    (torch.Size([32, 25]), torch.Size([160, 5]))
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dim ``dim`` as several of ``unflattened_size``, of which one may be -1.

    Raises TypeError where that is no tuple or list of ints, RuntimeError where the sizes don't fit.

    >>> import jtorch
    >>> jtorch.nn.Unflatten(1, (2, 5, -1))(jtorch.zeros(2, 50)).shape
    torch.Size([2, 2, 5, 5])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Unflatten.html
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise NotImplementedError("Unflatten of named dims: jtorch's tensors have no names")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for place, n in enumerate(unflattened_size):
            if not isinstance(n, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(n).__name__} at pos "
                    f"{place}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        shape = tuple(input.shape)
        axis = self.dim + len(shape) if self.dim < 0 else self.dim
        if not 0 <= axis < len(shape):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-len(shape)}, {len(shape) - 1}], "
                "but got "
                f"{self.dim})"
            )
        sizes, n = tuple(self.unflattened_size), shape[axis]
        known = math.prod(k for k in sizes if k != -1)
        if sizes.count(-1) == 1 and known and n % known == 0:
            sizes = tuple(n // known if k == -1 else k for k in sizes)
        if math.prod(sizes) != n or -1 in sizes:
            raise RuntimeError(
                f"unflatten: Provided sizes {list(self.unflattened_size)} don't multiply up to the size "
                "of dim "
                f"{self.dim} ({n}) in the input tensor"
            )
        return input.reshape(*shape[:axis], *sizes, *shape[axis + 1 :])

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
