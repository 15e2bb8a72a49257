"""Counting elements: bins, edges, and what occurs at all.

Results whose size depends on the elements need them at once. While a function is compiled ``unique`` and
``unique_consecutive`` of all elements are computed by counted masks; the others are an error which says so.
Source: https://docs.pytorch.org/docs/stable/torch.html#other-operations
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.number_ranges import require_number
from jtorch.core.return_types import ALL as RESULTS
from jtorch.eager.binding import APPLY
from jtorch.eager.duals import refuse
from jtorch.eager.index_items import places_of
from jtorch.eager.messages import long_name
from jtorch.eager.placement import beside
from jtorch.eager.tensor import Tensor, _concrete, reads_elements, wrap
from jtorch.ops import axes as ax
from jtorch.ops.xp._wide import sortable


def bincount(input: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each number 0, 1, ... occurs in a vector, or the sum of its ``weights``."""
    array = _concrete(input, "bincount()")
    if array.dtype.kind not in "iu":
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{long_name(array.dtype)}'")
    if array.ndim != 1 or (array.size and array.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is None:
        return beside(input, wrap(np.bincount(array, None, minlength).astype(np.int64)))
    if weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    refuse("bincount", weights)
    wide = weights if weights.dtype is dt.float32 else weights.to(dt.float64)
    length = max(minlength, int(array.max()) + 1 if array.size else 0)
    return APPLY["index_add"](wide.detach(), input.to(dt.int64), axes=(0,), shape=(length,))


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of ``bins`` equal parts of [min, max], or of their own range."""
    _check_bins(bins)
    if max < min:
        raise RuntimeError("torch.histc: max must be larger than min")
    if not input.is_floating_point():
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{long_name(input._data.dtype)}'")
    x = input.detach().reshape(-1)
    low, high = _range(x, min, max)
    _check_finite("torch.histc: range of", low, high)
    inside = APPLY["logical_and"](APPLY["ge"](x, low), APPLY["le"](x, high))
    place = ((x - low) * (float(bins) / (high - low))).clamp(0, bins - 1)
    place = APPLY["where"](inside, place, 0).long()
    counts = APPLY["index_add"](inside.to(dt.float64), place, axes=(0,), shape=(bins,))
    return counts.to(input.dtype)


def _check_bins(bins: int, of: int = 0) -> None:
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {of}")


def _check_finite(what: str, low: Any, high: Any) -> None:
    """Raise for a range that is not finite. Of elements this is a branch, also in compiled code."""
    if isinstance(low, Tensor):
        if not bool(APPLY["isfinite"](high - low)):
            raise RuntimeError(f"{what} of the elements is not finite")
    elif not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{what} [{low:g}, {high:g}] is not finite")


def _range(x: Tensor, min: Any, max: Any, margin: float = 1.0) -> tuple[Any, Any]:
    """The limits as given; if they are equal those of the elements, widened where they are equal, too."""
    if min != max:
        return min, max
    if not x.numel():
        return 0.0, 1.0
    low, high = x.amin(), x.amax()
    same = APPLY["eq"](low, high).to(low.dtype) * margin
    return low - same, high + same


def histogram(
    input: Tensor, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """(sums of weights between neighbouring edges, the edges); ``bins`` is a number or edges."""
    if not input.is_floating_point():
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{long_name(input._data.dtype)}'")
    refuse("histogram", input, bins, weight)
    x = input.detach().reshape(-1)
    edges = bins if isinstance(bins, Tensor) else _edges(x, bins, range)
    if edges.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogram(): input tensor and bins tensors should have the same dtype, but got input "
            f"with dtype {long_name(input._data.dtype)} and bins with dtype {long_name(edges._data.dtype)}"
        )
    heights = _ones(x) if weight is None else weight.detach().reshape(-1)
    counts = APPLY["histogram_counts"](x, edges, heights)
    if density:
        counts = counts / (counts.sum() * (edges[1:] - edges[:-1]))
    return RESULTS["histogram"](counts, edges)


def _ones(x: Tensor) -> Tensor:
    return wrap(op_module.CONTEXT.get().xp.full(1, shape=tuple(x.shape), dtype=x.dtype.numpy))


def _edges(x: Tensor, bins: int, range: Any, of: int = 0) -> Tensor:
    """Those of ``bins`` equal parts of the range, which is that of the dim ``of``."""
    _check_bins(bins, of)
    first, last = range or (0, 0)
    if first > last:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {first:g} max {last:g} for "
            f"dimension {of}"
        )
    low, high = _range(x, first, last, margin=0.5)
    _check_finite(f"torch.histogramdd: dimension {of}'s range", low, high)
    steps = op_module.CONTEXT.get().xp.iota(shape=(bins + 1,), axis=0, dtype=x.dtype.numpy)
    line = wrap(steps) / bins
    return APPLY["lerp"](line * 0 + low, line * 0 + high, line)


def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> Tensor:  # fmt: skip
    """Where the values of ``input`` go into a sequence sorted along its last dim: int64, or int32 if asked.

    ``right`` (or ``side="right"``) puts them behind equal elements; ``sorter`` is the order that sorts.
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right "
            "was True"
        )
    number = not isinstance(input, Tensor)
    values = _full(input, sorted_sequence) if number else input
    rows, wanted = tuple(sorted_sequence.shape), tuple(values.shape)
    if len(rows) != 1 and rows[:-1] != wanted[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            "boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(rows)} and input value tensor {list(wanted)}"
        )
    if sorter is not None:
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    found = APPLY["searchsorted"](sorted_sequence, values, right=right or side == "right")
    return found.to(dt.int32) if out_int32 else found


