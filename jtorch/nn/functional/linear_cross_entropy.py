"""``linear_cross_entropy``: a linear layer and the cross entropy of what it gives."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor
from jtorch.nn.functional.class_losses import cross_entropy
from jtorch.nn.functional.linear import linear


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch computes ``linear_cross_entropy`` part by part: checked and kept, but without effect.

    Raises ValueError for values that PyTorch refuses.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LinearCrossEntropyOptions.html
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        name, colon, factor = (self.chunking_method or "auto").partition(":")
        counts = not colon or (factor.isdigit() and int(factor) > 0)
        if self.chunking_method not in (None, "auto") and not (name == "aspect_ratio" and counts):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, dt.float16, dt.bfloat16, dt.float32, dt.float64):
            raise ValueError(f"acc_dtype must be None or a dtype of floats, got {self.acc_dtype!r}")


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target, ...)``.

    ``input`` is (in_features,) or (N, in_features), ``linear_weight`` (C, in_features), or (C, d_1, ...,
    in_features) for scores (N, C, d_1, ...), ``linear_bias`` its shape without the last dim. ``ignore_index``
    is -100 for classes where it is left out. Raises RuntimeError for shapes that don't fit and for an
    ``ignore_index`` beside probabilities. ``options`` (``nn.LinearCrossEntropyOptions``) say how PyTorch
    saves memory; here scores are computed at once whatever they are.

    >>> import jtorch
    >>> scores = jtorch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> found = jtorch.nn.functional.linear_cross_entropy(jtorch.eye(2), scores, jtorch.tensor([0, 1]))
    >>> print(f"{found.item():.4f}")
    0.1269

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear_cross_entropy.html
    """
    _check(input, linear_weight, linear_bias)
    if options is not None and not isinstance(options, LinearCrossEntropyOptions):
        raise TypeError(
            f"linear_cross_entropy: options: expected LinearCrossEntropyOptions, got {type(options).__name__}"
        )
    shape = (*input.shape[:-1], *linear_weight.shape[:-1])
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if linear_weight.ndim > 2:
        rows = math.prod(linear_weight.shape[:-1])
        linear_weight = linear_weight.reshape(rows, input.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(rows)
    return cross_entropy(
        linear(input, linear_weight, linear_bias).reshape(shape), target, weight=weight, reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index, label_smoothing=label_smoothing,
    )  # fmt: skip


def _check(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    if input.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    rows = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != rows:
        raise RuntimeError(f"expected linear_bias shape {rows}, got {tuple(linear_bias.shape)}")
    if linear_weight.ndim > 2 and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires "
            f"batched input, (N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )
