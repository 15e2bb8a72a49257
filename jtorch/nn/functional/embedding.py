"""Tables of rows: looked up one by one, or summed up in bags; and classes as unit vectors.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#sparse-functions
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.eager.public import (
    Tensor,
    arange,
    by_rows,
    full,
    functions,
    integer,
    largest_integer,
    no_grad,
    ops,
    reads_elements,
    tensor,
    widened,
    zeros,
)
from jtorch.ops.embedding import check_ids


def shortened_(weight: Any, ids: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows ``ids`` of ``weight`` in place, so that no norm is larger than ``max_norm``."""
    with no_grad():
        rows = weight[ids.reshape(-1)]
        norms = functions.norm(widened(rows), norm_type, 1, True)
        scale = functions.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
        weight[ids.reshape(-1)] = rows * scale


def _padding(padding_idx: int | None, rows: int) -> int:
    """``padding_idx`` counted from the front, -1 for none. Raises AssertionError out of range."""
    if padding_idx is None:
        return -1
    padding_idx = integer("embedding", "padding_idx", padding_idx)
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """(*input, width): the rows of ``weight`` (rows, width) that the integers in ``input`` name.

    Row ``padding_idx`` gets no gradient. With ``max_norm`` rows that are looked up and longer are shortened
    in place. ``scale_grad_by_freq`` divides gradients by how often ``input`` names a row. With ``sparse`` a
    ``weight`` that is a leaf gets a COO tensor of the rows looked up as its gradient, which SGD, Adagrad and
    SparseAdam take; of others, and with ``create_graph=True``, it is dense. Compiled functions run that
    eagerly. Raises IndexError for numbers out of range.

    >>> import jtorch
    >>> table = jtorch.tensor([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]])
    >>> jtorch.nn.functional.embedding(jtorch.tensor([2, 0]), table)
    tensor([[2.0000, 2.5000],
            [0.0000, 0.5000]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
    """
    padding = _padding(padding_idx, weight.shape[0])
    if max_norm is not None:
        shortened_(weight, input, max_norm, norm_type)
    try:
        rows = functions.embedding(weight, input, padding, scale_grad_by_freq)
    except IndexError:
        raise IndexError("index out of range in self") from None
    return by_rows(rows) if sparse else rows


# -- bags --------------------------------------------------------------------------------------------------


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """(B, width): the sum, mean or elementwise maximum of the rows in each bag; zeros for an empty one.

    ``input`` is (B, n), one bag a row, or a vector in which bag b begins at ``offsets[b]``. Rows of
    ``padding_idx`` do not count. ``per_sample_weights`` are factors for "sum". With ``sparse`` the
    gradient of ``weight`` is a COO tensor, as that of ``embedding``.

    >>> import jtorch
    >>> table = jtorch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> bags = jtorch.tensor([0, 1, 1]), jtorch.tensor([0, 1])  # one of row 0, one of row 1 twice
    >>> jtorch.nn.functional.embedding_bag(bags[0], table, bags[1], mode="sum")
    tensor([[1., 2.],
            [6., 8.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding_bag.html
    """
    if weight.dtype is dt.int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, "
            "...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    _check_bags(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq, sparse)
    padding = -1 if padding_idx is None else padding_idx
    if not -weight.shape[0] <= padding < weight.shape[0]:
        raise RuntimeError(
            "padding_idx must be within the number of embeddings, -"
            f"{weight.shape[0]} through {weight.shape[0] - 1}, but got {padding_idx}"
        )
    padding = -1 if padding_idx is None else padding % weight.shape[0]
    if max_norm is not None:
        shortened_(weight, input, max_norm, norm_type)
    try:
        rows: Any = functions.embedding(weight, input, padding, scale_grad_by_freq)
    except IndexError:
        raise RuntimeError(_out_of_range(input, weight.shape[0])) from None
    rows = by_rows(rows) if sparse else rows
    counts = input != padding if padding >= 0 else None  # None: all do
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if input.ndim == 2:
        return _reduced(rows, counts, mode)
    assert offsets is not None
    if not reads_elements():
        starts, end = _checked_bounds(offsets, input.shape[0], include_last_offset)
        if mode == "max":
            return _reduced(*_as_wide_rectangle(rows, counts, starts, end), mode)
        return _reduced_by_start(rows, counts, starts, end, mode)
    bounds = _bounds(offsets, input.shape[0], include_last_offset)
    if mode == "max":
        return _reduced(*_as_rectangle(rows, counts, bounds), mode)
    return _reduced_by_bag(rows, counts, bounds, mode)


