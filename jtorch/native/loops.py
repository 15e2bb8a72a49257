"""Compiled loops over some arrays and fixed numbers, called from Python: see ``lines.py`` and ``pooling.py``.

Its block of arguments is made once for the numbers. The addresses of the arrays are written into it at each
call, by the machine code that runs it: 0.2 us, where reading three of them in Python takes 2.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from jtorch.native import cache, workers
from jtorch.native.executor import Executor, Patch

WORTHWHILE = 32  # elements: for fewer no loop is compiled, which takes some hundredths of a second
_SHORT = 1 << 16  # elements that are gone through before another thread of Python has waited for long
_MOST = 512  # loops that are remembered

Run = Callable[..., Any]
KNOWN: dict[Hashable, Run] = {}


def loop(
    key: Hashable, source: str, entry: str, arrays: int, numbers: Sequence[int], size: int,
    shares: Sequence[Sequence[int]] = ((),),
) -> Run | None:  # fmt: skip
    """What runs the kernel ``entry`` of a module text over so many contiguous arrays, of some ``size``, and
    then ``numbers`` and those of a share; threads run several. It is in ``KNOWN`` from now on; None where
    none can be had."""
    address = _kernel(source, entry)
    if address is None:
        return None
    if len(KNOWN) >= _MOST:
        KNOWN.clear()
    run = KNOWN[key] = _run(address, arrays, [[*numbers, *share] for share in shares], size)
    return run


@cache.once_offered
def _kernel(source: str, entry: str) -> int:
    return cache.get_or_build(source, entry).address


def _run(address: int, arrays: int, shares: Sequence[Sequence[int]], size: int) -> Run:
    if size <= _SHORT:
        return _executor(address, arrays, shares, release_gil=False)
    alone = threading.Lock()  # others run meanwhile, and may come with arrays of their own
    long = _executor(address, arrays, shares, release_gil=True)

    def run(*given: np.ndarray) -> None:
        with alone:
            long(*given)

    return run


if hasattr(os, "register_at_fork"):  # the threads that held locks do not exist in the child
    os.register_at_fork(after_in_child=KNOWN.clear)


def _executor(address: int, arrays: int, shares: Sequence[Sequence[int]], release_gil: bool) -> Run:
    blocks = np.array([[*[0] * arrays, *numbers] for numbers in shares], np.int64)
    start, stride = blocks.__array_interface__["data"][0], blocks.strides[0]
    patches = [Patch(k, start + n * stride + 8 * k) for n in range(len(blocks)) for k in range(arrays)]
    pool = workers.pool() if len(blocks) > 1 else 0
    table = np.array([[address, start, len(blocks), stride, pool]], np.int64)
    return Executor(table, patches, [blocks], release_gil=release_gil).run
