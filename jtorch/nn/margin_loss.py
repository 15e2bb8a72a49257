"""Losses with a margin as modules: each calls the function of its name in ``nn.functional``.

Source: https://docs.pytorch.org/docs/stable/nn.html#loss-functions
"""

from __future__ import annotations

from collections.abc import Callable

from jtorch.eager.public import Tensor, functions
from jtorch.nn import functional as F
from jtorch.nn.loss import _Loss, _WeightedLoss


class _MarginLoss(_Loss):
    """A loss with a margin and a reduction."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """max(0, margin - target (input1 - input2))

    >>> import jtorch
    >>> loss = jtorch.nn.MarginRankingLoss(margin=1.0)
    >>> loss(jtorch.tensor([3.0]), jtorch.tensor([2.5]), jtorch.tensor([1.0]))
    tensor(0.5000)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_MarginLoss):
    """The input where target is 1, max(0, margin - input) where it is -1.

    >>> import jtorch
    >>> loss = jtorch.nn.HingeEmbeddingLoss(reduction="none")
    >>> loss(jtorch.tensor([0.25, 0.25]), jtorch.tensor([1.0, -1.0]))
    tensor([0.2500, 0.7500])
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1.

    >>> import jtorch
    >>> loss, x, y = jtorch.nn.CosineEmbeddingLoss(), jtorch.tensor([[2.0, 0.0]]), jtorch.tensor([[0.0, 3.0]])
    >>> loss(x, y, jtorch.tensor([1])), loss(x, y, jtorch.tensor([-1]))
    (tensor(1.), tensor(0.))
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target input))

    >>> import jtorch
    >>> jtorch.nn.SoftMarginLoss()(jtorch.zeros(2), jtorch.tensor([1.0, -1.0]))  # log(2)
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The margins between the classes listed in each row of ``target`` and the others.

    >>> import jtorch
    >>> scores = jtorch.tensor([[0.1, 0.2, 0.4, 0.8]])
    >>> jtorch.nn.MultiLabelMarginLoss()(scores, jtorch.tensor([[3, 0, -1, 1]]))  # classes 3 and 0
    tensor(0.8500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The binary cross entropy of each class, averaged over classes.

    >>> import jtorch
    >>> jtorch.nn.MultiLabelSoftMarginLoss()(jtorch.zeros(1, 3), jtorch.tensor([[1.0, 0.0, 1.0]]))  # log(2)
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The margins between the target class and the others, to the power ``p`` (1 or 2).

    >>> import jtorch
    >>> jtorch.nn.MultiMarginLoss()(jtorch.tensor([[1.0, 0.5]]), jtorch.tensor([0]))
    tensor(0.2500)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D instead"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """max(0, margin + |anchor - positive| - |anchor - negative|)

    >>> import jtorch
    >>> anchor, positive, negative = jtorch.tensor([[0.0]]), jtorch.tensor([[1.0]]), jtorch.tensor([[1.5]])
    >>> jtorch.nn.TripletMarginLoss()(anchor, positive, negative)
    tensor(0.5000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(_Loss):
    """``TripletMarginLoss`` with any function of two tensors as distance.

    >>> import jtorch
    >>> loss = jtorch.nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1))
    >>> loss(jtorch.tensor([[0.0]]), jtorch.tensor([[1.0]]), jtorch.tensor([[1.5]]))
    tensor(0.5000)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        if distance_function is None:
            distance_function = functions.pairwise_distance
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