def _out_of_range(ids: Tensor, rows: int) -> str:
    """PyTorch's sentence for the first of ``ids`` that names no row."""
    values = ids.reshape(-1).tolist()
    place = next(k for k, value in enumerate(values) if not 0 <= value < rows)
    return f"Index {place} of input takes value {values[place]} which is not in the valid range [0, {rows})"


def _check_bags(
    input: Tensor, weight: Tensor, offsets: Any, mode: str, factors: Any, by_frequency: bool, sparse: bool
) -> None:
    """Raise PyTorch's errors for arguments that do not fit."""
    if factors is not None and input.shape != factors.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({factors.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
            f"length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.ndim == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if input.ndim == 1 and offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and by_frequency:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if factors is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    if factors is not None and factors.dtype is not weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type {weight.dtype} does not equal {factors.dtype} (while checking "
            "arguments for embedding_bag)"
        )
    check_ids(input, "embedding_bag")


def _bounds(offsets: Tensor, n: int, include_last: bool) -> list[int]:
    """Where the bags begin, and where the last ends. Raises RuntimeError for offsets out of order."""
    check_ids(offsets, "embedding_bag")
    starts: list[int] = offsets.tolist()
    if include_last and not starts:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if starts and starts[0] != 0:
        raise RuntimeError(f"{_NOT_FROM_0} However, got {starts[0]}")
    if starts and starts[-1] > n:
        raise RuntimeError(f"{_BEYOND.format(n)} but got offsets[-1] of {starts[-1]}")
    if any(a > b for a, b in pairwise(starts)):
        raise RuntimeError(f"embedding_bag: offsets must not decrease, but got {starts}")
    return starts if include_last else [*starts, n]


_NOT_FROM_0 = (
    "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0."
)
_BEYOND = "offsets[-1] can not be greater than input's length {}"


def _checked_bounds(offsets: Any, n: int, include_last: bool) -> tuple[Any, Any]:
    """The same where elements are not known: (the first row of each bag, that after the last), tensors."""
    check_ids(offsets, "embedding_bag")
    offsets = offsets.long()
    if offsets.shape[0]:
        if offsets[0] != 0:
            raise RuntimeError(_NOT_FROM_0)
        if offsets[-1] > n:
            raise RuntimeError(_BEYOND.format(n))
        if (offsets[1:] < offsets[:-1]).any():
            raise RuntimeError("embedding_bag: offsets must not decrease")
    elif include_last:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if include_last:
        return offsets[:-1], offsets[1:]
    return offsets, functions.cat(
        [offsets[1:], full((min(offsets.shape[0], 1),), n, dtype=dt.int64, device=offsets.device)]
    )


def _reduced_by_start(rows: Any, counts: Any, starts: Any, ends: Any, mode: str) -> Tensor:
    """``_reduced_by_bag`` for bags given by tensors."""
    bags, n = starts.shape[0], rows.shape[0]
    if not bags:
        return rows[:0]
    to = ops.searchsorted(
        ends, arange(n, device=ends.device), right=True
    )  # ``bags`` for rows after the last one
    if counts is not None:
        rows = functions.where(counts.unsqueeze(-1), rows, 0.0)
    total = ops.index_add(rows, to, axes=(0,), shape=(bags + 1, rows.shape[1]))[:bags]
    if mode == "sum":
        return total
    sizes = ends - starts
    if counts is not None:
        sizes = ops.index_add(counts.long(), to, axes=(0,), shape=(bags + 1,))[:bags]
    return total / _at_least_one(sizes, rows)


def _as_wide_rectangle(rows: Any, counts: Any, starts: Any, ends: Any) -> tuple[Any, Any]:
    """``_as_rectangle`` for bags given by tensors, as wide as the longest that there may be."""
    n = rows.shape[0]
    where = starts.unsqueeze(1) + arange(n, device=starts.device)
    where = functions.where(where < ends.unsqueeze(1), where, n)
    filled = functions.cat([rows, full((1, rows.shape[1]), 0.0, dtype=rows.dtype, device=rows.device)])
    if counts is None:
        return filled[where], where < n
    return filled[where], functions.cat([counts, full((1,), False, dtype=dt.bool_, device=counts.device)])[
        where
    ]


def _reduced(rows: Any, counts: Any, mode: str) -> Tensor:
    """Rows (B, n, width) to (B, width); ``counts`` (B, n) says which of them do, None that all do."""
    if not rows.shape[1]:
        return rows.sum(1)
    if counts is None:
        return _largest(rows, None) if mode == "max" else rows.sum(1) if mode == "sum" else rows.mean(1)
    wide = counts.unsqueeze(-1)
    if mode == "max":
        return functions.where(wide.any(1), _largest(rows, counts), 0.0)
    total = functions.where(wide, rows, 0.0).sum(1)
    return total if mode == "sum" else total / _at_least_one(counts.sum(1), rows)


def _largest(rows: Any, counts: Any) -> Tensor:
    """Rows (B, n, width) to the first maximum of those that count. As in PyTorch, the first of these stays
    unless another one is larger: beside NaN nothing is, and NaN is larger than nothing."""
    with no_grad():
        seen = ops.isnan(rows).logical_not()
        if counts is None:
            first = zeros(rows.shape[0], 1, 1, dtype=dt.int64, device=rows.device)
        else:
            seen = seen & counts.unsqueeze(-1)
            first = counts.long().argmax(1).reshape(-1, 1, 1)
        first = first.expand(-1, 1, rows.shape[2])
        top, place = functions.where(seen, rows, float("-inf")).max(1, keepdim=True)
        stays = ops.isnan(functions.gather(rows, 1, first)) | (top == float("-inf"))
        place = functions.where(stays, first, place)
    return functions.gather(rows, 1, place).squeeze(1)


def _at_least_one(numbers: Any, like: Tensor) -> Tensor:
    return numbers.to(like.dtype).clamp(min=1.0).unsqueeze(-1)


def _reduced_by_bag(rows: Any, counts: Any, bounds: list[int], mode: str) -> Tensor:
    """Rows (n, width) to their sum or mean in each bag, (B, width)."""
    bags = len(bounds) - 1
    if bags <= 0:
        return rows[:0]
    n = bounds[-1]  # rows after the last offset belong to no bag
    place = [b for b in range(bags) for _ in range(bounds[b + 1] - bounds[b])]
    to = tensor(place, dtype=dt.int64)
    rows = rows[:n] if n < rows.shape[0] else rows
    if counts is not None:
        counts = counts[:n]
        rows = functions.where(counts.unsqueeze(-1), rows, 0.0)
    total = ops.index_add(rows, to, axes=(0,), shape=(bags, rows.shape[1]))
    if mode == "sum":
        return total
    if counts is None:
        sizes = tensor([b - a for a, b in pairwise(bounds)], dtype=dt.int64)
    else:
        sizes = ops.index_add(counts.long(), to, axes=(0,), shape=(bags,))
    return total / _at_least_one(sizes, rows)


def _as_rectangle(rows: Any, counts: Any, bounds: list[int]) -> tuple[Any, Any]:
    """Bags as rows (B, longest, width), and which of them count (B, longest)."""
    n, bags = rows.shape[0], max(len(bounds) - 1, 0)
    sizes = [b - a for a, b in pairwise(bounds)]
    longest = max(sizes, default=0)
    places = [[a + k if k < m else n for k in range(longest)] for a, m in zip(bounds, sizes, strict=False)]
    where = tensor(places, dtype=dt.int64).reshape(bags, longest)
    filled = functions.cat([rows, full((1, rows.shape[1]), 0.0, dtype=rows.dtype, device=rows.device)])
    if counts is None:
        return filled[where], where < n
    return filled[where], functions.cat([counts, full((1,), False, dtype=dt.bool_, device=counts.device)])[
        where
    ]


# -- classes -----------------------------------------------------------------------------------------------


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 zeros with a 1 at each class, along a new last dim.

    With ``num_classes`` -1 it is the largest class and one. Raises RuntimeError for classes below 0 or
    from ``num_classes`` on (compiled code: IndexError).

    >>> import jtorch
    >>> jtorch.nn.functional.one_hot(jtorch.tensor([0, 2, 1]), num_classes=4)
    tensor([[1, 0, 0, 0],
            [0, 0, 1, 0],
            [0, 1, 0, 0]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.one_hot.html
    """
    if tensor.dtype is not dt.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    empty = tensor.numel() == 0
    if empty and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if num_classes == -1:
        num_classes = largest_integer(tensor) + 1
        # of others below 0 the op says so
        if (num_classes <= 0 or not reads_elements()) and tensor.min().item() < 0:
            raise RuntimeError("Class values must be non-negative.")
    if num_classes <= 0:
        raise RuntimeError("Class values must be smaller than num_classes.")
    try:
        return ops.one_hot(tensor, classes=num_classes)
    except IndexError:
        _check_classes(tensor, num_classes)
        raise


def _check_classes(tensor: Tensor, num_classes: int) -> None:
    if tensor.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if tensor.max().item() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
