"""Losses with a margin: what is right by more than it costs nothing.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#loss-functions
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core.number_ranges import check_number
from jtorch.eager.public import Tensor, arange, autocasts, check_tensors, functions, zeros_like
from jtorch.nn.functional._reduction import chosen, reduced


@autocasts("float32")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target input)) for targets of -1 and 1.

    >>> import jtorch
    >>> jtorch.nn.functional.soft_margin_loss(jtorch.zeros(2), jtorch.tensor([1.0, -1.0]))  # log(2)
    tensor(0.6931)
    """
    check_tensors("soft_margin_loss", input=input, target=target)
    return functions.soft_margin_loss(input, target, chosen(reduction, size_average, reduce))


@autocasts("float32")
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - target (input1 - input2)): target 1 where the first should rank higher, else -1.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.margin_ranking_loss(jtorch.tensor([3.0]), jtorch.tensor([2.5]), jtorch.tensor([1.0]), margin=1.0)
    tensor(0.5000)
    """
    reduction = chosen(reduction, size_average, reduce)
    if input1.ndim != input2.ndim or input1.ndim != target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


@autocasts("float32")
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where target is 1, max(0, margin - input) where it is -1.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.hinge_embedding_loss(jtorch.tensor([0.25, 0.25]), jtorch.tensor([1.0, -1.0]), reduction="none")
    tensor([0.2500, 0.7500])
    """
    check_tensors("hinge_embedding_loss", input=input, target=target)
    reduction = chosen(reduction, size_average, reduce)
    check_number(margin, input.dtype.numpy)
    apart = functions.where(target != 1, (margin - input).clamp(min=0), zeros_like(input))
    near = functions.where(target != -1, input, zeros_like(input))
    return reduced(apart + near, reduction)


@autocasts("float32")
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1.

    >>> import jtorch
    >>> x, y = jtorch.tensor([[2.0, 0.0]]), jtorch.tensor([[0.0, 3.0]])
    >>> jtorch.nn.functional.cosine_embedding_loss(x, y, jtorch.tensor([1]))
    tensor(1.)
    >>> jtorch.nn.functional.cosine_embedding_loss(x, y, jtorch.tensor([-1]))
    tensor(0.)
    """
    reduction = chosen(reduction, size_average, reduce)
    if target.ndim not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    wanted = target.ndim + 1
    if input1.ndim != wanted or input2.ndim != wanted:
        kind = "1D target tensor expects 2D input tensors"
        if not target.ndim:
            kind = "0D target tensor expects 1D input tensors"
        raise RuntimeError(
            f"{kind}, but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    # the 1e-12 under the root is PyTorch's, and keeps zeros from dividing by zero
    along = (input1 * input2).sum(target.ndim)
    squares = ((input1 * input1).sum(target.ndim) + 1e-12) * ((input2 * input2).sum(target.ndim) + 1e-12)
    cosine = along / squares.sqrt()
    zeros = zeros_like(cosine)
    near = functions.where(target == 1, 1 - cosine, zeros)
    apart = functions.where(target == -1, (cosine - margin).clamp(min=0), zeros)
    return reduced(near + apart, reduction)


def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The binary cross entropy of each class, averaged over the last dim.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.multilabel_soft_margin_loss(jtorch.zeros(1, 3), jtorch.tensor([[1.0, 0.0, 1.0]]))  # log(2)
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = chosen(reduction, size_average, reduce)
    elif reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    logsigmoid = functions.logsigmoid
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    return reduced(losses.sum(input.ndim - 1) / input.shape[-1], reduction)


@autocasts("float32")
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of max(0, margin - x[target] + x[class])^p, without the target class itself.

    ``input`` is (C,) or (N, C) and ``target`` int64 of () or (N,); ``weight`` is one number a class.

    >>> import jtorch
    >>> jtorch.nn.functional.multi_margin_loss(jtorch.tensor([[1.0, 0.5]]), jtorch.tensor([0]))
    tensor(0.2500)
    """
    check_tensors("multi_margin_loss", input=input, target=target)
    reduction = chosen(reduction, size_average, reduce)
    check_number(margin, input.dtype.numpy)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    rows, classes = _rows_of(input), target.reshape(-1)
    if classes.shape[0] != rows.shape[0] or target.ndim > 1:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples "
            f"(batch size). Expected target size [{rows.shape[0]}], but got {list(target.shape)}. Input has "
            f"shape {list(input.shape)}."
        )
    count = rows.shape[1]
    chosen_scores = rows.gather(1, classes.unsqueeze(1))
    losses = (margin - chosen_scores + rows).clamp(min=0)
    losses = losses * losses if p == 2 else losses
    if weight is not None:
        losses = losses * weight[classes].unsqueeze(1)
    others = arange(count, device=classes.device) != classes.unsqueeze(1)
    losses = functions.where(others, losses, zeros_like(losses)).sum(1) / count
    return reduced(losses.reshape(target.shape) if input.ndim < 2 else losses, reduction)


