"""Products of matrices as calls of cuBLAS.

cuBLAS walks a batch, rows, columns and terms, one axis each. What has more of them is one call for each
position of the axes that are left over; they are made by the same step, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from jtorch.compile.graph.access import Find
from jtorch.compile.graph.ir import Eqn, Var
from jtorch.compile.graph.products import product_of
from jtorch.core.errors import CompileError
from jtorch.core.products import BlasMatrix, Product, blas_matrices
from jtorch.native.cuda.blas import DTYPES

_PARTS = ("batch", "rows", "columns", "inner")


class Matrix(NamedTuple):
    """Where a matrix begins in its variable's memory, how it is walked, and from one of a batch to the next,
    all in elements."""

    begin: int
    walked: BlasMatrix
    apart: int


class Gemm(NamedTuple):
    """One call: matrices, rows, columns and terms; ``add``: to what is there."""

    sizes: tuple[int, int, int, int]
    x: Matrix
    y: Matrix
    out: Matrix
    add: bool
    exchanged: bool  # x is the second factor


class Calls(NamedTuple):
    """A product: its factors and its result, which begin at these elements of variables, and its calls.
    Without any, all of the result is zero."""

    dtype: np.dtype
    x: tuple[Var, int]
    y: tuple[Var, int]
    out: Var
    gemms: tuple[Gemm, ...]


def calls_of(eqn: Eqn, find: Find) -> Calls:
    """Raises CompileError for a product that cuBLAS cannot compute."""
    factors, (out,) = product_of(eqn, find), eqn.outputs
    assert factors is not None  # see graph/finalise.py
    x, y, product = factors
    if out.dtype not in DTYPES:
        raise CompileError(
            f"{eqn.source}: '{eqn.op.name}' of {out.dtype} on a CUDA device: only float32 and float64"
        )
    gemms = () if 0 in product.sizes else tuple(_gemms(product, eqn, (0, 0, 0), False))
    return Calls(out.dtype, (x.owner, x.offset), (y.owner, y.offset), out, gemms)


def _gemms(product: Product, eqn: Eqn, begins: tuple[int, int, int], add: bool) -> Iterator[Gemm]:
    for name in _PARTS:
        axes = getattr(product, name)
        if len(axes) > 1:
            inner = replace(product, **{name: axes[1:]})
            for k in range(axes[0].size):
                x, y, out = (begin + k * step for begin, step in zip(begins, axes[0][1:], strict=True))
                yield from _gemms(inner, eqn, (x, y, out), add or (name == "inner" and k > 0))
            return
    walked, exchanged = blas_matrices(product), False
    if walked is None:
        product, exchanged = product.exchanged(), True
        walked, begins = blas_matrices(product), (begins[1], begins[0], begins[2])
    if walked is None:
        raise CompileError(
            f"{eqn.source}: '{eqn.op.name}' on a CUDA device: lines of a factor overlap, as windows of a "
            "convolution do, or lie in an order that cuBLAS cannot walk"
        )
    apart = product.batch[0][1:] if product.batch else (0, 0, 0)
    x, y, out = map(Matrix, begins, walked, apart)
    yield Gemm(product.sizes, x, y, out, add, exchanged)
