"""Reading and writing at places that integer arrays name, and the order of elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jtorch.ops.xp import _lines
from jtorch.ops.xp._places import check_places as _check_places
from jtorch.ops.xp._wide import in_float32 as _in_float32, sortable as _sortable

Array = np.ndarray
Shape = tuple[int, ...]


def index(x: Array, *indices: Array, axes: Shape) -> Array:
    """``x`` at integer ``indices`` of one common shape, which replaces the adjacent ``axes``."""
    if len(indices) == 1 and x.flags.c_contiguous:  # else it would be copied
        (places,), (axis,) = indices, axes
        _check_places(places, x.shape[axis], axis)  # NumPy would count negative ones from the end
        return x.take(places, axis)
    _check_all(indices, x.shape, axes)
    return np.asarray(x[(slice(None),) * axes[0] + indices], order="C")


def _check_all(indices: tuple[Array, ...], shape: Shape, axes: Shape) -> None:
    for axis, places in zip(axes, indices, strict=True):
        _check_places(places, shape[axis], axis)


@_in_float32
def index_add(g: Array, *indices: Array, axes: Shape, shape: Shape) -> Array:
    """Zeros of ``shape`` with ``g`` added at ``indices``: what ``index`` read from, repeats summed."""
    _check_all(indices, shape, axes)
    flat = indices[0].ravel()
    for places, axis in zip(indices[1:], axes[1:], strict=True):
        flat = flat * shape[axis] + places.ravel()
    before = math.prod(shape[: axes[0]])
    rows = math.prod(shape[a] for a in axes)
    after = math.prod(shape[axes[-1] + 1 :])
    # element by element: for vectors NumPy has a loop of its own, four times as fast as rows at a time
    if after != 1:
        flat = (flat[:, None] * after + np.arange(after)).ravel()
    if before != 1:
        flat = (flat + np.arange(before)[:, None] * (rows * after)).ravel()
    out = np.zeros((before * rows * after,), g.dtype)
    np.add.at(out, flat, g.reshape(-1))
    return out.reshape(shape)


def index_put(x: Array, value: Array, *indices: Array, axes: Shape) -> Array:
    _check_all(indices, x.shape, axes)
    out = np.array(x, order="C")
    out[(slice(None),) * axes[0] + indices] = value
    return out


_COMBINE: dict[str, Any] = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


@_in_float32
def index_combine(
    x: Array, value: Array, *indices: Array, axes: Shape, reduce: str, include_self: bool
) -> Array:
    """``x`` with every element of ``value`` multiplied in, or kept where it is larger or smaller."""
    _check_all(indices, x.shape, axes)
    out = np.array(x, order="C")
    places: Any = (slice(None),) * axes[0] + indices
    _COMBINE[reduce].at(out, places, value)
    return out


def isin(x: Array, y: Array) -> Array:
    return np.isin(_sortable(x), _sortable(y))


def sort_order(x: Array, *, axis: int, descending: bool) -> Array:
    return _first_in_order(x, axis, descending, slice(None))


def _first_in_order(x: Array, axis: int, descending: bool, part: slice) -> Array:
    """The first ``part`` of the places that put ``x`` in order along ``axis``."""
    x, before = _sortable(x), (slice(None),) * axis
    packed = _packed_order(x, axis, descending) if x.size >= _MANY and x.shape[axis] >= _LONG else None
    if packed is not None:
        return packed if part.stop is None else np.array(packed[(*before, part)], order="C")
    if not descending:
        order = x.argsort(axis, kind="stable")
        return order if part.stop is None else np.array(order[(*before, part)], order="C")
    # backwards twice, so that equal elements stay in their order
    order = x[(*before, _BACKWARDS)].argsort(axis, kind="stable")
    return np.subtract(x.shape[axis] - 1, order[(*before, _BACKWARDS)][(*before, part)], order="C")


_MANY, _LONG = 1024, 32  # of fewer, or of short lines, NumPy's own order is there sooner
_INFINITY, _PLACE = 0x7F800000, 0xFFFFFFFF  # as bits


def _packed_order(x: Array, axis: int, descending: bool) -> Array | None:
    """The places that put numbers of 32 bits in order: those of 64 are sorted, each a number and its place,
    of which no two are equal, so that any way to sort them gives one order. NumPy sorts them by vectors: the
    rows of (64, 64) in 14 us instead of 36, a million in 5 ms instead of 84. None for other dtypes, and
    where NaN are among them."""
    if x.dtype == np.float32:
        with np.errstate(invalid="ignore"):  # of NaN that signal
            keys = np.add(x, np.float32(0.0), order="C").view(np.int32)  # -0.0 is 0.0
        keys ^= (keys >> 31) & 0x7FFFFFFF
    elif x.dtype == np.int32:
        keys = x
    else:
        return None
    n = x.shape[axis]
    packed = np.invert(keys, order="C").astype(np.int64) if descending else keys.astype(np.int64, "C")
    packed <<= 32
    packed |= np.arange(n).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    packed.sort(axis)
    if x.dtype.kind == "f":
        before = (slice(None),) * axis
        first, last = packed[(*before, 0)].min() >> 32, packed[(*before, -1)].max() >> 32
        if first < ~_INFINITY or last > _INFINITY:
            return None
    packed &= _PLACE
    return packed


def top_order(x: Array, *, axis: int, k: int, largest: bool) -> Array:
    """The first ``k`` places of ``sort_order``. Of many elements those that can be among them are sorted."""
    both = _lines.top(x, axis, k, largest)
    if both is not None:
        return both[1]
    x, n, found = _sortable(x), x.shape[axis], None
    if k and n > _FEW and 4 * k < n:
        found = _top_of_rows(np.moveaxis(x, axis, -1).reshape(-1, n), k, largest)
    if found is None:
        return _first_in_order(x, axis, largest, slice(k))
    shape = (*x.shape[:axis], *x.shape[axis + 1 :], k)
    return np.asarray(np.moveaxis(found.reshape(shape), -1, axis), order="C")


_FEW = 128
_BACKWARDS = slice(None, None, -1)
_add_up: Any = np.add.reduce


def _top_of_rows(x: Array, k: int, largest: bool) -> Array | None:
    """The same along the last of two axes; None where NaN are among them."""
    n = x.shape[1]
    last = np.partition(x, n - k if largest else k - 1, 1)[:, n - k if largest else k - 1, None]
    if x.dtype.kind == "f" and np.isnan(last).any():
        return None
    ahead = ~(x <= last) if largest else x < last  # NaN is the largest
    equal = x == last
    wanted = k - _add_up(ahead, 1, np.int64, None, True)
    if _add_up(equal, None, np.int64) != wanted.sum():  # the first of equal ones
        equal &= np.cumsum(equal, 1) <= wanted
    places = np.nonzero(ahead | equal)[1].reshape(-1, k)
    order = sort_order(np.take_along_axis(x, places, 1), axis=1, descending=largest)
    return np.take_along_axis(places, order, 1)


def median_place(x: Array, *, axis: int, of_numbers: bool) -> Array:
    """The place along ``axis``, which stays, of the element in the middle, the lower of two: of all, or the
    first NaN, or of all that are ``of_numbers``."""
    n = x.shape[axis]
    order = _sortable(x).argsort(axis, kind="stable")
    if x.dtype.kind not in "fV":
        return np.array(order[(*(slice(None),) * axis, slice((n - 1) // 2, (n - 1) // 2 + 1))], order="C")
    numbers = n - _add_up(np.isnan(x), axis, np.int64, None, True)
    if of_numbers:
        place = np.maximum((numbers - 1) // 2, 0)
    else:  # NaN come last: the first of them, if there is one
        place = np.where(numbers < n, numbers, (n - 1) // 2)
    return np.asarray(np.take_along_axis(order, place, axis), order="C")
