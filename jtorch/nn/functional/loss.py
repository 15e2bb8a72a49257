"""Losses that compare numbers with numbers, in ``torch.nn.functional``'s signatures.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#loss-functions
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from jtorch.core.number_ranges import is_one_number, number_type
from jtorch.eager.public import Tensor, autocasts, check_tensors, functions, holds, ones_like, ops
from jtorch.nn.functional._reduction import chosen, reduced


def _warn_of_sizes(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the "
            "same size.",
            stacklevel=3,
        )


def _check_weight(input: Tensor, weight: Tensor) -> None:
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")


def _weighted(loss: Callable, input: Tensor, target: Tensor, weight: Any, reduction: str) -> Tensor:
    """The losses times ``weight``; their mean is over the sum of the weights."""
    _check_weight(input, weight)
    losses = loss(input, target, "none") * weight
    if reduction == "mean":
        return losses.sum() / weight.sum()
    return reduced(losses, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)^2

    >>> import jtorch
    >>> jtorch.nn.functional.mse_loss(jtorch.tensor([1.0, 2.0]), jtorch.tensor([2.0, 4.0]))
    tensor(2.5000)
    """
    _warn_of_sizes(input, target)
    reduction = chosen(reduction, size_average, reduce)
    if weight is not None:
        return _weighted(functions.mse_loss, input, target, weight, reduction)
    return functions.mse_loss(input, target, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|

    >>> import jtorch
    >>> jtorch.nn.functional.l1_loss(jtorch.tensor([1.0, 2.0]), jtorch.tensor([2.0, 4.0]))
    tensor(1.5000)
    """
    _warn_of_sizes(input, target)
    reduction = chosen(reduction, size_average, reduce)
    if weight is not None:
        return _weighted(functions.l1_loss, input, target, weight, reduction)
    return functions.l1_loss(input, target, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Half the square over ``beta`` where the distance is below it, the distance less beta / 2 elsewhere.

    >>> import jtorch
    >>> jtorch.nn.functional.smooth_l1_loss(jtorch.tensor([0.5, 3.0]), jtorch.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    _warn_of_sizes(input, target)
    reduction = chosen(reduction, size_average, reduce)
    if is_one_number(beta) and beta == 0:
        return functions.l1_loss(input, target, reduction)
    return functions.smooth_l1_loss(input, target, reduction, beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Half the square where the distance is at most ``delta``, delta (distance - delta / 2) elsewhere.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.huber_loss(jtorch.tensor([1.0, 3.0]), jtorch.zeros(2), reduction="none", delta=2.0)
    tensor([0.5000, 4.0000])
    """
    _warn_of_sizes(input, target)
    if weight is None:
        return functions.huber_loss(input, target, chosen(reduction, None, None), delta)
    _check_weight(input, weight)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")
    return reduced(functions.huber_loss(input, target, "none", delta) * weight, reduction)


# -- probabilities -----------------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log x + (1 - t) log(1 - x)) of probabilities x, each logarithm at least -100.

    Raises RuntimeError for an x or t outside [0, 1].

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.binary_cross_entropy(jtorch.tensor([0.5, 0.5]), jtorch.tensor([0.0, 1.0]))  # log(2)
    tensor(0.6931)
    """
    reduction = chosen(reduction, size_average, reduce)
    looked_at = input.is_floating_point() and input.shape == target.shape
    if looked_at and not holds(
        ops.all_shares(input.detach(), target.detach())
    ):  # a branch, also in compiled code
        wrong = "target" if holds(ops.all_shares(input.detach(), 0.0)) else "input"
        raise RuntimeError(f"all elements of {wrong} should be between 0 and 1")
    return functions.binary_cross_entropy(input, target, weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The binary cross entropy of sigmoid(input); ``pos_weight`` scales the losses of positive targets.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.binary_cross_entropy_with_logits(jtorch.zeros(2), jtorch.tensor([0.0, 1.0]))  # log(2)
    tensor(0.6931)
    """
    reduction = chosen(reduction, size_average, reduce)
    return functions.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """The Kullback-Leibler divergence; ``input`` holds logarithms. "batchmean" is its definition.

    >>> import jtorch
    >>> log_q, p = jtorch.tensor([[0.5, 0.5]]).log(), jtorch.tensor([[0.0, 1.0]])
    >>> jtorch.nn.functional.kl_div(log_q, p, reduction="batchmean")  # log(2)
    tensor(0.6931)
    """
    if size_average is None and reduce is None and reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    check_tensors("kl_div", input=input, target=target)
    mean_of_batch = reduction == "batchmean"
    reduction = chosen("sum" if mean_of_batch else reduction, size_average, reduce)
    total = functions.kl_div(input, target, reduction, log_target)
    return total / input.shape[0] if mean_of_batch and input.ndim else total


@autocasts("float32")
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target input for ``log_input``, else input - target log(input + eps).

    ``full`` adds Stirling's approximation of log(target!) where target > 1.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.poisson_nll_loss(jtorch.zeros(2), jtorch.tensor([3.0, 5.0]))  # a rate of exp(0)
    tensor(1.)
    """
    check_tensors("poisson_nll_loss", input=input, target=target)
    reduction = chosen(reduction, size_average, reduce)
    if log_input:
        losses = input.exp() - target * input
    else:
        losses = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return reduced(losses, reduction)


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log var + (input - target)^2 / var) / 2 with a variance of at least ``eps``.

    ``var`` is a number or a tensor of the input's shape, with a last dim of 1 or without it. Raises
    ValueError for another shape. Negative entries count as ``eps``; a negative number is a ValueError.

    >>> import jtorch
    >>> jtorch.nn.functional.gaussian_nll_loss(jtorch.zeros(2), jtorch.tensor([1.0, 3.0]), jtorch.ones(2))
    tensor(2.5000)
    """
    if number_type(var) is float:
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * ones_like(input)
    elif var.shape != input.shape:
        var = _variance_like(input, var)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    # limited in value alone: gradients pass as if nothing was
    var = var + (var.detach().clamp(min=eps) - var.detach())
    losses = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction)


def _variance_like(input: Tensor, var: Tensor) -> Tensor:
    if tuple(input.shape[:-1]) == tuple(var.shape):
        return var.unsqueeze(-1)
    if input.ndim == var.ndim:
        differing = [b for a, b in zip(input.shape, var.shape, strict=True) if a != b]
        if sum(differing) == 1:
            return var
    raise ValueError("var is of incorrect size")
