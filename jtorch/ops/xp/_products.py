"""Products of matrices on the threads that `jtorch.core.threads` says.

NumPy's BLAS wakes its threads for products of 0.3 million multiplications (0.01 million with a vector), a few
microseconds of work, and they spin for 30 ms when it is done: beside other busy programs a training step took
18 times as long. How many threads it uses belongs to the user's own calls of NumPy, so
what is too large for it to stay on one thread goes to a private copy of OpenBLAS, where there is one
(`native/products.py`: the one that compiled code uses). It costs nothing: 64 x 784 by 784 x 256 takes 198 us
in both, 32 x 64 by 64 x 256 7.3. Setting NumPy's number around each product and setting it back would take
less code and 1 us, but other Python threads see it, on Zen 4 NumPy's copy has chosen slower kernels, and its
threads cannot be told to sleep when they have nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core.library_threads import limited

Array = np.ndarray

# Of multiplications: up to here OpenBLAS stays on one thread by itself. For a product with one row or
# column NumPy calls its routine for vectors (interface/gemm.c and gemv.c, GEMM_MULTITHREAD_THRESHOLD = 4).
_SERIAL, ALWAYS_SERIAL = 65536 * 4, 2304 * 4
_RUN = 8192  # of a product of two vectors: up to 10,000 are serial (interface/dot.c)

find: Callable[[], Any] | None = None


def dot(x: Array, y: Array) -> Array:
    """``x.dot(y)`` of two matrices."""
    work = len(x) * y.size
    one_row, one_column = len(x) == 1, y.shape[1] == 1
    if work < ALWAYS_SERIAL or (work <= _SERIAL and not (one_row or one_column)):
        return x.dot(y)
    if one_row and one_column and x.size == y.size:
        return inner(x.reshape(-1), y.reshape(-1)).reshape(1, 1)
    run = _runners.get(x.dtype)
    if run is not None:
        out = np.empty((len(x), y.shape[1]), x.dtype)
        if not run(x, y, out):
            return out
    return _apart(x, y, None)


def vector_dot(x: Array, y: Array) -> Array:
    """``x.dot(y)`` of a vector and a matrix, or a matrix and a vector."""
    if x.size < ALWAYS_SERIAL > y.size:
        return x.dot(y)
    return dot(x[None], y)[0] if x.ndim == 1 else dot(x, y[:, None])[:, 0]


def inner(x: Array, y: Array) -> Array:
    """``x.dot(y)`` of two vectors, as an array without axes: the sum of those of runs that stay serial."""
    n = len(x)
    if n <= _RUN or len(y) != n:  # or NumPy's error
        return np.asarray(x.dot(y))
    whole = n - n % _RUN
    parts = np.matmul(x[:whole].reshape(-1, 1, _RUN), y[:whole].reshape(-1, _RUN, 1))
    return np.asarray(parts.sum(dtype=x.dtype) + x[whole:].dot(y[whole:]), x.dtype)


def matmul(x: Array, y: Array, out: Array | None = None) -> Array:
    """``np.matmul(x, y, out=out)`` of matrices, or of batches of them."""
    work = x.shape[-2] * x.shape[-1] * y.shape[-1]
    if work < ALWAYS_SERIAL or (work <= _SERIAL and x.shape[-2] > 1 < y.shape[-1]):
        return np.matmul(x, y, out=out)
    return _apart(x, y, out)


_runners: dict[np.dtype, Callable[[Array, Array, Array], int]] = {}
_asked: set[np.dtype] = set()


def _apart(x: Array, y: Array, out: Array | None) -> Array:
    dtype = x.dtype
    if dtype not in _asked:
        run = None if find is None else find().runner(dtype)
        if run is not None:
            _runners[dtype] = run
        _asked.add(dtype)  # last: Ctrl-C may come before, and another thread would go without
    run = _runners.get(dtype)
    total = _result(x, y) if out is None and run is not None else out
    if run is not None and total is not None and _run(run, x, y, total):
        return total
    flops = 2.0 * x.shape[-2] * x.shape[-1] * y.shape[-1]
    if x.ndim == 2 == y.ndim and out is None:
        return limited(flops, x.dot, y)
    return limited(flops, np.matmul, x, y, out=out)


def _result(x: Array, y: Array) -> Array | None:
    """Memory for the product; None where the leading axes are to be broadcast."""
    leading, other = x.shape[:-2], y.shape[:-2]
    if leading and other and leading != other:
        return None
    return np.empty((*(leading or other), x.shape[-2], y.shape[-1]), x.dtype)


def _run(run: Callable[..., int], x: Array, y: Array, out: Array) -> bool:
    """False where it is not for ``run``: see ``runner`` in ``native/products.py``."""
    if out.ndim <= 3:
        return not run(x, y, out)
    of_x, of_y = x.ndim > 2, y.ndim > 2
    # a batch of batches goes one by one: laid out as one it might have to be copied
    return all(_run(run, x[k] if of_x else x, y[k] if of_y else y, out[k]) for k in range(len(out)))
