"""Random numbers of ``core/philox.py``, bits and what is made of them by one compiled loop.

Otherwise NumPy writes the bits, on one thread, and what is made of them walks through memory again. Of (8, 8)
normal numbers take 2.4 us instead of 4.7 and integers 2.8 instead of 7.1, of (512, 512) float32 ones on one
thread 870 instead of 1180, uniform ones 210 instead of 730. The numbers are the same, bit for bit.
"""

from __future__ import annotations

import math
import struct
import threading
from typing import Any

import numpy as np

from jtorch.core.philox import MASK64
from jtorch.core.pieces import LEAST_TIME, count, cut
from jtorch.native import loops

_PER_ELEMENT = {"uniform": 0.0013, "normal": 0.0035, "exponential": 0.0013, "bounded": 0.0019}
"""Microseconds, about, that one thread takes."""

_LANES = 4  # elements of a block of the generator


class _Words(threading.local):
    """What the loop reads: seed, call, how many elements, and the two bounds of integers."""

    def __init__(self) -> None:
        self.all = np.zeros(5, np.uint64)


_words = _Words()
_write = struct.Struct("=5Q").pack_into  # all at once: a third of the time of five elements set one by one


def drawn(
    kind: str, seed: int, call: int, shape: tuple[int, ...], dtype: np.dtype, low: int = 0, high: int = 0
) -> np.ndarray | None:
    """The stream (seed, call) as ``kind``, a function of ``core/philox.py``, makes it; None where no loop can
    be had, or is worth it. ``low`` and ``high`` are those of "bounded"."""
    n = math.prod(shape)
    if n < loops.WORTHWHILE:
        return None
    time = n * _PER_ELEMENT[kind]
    cut_for = 0 if time < LEAST_TIME else n  # one loop is for all numbers that one thread draws
    key = kind, dtype, cut_for
    run = loops.KNOWN.get(key)
    if run is None:  # some tenths of a second the first time on a machine
        blocks = n // _LANES
        shares = cut(blocks, count(time, blocks), 1) if cut_for else [(0, -1)]
        run = loops.loop(key, _text(kind, dtype), "draw", 2, (), cut_for, shares)
        if run is None:
            return None
    words: Any = _words.all
    _write(words, 0, seed & MASK64, call & MASK64, n, low & MASK64, high & MASK64)
    out = np.empty(shape, dtype)
    run(out, words)
    return out


def _text(kind: str, dtype: np.dtype) -> str:
    name = f"{dtype.kind}{8 * dtype.itemsize}"
    function, bounds = (kind, ", words[3], words[4]") if kind == "bounded" else (f"{kind}_{name}", "")
    return _DRAW.format(dtype=name, function=function, bounds=bounds)


_DRAW = """\
import numpy as np

from jtorch.core.philox import philox_block, {function}

ARGUMENTS = ("{dtype}*", "u64*", "i64", "i64")


def draw(out, words, first, end):
    n = np.int64(words[2])
    if end < 0:
        end = n // 4
    for block in range(first, end):
        a, b, c, d = philox_block(words[0], words[1], block)
        at = 4 * block
        out[at] = {function}(a{bounds})
        out[at + 1] = {function}(b{bounds})
        out[at + 2] = {function}(c{bounds})
        out[at + 3] = {function}(d{bounds})
    left = n - 4 * end
    if left > 0 and left < 4:
        a, b, c, d = philox_block(words[0], words[1], end)
        out[n - left] = {function}(a{bounds})
        if left > 1:
            out[n - left + 1] = {function}(b{bounds})
        if left > 2:
            out[n - left + 2] = {function}(c{bounds})
    return 0
"""
