"""Softmax over many classes in clusters: rare ones share a place at the head and are told apart by a tail.

Source: Grave et al. 2017, https://arxiv.org/abs/1609.04309
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from jtorch.eager.public import Tensor, functions
from jtorch.nn import functional as F
from jtorch.nn.container import ModuleList, Sequential
from jtorch.nn.linear import Linear
from jtorch.nn.module import Module


class ASMoutput(NamedTuple):
    """The log-probability of each target, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of targets among ``n_classes``, sorted by frequency and cut at ``cutoffs``.

    All clusters are computed for every row, so that shapes depend on no target and steps can be compiled.

    >>> import jtorch
    >>> layer = jtorch.nn.AdaptiveLogSoftmaxWithLoss(16, 1000, cutoffs=[10, 100])
    >>> out, loss = layer(jtorch.randn(4, 16), jtorch.tensor([3, 50, 999, 0]))
    >>> out.shape, layer.log_prob(jtorch.randn(4, 16)).shape
    (torch.Size([4]), torch.Size([4, 1000]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveLogSoftmaxWithLoss.html
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cuts = list(cutoffs)
        if not cuts:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in cuts)
        if cuts != sorted(set(cuts)) or not whole or min(cuts) <= 0 or max(cuts) > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                "where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cuts, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cuts[0]
        self.n_clusters = len(cuts)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for k, (low, high) in enumerate(pairwise(self.cutoffs)):
            width = int(in_features // (div_value ** (k + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, width, False, device, dtype),
                    Linear(width, high - low, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        clusters: Any = self.tail
        for layer in (self.head, *(part for cluster in clusters for part in cluster)):
            layer.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> ASMoutput:
        """(N, in_features) and (N,), or one row and its class. Raises RuntimeError for other shapes."""
        self._check(input_, target_)
        rows = input_ if target_.ndim else input_.unsqueeze(0)
        chosen = self.log_prob(rows).gather(1, target_.reshape(-1, 1)).squeeze(1)
        loss = (-chosen).mean()
        return ASMoutput(chosen if target_.ndim else chosen.squeeze(0), loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.ndim == 1 and input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.ndim != target.ndim + 1:
            raise RuntimeError(
                f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs "
                f"with size {input.shape}"
            )

    def log_prob(self, input: Tensor) -> Tensor:
        """(N, in_features) to the log-probabilities of all classes, (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for k, cluster in enumerate(self.tail):
            place = self.shortlist_size + k
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, place : place + 1])
        return functions.cat(parts, dim=1)

    def predict(self, input: Tensor) -> Tensor:
        """The class of the highest probability among those that the head prefers, (N,)."""
        best = self.head(input).argmax(1)
        return functions.where(best < self.shortlist_size, best, self.log_prob(input).argmax(1))
