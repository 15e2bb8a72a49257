"""Losses as modules: each calls the function of its name in ``nn.functional``.

Source: https://docs.pytorch.org/docs/stable/nn.html#loss-functions
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor
from jtorch.nn import functional as F
from jtorch.nn.functional._reduction import legacy
from jtorch.nn.module import Module


class _Loss(Module):
    """A loss with a reduction: "mean", "sum" or "none"; the first two arguments are its older form."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        old = size_average is not None or reduce is not None
        self.reduction = legacy(size_average, reduce, stacklevel=3) if old else reduction


class _WeightedLoss(_Loss):
    """A loss with a weight per class (or per element), kept as a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


# -- numbers -----------------------------------------------------------------------------------------------


class L1Loss(_Loss):
    """|input - target|

    >>> import jtorch
    >>> jtorch.nn.L1Loss()(jtorch.tensor([1.0, 2.0]), jtorch.tensor([2.0, 4.0]))
    tensor(1.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target)^2

    >>> import jtorch
    >>> jtorch.nn.MSELoss()(jtorch.tensor([1.0, 2.0]), jtorch.tensor([2.0, 4.0]))
    tensor(2.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Half the square below ``beta``, the distance less beta / 2 above.

    >>> import jtorch
    >>> jtorch.nn.SmoothL1Loss(reduction="none")(jtorch.tensor([0.5, 3.0]), jtorch.zeros(2))
    tensor([0.1250, 2.5000])
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the square below ``delta``, delta (distance - delta / 2) above.

    >>> import jtorch
    >>> jtorch.nn.HuberLoss(reduction="none", delta=2.0)(jtorch.tensor([1.0, 3.0]), jtorch.zeros(2))
    tensor([0.5000, 4.0000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """exp(input) - target input for ``log_input``, else input - target log(input + eps).

    >>> import jtorch
    >>> jtorch.nn.PoissonNLLLoss()(jtorch.zeros(2), jtorch.tensor([3.0, 5.0]))  # a rate of exp(0)
    tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """(log var + (input - target)^2 / var) / 2 with a variance of at least ``eps``.

    >>> import jtorch
    >>> jtorch.nn.GaussianNLLLoss()(jtorch.zeros(2), jtorch.tensor([1.0, 3.0]), jtorch.ones(2))
    tensor(2.5000)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


# -- probabilities -----------------------------------------------------------------------------------------


class KLDivLoss(_Loss):
    """target (log target - input), for log-probabilities as input.

    >>> import jtorch
    >>> p = jtorch.tensor([[0.5, 0.5]])
    >>> jtorch.nn.KLDivLoss(reduction="batchmean")(p.log(), p).item()
    0.0
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss(_WeightedLoss):
    """-input[i, target[i]], for log-probabilities (N, C, ...) and classes (N, ...).

    >>> import jtorch
    >>> log_probs = jtorch.tensor([[-1.0, -2.0], [-3.0, -5.0]])
    >>> jtorch.nn.NLLLoss()(log_probs, jtorch.tensor([1, 0]))
    tensor(2.5000)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """The older name of ``NLLLoss`` for images.

    >>> import jtorch
    >>> jtorch.nn.NLLLoss2d()(jtorch.full((2, 3, 4, 4), -1.5), jtorch.zeros(2, 4, 4, dtype=jtorch.int64))
    tensor(1.5000)
    """


class CrossEntropyLoss(_WeightedLoss):
    """-log_softmax(input)[i, target[i]], for scores (N, C, ...) and classes (N, ...) or probabilities.

    >>> import jtorch
    >>> loss = jtorch.nn.CrossEntropyLoss()
    >>> print(f"{loss(jtorch.zeros(2, 10), jtorch.tensor([3, 7])).item():.4f}")  # log(10)
    2.3026
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities.

    >>> import jtorch
    >>> jtorch.nn.BCELoss()(jtorch.tensor([0.5, 0.5]), jtorch.tensor([0.0, 1.0]))  # log(2)
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of scores; ``pos_weight`` scales the loss of positive targets.

    >>> import jtorch
    >>> scores, targets = jtorch.zeros(2), jtorch.tensor([0.0, 1.0])
    >>> jtorch.nn.BCEWithLogitsLoss()(scores, targets)  # log(2)
    tensor(0.6931)
    >>> jtorch.nn.BCEWithLogitsLoss(pos_weight=jtorch.tensor(3.0))(scores, targets)  # 2 log(2)
    tensor(1.3863)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class CTCLoss(_Loss):
    """-log of the probability of a sequence of labels, over all its alignments with the input.

    >>> import jtorch
    >>> log_probs = jtorch.full((2, 1, 4), 0.25).log()  # two steps, 4 equally likely labels
    >>> loss = jtorch.nn.CTCLoss()(log_probs, jtorch.tensor([[1]]), jtorch.tensor([2]), jtorch.tensor([1]))
    >>> loss.exp()  # 16 / 3: of 16 paths, "1 1", "1 blank" and "blank 1" give the label
    tensor(5.3333)

    Source: Graves et al. 2006, https://www.cs.toronto.edu/~graves/icml_2006.pdf
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
