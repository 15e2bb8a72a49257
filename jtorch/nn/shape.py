"""Layers that only change the shape."""

from __future__ import annotations

from jtorch.eager.tensor import Tensor
from jtorch.nn.module import Module


class Flatten(Module):
    """Dims ``start_dim`` to ``end_dim`` as one: by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