def _rows_of(input: Any) -> Any:
    """(C,) or (N, C) scores as rows. Raises RuntimeError for another shape."""
    if input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    return input.reshape(1, -1) if input.ndim < 2 else input


@autocasts("float32")
def multilabel_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over targets y and other classes i of max(0, 1 - x[y] + x[i]), over the number of classes.

    ``input`` is (C,) or (N, C); each row of ``target``, int64 of its shape, lists classes up to the first -1.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> scores = jtorch.tensor([[0.1, 0.2, 0.4, 0.8]])
    >>> F.multilabel_margin_loss(scores, jtorch.tensor([[3, 0, -1, 1]]))  # classes 3 and 0
    tensor(0.8500)
    """
    check_tensors("multilabel_margin_loss", input=input, target=target)
    reduction = chosen(reduction, size_average, reduce)
    rows = _rows_of(input)
    if tuple(target.shape) != tuple(input.shape):
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    targets = target.reshape(rows.shape)
    count = rows.shape[1]
    listed = (targets < 0).long().cumsum(1) == 0
    safe = functions.where(listed, targets, zeros_like(targets))
    hits = (safe.unsqueeze(2) == arange(count, device=safe.device)).long() * listed.long().unsqueeze(2)
    is_target = hits.sum(1) > 0
    losses = (1 - rows.gather(1, safe).unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    counted = listed.unsqueeze(2).logical_and(is_target.logical_not().unsqueeze(1))
    losses = functions.where(counted, losses, zeros_like(losses)).sum((1, 2)) / count
    return reduced(losses if input.ndim > 1 else losses.reshape(()), reduction)


# -- three tensors -----------------------------------------------------------------------------------------


@autocasts("float32")
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + |anchor - positive| - |anchor - negative|), in the ``p``-norm over the last dim.

    ``swap`` takes the positive's distance to the negative where that is smaller.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.triplet_margin_loss(jtorch.tensor([[0.0]]), jtorch.tensor([[1.0]]), jtorch.tensor([[1.5]]))
    tensor(0.5000)

    Source: Balntas et al. 2016, http://www.bmva.org/bmvc/2016/papers/paper119/index.html
    """
    reduction = chosen(reduction, size_average, reduce)

    def distance(x: Any, y: Any) -> Tensor:
        return functions.pairwise_distance(x, y, p, eps)

    _check_triplet(anchor, positive, negative, margin)
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``triplet_margin_loss`` with any function of two tensors as distance.

    >>> import jtorch
    >>> def distance(x, y):
    ...     return (x - y).abs().sum(-1)
    >>> triple = jtorch.tensor([[0.0]]), jtorch.tensor([[1.0]]), jtorch.tensor([[1.5]])
    >>> jtorch.nn.functional.triplet_margin_with_distance_loss(*triple, distance_function=distance)
    tensor(0.5000)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    _check_triplet(anchor, positive, negative, margin)
    distance = functions.pairwise_distance if distance_function is None else distance_function
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def _check_triplet(anchor: Any, positive: Any, negative: Any, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )


def _triplet(
    anchor: Any, positive: Any, negative: Any, distance: Callable, margin: float, swap: bool, reduction: str
) -> Tensor:
    near, apart = distance(anchor, positive), distance(anchor, negative)
    if swap:
        apart = functions.minimum(apart, distance(positive, negative))
    return reduced((margin + near - apart).clamp(min=0), reduction)
