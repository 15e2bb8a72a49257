"""``cross_entropy`` and ``nll_loss`` in PyTorch's full signatures.

The usual call is one op. Class weights, label smoothing and class probabilities as targets are put
together from ``log_softmax``, a gather and sums, as PyTorch's definition says.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jtorch.eager.public import Tensor, autocasts, functions, integer, ops
from jtorch.nn.functional._reduction import chosen
from jtorch.ops.composite import check_classes


@autocasts("float32")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input) at the target classes, or against the probabilities in ``target``.

    ``input`` is (C,), (N, C) or (N, C, ...); classes are int64 of (), (N,) or (N, ...), probabilities have
    the shape of ``input``. Raises ValueError for shapes that don't fit.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html

    >>> import jtorch
    >>> logits = jtorch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> print(f"{jtorch.nn.functional.cross_entropy(logits, jtorch.tensor([0, 1])).item():.4f}")
    0.1269
    """
    reduction = chosen(reduction, size_average, reduce)
    integer("", "ignore_index", ignore_index)
    if label_smoothing > 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if not label_smoothing > 0.0:  # also a negative one and NaN, as in PyTorch
        label_smoothing = 0.0
    _check_weight(input, weight)
    if target.is_floating_point() and tuple(target.shape) == tuple(input.shape):
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _against_probabilities(input, target, weight, reduction, label_smoothing)
    if weight is None and not label_smoothing:
        return _as_rows("cross_entropy", input, target, ignore_index, reduction)
    check_classes("cross_entropy", input, target, reduction)
    log_p, target, shape = _rows(ops.log_softmax(input, axis=_class_axis(input)), target)
    loss = _weighted_nll(log_p, target, weight, ignore_index, reduction, shape)
    if not label_smoothing:
        return loss
    smooth = _smooth(log_p, target, weight, ignore_index, reduction, shape)
    return (1.0 - label_smoothing) * loss + (label_smoothing / log_p.shape[1]) * smooth


@autocasts("float32")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input at the target classes: (N, C) or (N, C, ...) log-probabilities with int64 (N, ...).

    >>> import jtorch
    >>> jtorch.nn.functional.nll_loss(jtorch.tensor([[-1.0, -2.0], [-3.0, -5.0]]), jtorch.tensor([1, 0]))
    tensor(2.5000)

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.nll_loss.html
    """
    reduction = chosen(reduction, size_average, reduce)
    integer("", "ignore_index", ignore_index)
    _check_weight(input, weight)
    if weight is None:
        return _as_rows("nll_loss", input, target, ignore_index, reduction)
    check_classes("nll_loss", input, target, reduction)
    log_p, target, shape = _rows(input, target)
    return _weighted_nll(log_p, target, weight, ignore_index, reduction, shape)


def _check_weight(input: Tensor, weight: Tensor | None) -> None:
    if weight is None:
        return
    classes = input.shape[_class_axis(input)[0]]
    if tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight "
            f"tensor of shape: {list(weight.shape)}"
        )


def _class_axis(input: Tensor) -> tuple[int]:
    return (0,) if input.ndim == 1 else (1,)


def _rows(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """(scores (rows, C), targets (rows,), the targets' own shape)"""
    shape = tuple(target.shape)
    if input.ndim == 1:
        return input.unsqueeze(0), target.reshape(1), ()
    if input.ndim > 2:
        order = (0, *range(2, input.ndim), 1)
        input = input.permute(order).reshape(math.prod(shape), input.shape[1])
    return input, target.reshape(math.prod(shape)), shape


def _as_rows(name: str, input: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
    if input.ndim == 2:
        return getattr(functions, name)(input, target, ignore_index, reduction)
    check_classes(name, input, target, reduction)
    rows, flat, shape = _rows(input, target)
    loss = getattr(functions, name)(rows, flat, ignore_index, reduction)
    return loss.reshape(shape) if reduction == "none" else loss


def _reduce(losses: Tensor, weights: Tensor, reduction: str, shape: tuple[int, ...]) -> Tensor:
    if reduction == "none":
        return losses.reshape(shape)
    if reduction == "sum":
        return losses.sum()
    if reduction != "mean":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return losses.sum() / weights.sum()


def _counted(target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """(which targets count, all of them with the others as class 0); int64: as an index uint8 is a mask."""
    counts = ops.ne(target, ignore_index)
    return counts, ops.cast(ops.where(counts, target, 0), dtype=np.dtype(np.int64))


def _weights(log_p: Tensor, counts: Tensor, safe: Tensor, weight: Tensor | None) -> Tensor:
    """Each row's weight: 0 where it does not count."""
    rows = ops.cast(counts, dtype=log_p.dtype.numpy)
    return rows if weight is None else rows * weight[safe]


def _weighted_nll(
    log_p: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    shape: Any,
) -> Tensor:
    counts, safe = _counted(target, ignore_index)
    losses = functions.nll_loss(log_p, safe, ignore_index, "none")
    weights = _weights(log_p, counts, safe, weight)  # after what says which target is none
    # off the tape where ignored: where all are, the gradient of their mean is NaN
    counted = ops.where(counts, losses * weights, 0.0)
    return _reduce(counted, weights, reduction, shape)


def _smooth(
    log_p: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    shape: Any,
) -> Tensor:
    counts, safe = _counted(target, ignore_index)
    weights = _weights(log_p, counts, safe, weight)
    spread = -(log_p if weight is None else log_p * weight).sum(1)
    counted = ops.where(counts, spread, 0.0)
    return _reduce(counted, weights, reduction, shape)


def _against_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    (axis,) = _class_axis(input)
    log_p = ops.log_softmax(input, axis=(axis,))
    classes = input.shape[axis]
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    if weight is not None:
        log_p = log_p * weight.reshape([-1 if k == axis else 1 for k in range(input.ndim)])
    losses = -(log_p * target).sum(axis)
    if reduction == "mean":
        return losses.sum() / (input.numel() // classes)
    return _reduce(losses, losses, reduction, tuple(losses.shape))