def _full(number: Any, like: Tensor) -> Tensor:
    require_number(number)
    kind = like.dtype.numpy if like.is_floating_point() else dt.of_number(number)
    return wrap(op_module.CONTEXT.get().xp.full(number, shape=(), dtype=kind))


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Which of the intervals between ``boundaries`` (a sorted vector) each element lies in."""
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The different elements (slices along ``dim``) in ascending order; with where each went, and how many.

    Every NaN is different from all others.
    """
    refuse("unique", input)
    if dim is None and not reads_elements():
        line, order = input.detach().reshape(-1).sort(stable=True)
        return _of_starts(input, line, order, return_inverse, return_counts)
    array = _concrete(input, "unique()")
    if dim is None:  # in this order equal ones, and NaN, stay in theirs
        line = array.reshape(-1)
        order = sortable(line).argsort(kind="stable")
        values, places, counts = _runs(line[order].reshape(-1, 1))
        inverse = np.empty(line.shape, np.int64)
        inverse[order] = places
        found = values.reshape(-1), inverse.reshape(array.shape), counts
        return _chosen(input, *found, return_inverse, return_counts)
    values, inverse, counts = np.unique(
        sortable(array),
        return_inverse=True,
        return_counts=True,
        axis=_axis_of_slices(dim, input),
        equal_nan=False,
    )
    values = values.astype(array.dtype)
    return _chosen(input, values, inverse.reshape(-1), counts, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """``input`` without elements (slices along ``dim``) that equal the one before."""
    refuse("unique_consecutive", input)
    if dim is None and not reads_elements():
        return _of_starts(input, input.detach().reshape(-1), None, return_inverse, return_counts)
    array = _concrete(input, "unique_consecutive()")
    axis = 0 if dim is None else _axis_of_slices(dim, input)
    line = array.reshape(-1) if dim is None else np.moveaxis(array, axis, 0)
    found, inverse, counts = _runs(line.reshape(len(line), math.prod(line.shape[1:])))
    values = np.moveaxis(found.reshape(-1, *line.shape[1:]), 0, axis)
    inverse = inverse.reshape(array.shape) if dim is None else inverse
    return _chosen(input, values, inverse, counts, return_inverse, return_counts)


def _runs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the rows that differ from the one before, which of them each belongs to, how many do)"""
    starts = np.ones(len(rows), np.bool_)
    starts[1:] = (rows[1:] != rows[:-1]).any(1)
    run = np.cumsum(starts) - 1
    return rows[starts], run, np.bincount(run, minlength=int(starts.sum()))


def _of_starts(
    input: Tensor, line: Tensor, order: Tensor | None, with_inverse: bool, with_counts: bool
) -> Any:
    """What is different of a vector of tensors whose elements are not known, each from the one before;
    ``order`` is where they were."""
    if line.shape[0] == 0:
        starts = line.to(dt.bool_)
    else:
        starts = APPLY["cat"]((line[:1] == line[:1]) | True, line[1:] != line[:-1], axis=0)
    (places,) = places_of(starts)
    found = [line[places]]
    inverse = starts.long().cumsum(0) - 1
    if with_inverse:
        back = inverse if order is None else inverse.scatter(0, order, inverse)
        found.append(back.reshape(input.shape))
    if with_counts:
        found.append((places * 0).index_add(0, inverse, inverse * 0 + 1))
    return tuple(found) if len(found) > 1 else found[0]


def _axis_of_slices(dim: int, input: Tensor) -> int:
    """The axis of ``dim``. Raises PyTorch's errors where there are no slices, or nothing is in them."""
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    axis = ax.one(dim, input.ndim)
    empty = [k for k, n in enumerate(input.shape) if n == 0]
    if len(empty) > 1:
        raise RuntimeError("Number of zero sized dimensions is more than one, so unique cannot be applied ")
    if empty and empty != [axis]:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    return axis


def _chosen(
    input: Tensor, values: Any, inverse: Any, counts: Any, with_inverse: bool, with_counts: bool
) -> Any:
    made = [np.ascontiguousarray(values)]
    made += [inverse.astype(np.int64)] if with_inverse else []
    made += [counts.astype(np.int64)] if with_counts else []
    found = [beside(input, wrap(array)) for array in made]
    return tuple(found) if len(found) > 1 else found[0]


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        bincount, histc, histogram, searchsorted, bucketize, unique, unique_consecutive,
    )
}  # fmt: skip
METHODS = {name: f for name, f in FUNCTIONS.items() if name not in ("searchsorted", "bucketize")}
