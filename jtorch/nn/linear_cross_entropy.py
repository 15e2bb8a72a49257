"""The last linear layer of a classifier, and its loss.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LinearCrossEntropyLoss.html
"""

from __future__ import annotations

import math
from typing import Any

from jtorch.eager.public import Tensor
from jtorch.nn import functional as F
from jtorch.nn.functional.linear_cross_entropy import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from jtorch.nn.linear import Linear
from jtorch.nn.loss import _WeightedLoss


class LinearCrossEntropyLoss(_WeightedLoss):
    """``CrossEntropyLoss`` of what a linear layer from ``in_features`` to ``num_classes`` gives; scores have
    ``out_features`` as further dims. The layer is ``linear``.

    Raises RuntimeError for a ``weight`` of another length and a ``label_smoothing`` outside [0, 1].

    >>> import jtorch
    >>> loss = jtorch.nn.LinearCrossEntropyLoss(4, 10)
    >>> print(f"{loss(jtorch.zeros(2, 4), jtorch.tensor([3, 7])).item():.4f}")  # log(10)
    2.3026
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if label_smoothing < 0 or label_smoothing > 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, None, None, reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
