"""Dropout."""

from __future__ import annotations

from jtorch.eager.tensor import Tensor
from jtorch.nn import functional as F
from jtorch.nn.module import Module


class Dropout(Module):
    """While training, zeroes each element with probability ``p`` and scales the others by 1/(1-p).

    Raises ValueError for a probability outside [0, 1]. Source: Hinton et al. 2012, arXiv:1207.0580.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
