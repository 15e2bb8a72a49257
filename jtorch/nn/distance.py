"""Distances between vectors as modules.

Source: https://docs.pytorch.org/docs/stable/nn.html#distance-functions
"""

from __future__ import annotations

from jtorch.eager.public import Tensor
from jtorch.nn import functional as F
from jtorch.nn.module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between two vectors along ``dim``, their lengths at least ``eps``.

    >>> import jtorch
    >>> jtorch.nn.CosineSimilarity()(jtorch.tensor([[2.0, 0.0]]), jtorch.tensor([[0.0, 3.0]]))
    tensor([0.])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The ``p``-norm of x1 - x2 + eps over the last dim.

    >>> import jtorch
    >>> jtorch.nn.PairwiseDistance(eps=0.0)(jtorch.tensor([[0.0, 0.0]]), jtorch.tensor([[3.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
