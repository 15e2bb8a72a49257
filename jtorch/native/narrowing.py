"""Floats of 16 bits from and to float32 by compiled loops, on all threads where there are many.

NumPy converts float16 one by one, and ml_dtypes bfloat16: 1024 x 256 numbers take 384 us to float16, 310 back
and 85 to bfloat16 where these take 22, 20 and 18, on one thread. To float32 a bfloat16 is a shift, which
NumPy vectorizes. The bits are NumPy's and ml_dtypes', but of NaN: one of them, with its sign.
"""

from __future__ import annotations

import threading

import numpy as np

from jtorch.core.dtypes import BFLOAT16
from jtorch.core.pieces import LEAST_TIME, count, cut
from jtorch.native import loops

_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
_LEAST = 1024  # elements, from which on a loop is called sooner than NumPy is done
_PER_ELEMENT = 0.00008  # microseconds, about, that one thread takes

_NAMES = {
    (_FLOAT32, _FLOAT16): ("u16", "f32", "narrow_f16"),
    (_FLOAT16, _FLOAT32): ("f32", "u16", "wide_f16"),
    (_FLOAT32, BFLOAT16): ("u16", "f32", "narrow_bf16"),
}
"""By the dtypes: those of what the loop writes and reads, and the function of ``halves.py``."""


class _Words(threading.local):
    """What the loop reads: how many elements there are."""

    def __init__(self) -> None:
        self.all = np.zeros(1, np.int64)


_words = _Words()


def converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """``x.astype(dtype)``; None for other dtypes, for few elements, and where no loop can be had."""
    names = _NAMES.get((x.dtype, dtype))
    if names is None or x.size < _LEAST:
        return None
    if x.flags.c_contiguous:
        return _in_order(x, dtype, names)
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    dense = x.transpose(order)
    shape = dense.shape
    if 0 in x.strides:  # each number once
        dense = dense[tuple([slice(0, 1) if n == 0 else slice(None) for n in dense.strides])]
    out = _in_order(np.ascontiguousarray(dense.view(f"u{x.itemsize}")).view(x.dtype), dtype, names)
    if out is None:
        return None
    if out.shape != shape:
        out = np.array(np.broadcast_to(out, shape), order="C")
    return out.transpose(sorted(range(x.ndim), key=order.__getitem__))


def _in_order(x: np.ndarray, dtype: np.dtype, names: tuple[str, str, str]) -> np.ndarray | None:
    """The same of numbers that lie row by row, by the loop with these ``names``."""
    n = x.size
    cut_for = n if n * _PER_ELEMENT >= LEAST_TIME else 0  # one loop is for all numbers that one thread takes
    key = "narrowing", names, cut_for
    run = loops.KNOWN.get(key)
    if run is None:
        shares = cut(n, count(n * _PER_ELEMENT, n), 1) if cut_for else [(0, -1)]
        text = _LOOP.format(out=names[0], given=names[1], function=names[2])
        run = loops.loop(key, text, "convert", 3, (), cut_for, shares)
        if run is None:
            return None
    _words.all[0] = n
    out = np.empty(x.shape, dtype)
    run(out, x, _words.all)
    return out


_LOOP = """\
import numpy as np

from jtorch.native.halves import {function}

ARGUMENTS = ("{out}*", "{given}*", "i64*", "i64", "i64")


def convert(out, x, words, first, end):
    if end < 0:
        end = words[0]
    for k in range(first, end):
        out[k] = {function}(x[k])
    return 0
"""
