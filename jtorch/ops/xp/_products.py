"""Products of matrices on the threads that `jtorch.core.threads` says.

NumPy's BLAS wakes its threads for products of 0.3 million multiplications (0.01 million with a vector), a few
microseconds of work, and they spin for 30 ms when it is done: beside other busy programs a training step took
18 times as long. Its bits depend on how many they are. So what is too large for it to stay on one thread
goes to a private copy of OpenBLAS (`native/products.py`), and what is large to the pieces that compiled code
runs, on all threads (`native/contraction.py`): 128 x 784 by 784 x 512 takes 0.4 ms there, 0.75 on one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jtorch.core import higher
from jtorch.core.library_threads import on_one_thread
from jtorch.core.op import ContractionAxes
from jtorch.core.products import matmul_axes

Array = np.ndarray

# Of multiplications: up to here OpenBLAS stays on one thread by itself. For a product with one row or
# column NumPy calls its routine for vectors (interface/gemm.c and gemv.c, GEMM_MULTITHREAD_THRESHOLD = 4).
_SERIAL, ALWAYS_SERIAL = 65536 * 4, 2304 * 4
_SHARED = 1 << 22  # from here on pieces of a product are worth more than the 1 us that they begin later
_SHARED_BATCH = 1 << 20  # and of a batch: 32 x 64 x 16 x 64 takes 22 to 36 us so, and NumPy 40 to 66
_RUN = 8192  # of a product of two vectors: up to 10,000 are serial (interface/dot.c)


def dot(x: Array, y: Array) -> Array:
    """``x.dot(y)`` of two matrices."""
    work = len(x) * y.size
    one_row, one_column = len(x) == 1, y.shape[1] == 1
    if work < ALWAYS_SERIAL or (work <= _SERIAL and not (one_row or one_column)):
        return x.dot(y)
    if one_row and one_column and x.size == y.size:
        return inner(x.reshape(-1), y.reshape(-1)).reshape(1, 1)
    run = _runners.get(x.dtype)
    if run is not None and work < _SHARED:
        out = np.empty((len(x), y.shape[1]), x.dtype)
        if not run(x, y, out):
            return out
    return _apart(x, y)


def affine(x: Array, y: Array, bias: Array) -> Array:
    """``x.dot(y) + bias`` of two matrices and a vector, which is added where the product is computed: what
    other cores wrote takes NumPy three times as long to add to.
    """
    if len(x) * y.size >= _SHARED:
        found = contract(matmul_axes(2, 2), x, y, bias)
        if found is not None:
            return found
    out = dot(x, y)
    return np.add(out, bias, out)


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


def matmul(x: Array, y: Array) -> Array:
    """``np.matmul(x, y)`` of matrices, or of batches of them."""
    work = x.shape[-2] * x.shape[-1] * y.shape[-1]
    if work < ALWAYS_SERIAL or (work <= _SERIAL and x.shape[-2] > 1 < y.shape[-1]):
        found = _together(x, y) if x.ndim > 2 and work >= ALWAYS_SERIAL else None
        return np.matmul(x, y) if found is None else found
    return _apart(x, y)


def _together(x: Array, y: Array) -> Array | None:
    """The product of many matrices that are small by themselves; None where NumPy is to compute it."""
    if x.size * y.shape[-1] < _SHARED_BATCH or _shape(x, y) is None:
        return None
    return contract(matmul_axes(x.ndim, y.ndim), x, y)


def contract(axes: ContractionAxes, x: Array, y: Array, bias: Array | None = None) -> Array | None:
    """The product along ``axes``, whatever layout the factors have, with ``bias`` added to its columns; None
    where NumPy must compute it."""
    return None if higher.products is None else higher.products().contract(axes, x, y, bias)


_runners: dict[np.dtype, Callable[[Array, Array, Array], int]] = {}
_asked: set[np.dtype] = set()


def _apart(x: Array, y: Array) -> Array:
    dtype = x.dtype
    if dtype not in _asked:
        run = None if higher.products is None else higher.products().runner(dtype)
        if run is not None:
            _runners[dtype] = run
        _asked.add(dtype)  # last: Ctrl-C may come before, and another thread would go without
    shape = _shape(x, y)
    if shape is not None:
        if math.prod(shape) * x.shape[-1] >= _SHARED:
            found = contract(matmul_axes(x.ndim, y.ndim), x, y)
            if found is not None:
                return found
        run = _runners.get(dtype)
        if run is not None:
            out = np.empty(shape, dtype)
            if _run(run, x, y, out):
                return out
    if x.ndim == 2 == y.ndim:
        return on_one_thread(x.dot, y)
    return on_one_thread(np.matmul, x, y)


def _shape(x: Array, y: Array) -> tuple[int, ...] | None:
    """Of the product; None where the leading axes are to be broadcast."""
    leading, other = x.shape[:-2], y.shape[:-2]
    if leading and other and leading != other:
        return None
    return (*(leading or other), x.shape[-2], y.shape[-1])


def _run(run: Callable[..., int], x: Array, y: Array, out: Array) -> bool:
    """False where it is not for ``run``: see ``runner`` in ``native/products.py``."""
    if out.ndim <= 3:
        return not run(x, y, out)
    of_x, of_y = x.ndim > 2, y.ndim > 2
    # a batch of batches goes one by one: laid out as one it might have to be copied
    return all(_run(run, x[k] if of_x else x, y[k] if of_y else y, out[k]) for k in range(len(out)))
