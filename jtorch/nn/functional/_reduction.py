"""How the losses of a batch become one number, and the two old arguments that said so."""

from __future__ import annotations

import warnings
from typing import Any

from jtorch.eager.public import Tensor


def legacy(size_average: bool | None, reduce: bool | None, stacklevel: int = 2) -> str:
    """The reduction that ``size_average`` and ``reduce`` ask for, with PyTorch's warning."""
    average = size_average is None or size_average
    if reduce is not None and not reduce:
        reduction = "none"
    else:
        reduction = "mean" if average else "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
        stacklevel=stacklevel + 1,
    )
    return reduction


def chosen(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """``reduction`` or what the old arguments say. Raises ValueError for a name that is none."""
    if size_average is not None or reduce is not None:
        return legacy(size_average, reduce, stacklevel=3)
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=3,
        )
        return "mean"
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(losses: Any, reduction: str) -> Tensor:
    """``losses`` averaged, summed, or as they are."""
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses
