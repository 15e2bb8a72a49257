"""Loops along lines of an array that NumPy has not, or runs slowly: running sums, the largest few.

NumPy adds up along any axis but the last one column after another, and finds the largest few by parting the
whole line. Running sums of (512, 512) along the first axis (us, NumPy / here): 2900 / 50, the three largest
of each row 1300 / 430. A kernel is compiled for each dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jtorch.native import loops

Array = np.ndarray

_MOST = 32  # of the largest: a place is found for each that is ahead of the last one so far
_DTYPES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(np.int64): "i64"}


def cumsum(x: Array, axis: int) -> Array | None:
    """Sums of ``x`` from the start of ``axis`` on, floats in float64; None where no loop can be had, or is
    worth it."""
    run = _loop(_cumsum, x, axis)
    if run is None:
        return None
    out = np.empty(x.shape, x.dtype)
    sums = np.empty(x.shape[axis + 1 :], np.int64 if x.dtype.kind == "i" else np.float64)
    run(out, np.ascontiguousarray(x), sums)
    return out


def top(x: Array, axis: int, k: int, largest: bool) -> tuple[Array, Array] | None:
    """(the ``k`` largest or smallest elements along ``axis``, in order; their places): the first of equal
    ones first, NaN the largest. None as above, and for many."""
    run = _loop(_largest if largest else _smallest, x, axis, k) if 0 < k <= _MOST else None
    if run is None:
        return None
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    places, best = np.empty(shape, np.int64), np.empty(shape, x.dtype)
    run(places, best, np.ascontiguousarray(x))
    return best, places


def _loop(source: Callable[[str], tuple[str, str]], x: Array, axis: int, k: int = 0) -> loops.Run | None:
    if x.size < loops.WORTHWHILE or x.dtype not in _DTYPES:
        return None
    key = (source, x.dtype, x.shape, axis, k)
    known = loops.KNOWN.get(key)
    if known is not None:
        return known
    # how many elements there are before, along and behind the axis
    numbers = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]), k
    return loops.loop(key, *source(_DTYPES[x.dtype]), 3, numbers, x.size)


def _cumsum(dtype: str) -> tuple[str, str]:
    sums = "i64" if dtype == "i64" else "f64"
    return _CUMSUM.format(dtype=dtype, name=_NAMES[dtype], sums=sums, sum_name=_NAMES[sums]), "cumsum"


def _largest(dtype: str) -> tuple[str, str]:
    return _top(dtype, "{0} > {1} or ({0} != {0} and {1} == {1})", ">")


def _smallest(dtype: str) -> tuple[str, str]:
    return _top(dtype, "{0} < {1} or ({1} != {1} and {0} == {0})", "<")


def _top(dtype: str, ahead: str, of_integers: str) -> tuple[str, str]:
    ahead = f"{{0}} {of_integers} {{1}}" if dtype == "i64" else ahead
    first, further = ahead.format("value", "last"), ahead.format("value", "other")
    return _TOP.format(dtype=dtype, first=first, further=further), "top"


_NAMES = {"f32": "float32", "f64": "float64", "i64": "int64"}

_CUMSUM = """\
import numpy as np

ARGUMENTS = ("{dtype}*", "{dtype}*", "{sums}*", "i64", "i64", "i64", "i64")


def cumsum(out, x, sums, before, n, after, unused):
    for b in range(before):
        for i in range(after):
            sums[i] = np.{sum_name}(0)
        for j in range(n):
            at = (b * n + j) * after
            for i in range(after):
                total = sums[i] + np.{sum_name}(x[at + i])
                sums[i] = total
                out[at + i] = np.{name}(total)
    return 0
"""

_TOP = """\
ARGUMENTS = ("i64*", "{dtype}*", "{dtype}*", "i64", "i64", "i64", "i64")


def top(places, best, x, before, n, after, k):
    for b in range(before):
        for i in range(after):
            first = b * k * after + i
            held = 0
            for j in range(n):
                value = x[(b * n + j) * after + i]
                m = held
                if held == k:
                    last = best[first + (k - 1) * after]
                    if not ({first}):
                        continue
                    m = k - 1
                else:
                    held = held + 1
                while m > 0:
                    other = best[first + (m - 1) * after]
                    if not ({further}):
                        break
                    best[first + m * after] = other
                    places[first + m * after] = places[first + (m - 1) * after]
                    m = m - 1
                best[first + m * after] = value
                places[first + m * after] = j
    return 0
"""
