"""Products of matrices as calls of cuBLAS.

cuBLAS walks a batch, rows, columns and terms, one axis each. What has more of them is one call for each
position of the axes that are left over; they are made by the same step, one after the other. A factor whose
lines overlap, as windows of images do, is copied first, so that they lie side by side. A result of 16 bits is
rounded once: where several calls would add to it, the factors are copied.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.graph.access import Find
from jtorch.compile.graph.ir import Eqn, Var
from jtorch.compile.graph.products import product_of
from jtorch.compile.run.cuda_gather import gather
from jtorch.core.dtypes import HALVES
from jtorch.core.errors import CompileError
from jtorch.core.products import Axis, BlasMatrix, Product, blas_matrices, merge
from jtorch.native.cuda.blas import DTYPES, Factor
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.memory import Buffer

_PARTS = ("batch", "rows", "columns", "inner")
_CALL = (
    1 << 21
)  # bytes that are copied while a call of cuBLAS begins: 5 us, a guess that no device has checked


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


class Copied(NamedTuple):
    """Elements along these axes, which are copied side by side."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def items(self) -> int:
        return math.prod(self.sizes)


class Calls(NamedTuple):
    """A product: its factors and its result, which begin at these elements of variables, and its calls.
    Without any, all of the result is zero. ``copies``: of x and y, which the calls walk instead of them."""

    dtype: np.dtype  # of the factors
    x: tuple[Var, int]
    y: tuple[Var, int]
    out: Var
    gemms: tuple[Gemm, ...]
    copies: tuple[Copied | None, Copied | None] = (None, None)

    @property
    def copied_bytes(self) -> int:
        return self.dtype.itemsize * sum(copy.items for copy in self.copies if copy)


def calls_of(eqn: Eqn, find: Find) -> Calls:
    """Raises CompileError for a product that cuBLAS cannot compute."""
    factors, (out,) = product_of(eqn, find), eqn.outputs
    assert factors is not None  # see graph/finalise.py
    x, y, product = factors
    dtype = eqn.inputs[0].dtype
    if (dtype, out.dtype) not in DTYPES:
        raise CompileError(
            f"{eqn.source}: '{eqn.op.name}' of {dtype} to {out.dtype} on a CUDA device: cuBLAS has none"
        )
    calls = Calls(dtype, (x.owner, x.offset), (y.owner, y.offset), out, ())
    if 0 in product.sizes:
        return calls
    ways = [_walking(calls, product, *which) for which in itertools.product((False, True), repeat=2)]
    rounds = out.dtype in HALVES  # and would do so between parts of a sum
    known = [way for way in ways if way is not None and not (rounds and any(g.add for g in way.gemms))]
    if not known:
        raise CompileError(
            f"{eqn.source}: '{eqn.op.name}' on a CUDA device: cuBLAS knows no result in such an order"
        )
    return min(known, key=lambda way: _CALL * len(way.gemms) + way.copied_bytes)


def _walking(calls: Calls, product: Product, of_x: bool, of_y: bool) -> Calls | None:
    """With copies of these factors; None where cuBLAS cannot walk the others."""
    product, x_copy = _copied(product, "in_x", "rows") if of_x else (product, None)
    product, y_copy = _copied(product, "in_y", "columns") if of_y else (product, None)
    try:
        return calls._replace(gemms=tuple(_gemms(product, (0, 0, 0), False)), copies=(x_copy, y_copy))
    except _NotWalkedError:
        return None


class _NotWalkedError(Exception):
    """cuBLAS knows no matrices that lie so."""


def _copied(product: Product, factor: str, free: str) -> tuple[Product, Copied]:
    """The product with a copy of a factor, x or y: all its elements but those that a batch repeats, terms
    before rows or columns, along which neighbours are read and written by neighbouring threads."""
    parts: dict[str, list[Axis]] = {"batch": [], "inner": [], free: []}
    sizes, strides, step = list[int](), list[int](), 1
    for name in (free, "inner", "batch"):
        for axis in reversed(getattr(product, name)):
            stride = getattr(axis, factor)
            if stride or name != "batch":
                axis, step = axis._replace(**{factor: step}), step * axis.size
                sizes.insert(0, axis.size)
                strides.insert(0, stride)
            parts[name].insert(0, axis)
    merged: dict[str, Any] = {name: merge(axes) for name, axes in parts.items()}
    return replace(product, **merged), Copied(tuple(sizes), tuple(strides))


def _gemms(product: Product, begins: tuple[int, int, int], add: bool) -> Iterator[Gemm]:
    for name in _PARTS:
        axes = getattr(product, name)
        if len(axes) > 1:
            inner = replace(product, **{name: axes[1:]})
            if name in ("rows", "columns") and not product.batch:
                yield from _gemms(replace(inner, batch=axes[:1]), begins, add)
                return
            for k in range(axes[0].size):
                x, y, out = (begin + k * step for begin, step in zip(begins, axes[0][1:], strict=True))
                yield from _gemms(inner, (x, y, out), add or (name == "inner" and k > 0))
            return
    walked, exchanged = blas_matrices(product), False
    if walked is None:
        product, exchanged = product.exchanged(), True
        walked, begins = blas_matrices(product), (begins[1], begins[0], begins[2])
    if walked is None:
        raise _NotWalkedError
    apart = product.batch[0][1:] if product.batch else (0, 0, 0)
    x, y, out = map(Matrix, begins, walked, apart)
    yield Gemm(product.sizes, x, y, out, add, exchanged)


def multiply(calls: Calls, device: Device, address: Callable[[Var], int], copied: Buffer, tf32: bool) -> None:
    """Put a product into the device's stream. ``address`` tells where variables begin; copies of factors go
    to ``copied``; ``tf32``: whether they may be rounded to it."""
    out, nbytes, dtypes = address(calls.out), calls.dtype.itemsize, (calls.dtype, calls.out.dtype)
    if not calls.gemms:
        device.clear(out, calls.out.type.nbytes)
        return
    at, places = copied.address, []
    for (var, begin), copy in zip((calls.x, calls.y), calls.copies, strict=True):
        place = address(var) + nbytes * begin
        if copy is not None:
            gather(device, at, place, *copy, nbytes)
            place, at = at, at + nbytes * copy.items
        places.append(place)
    x, y = places
    for gemm in calls.gemms:
        bases = (y, x, out) if gemm.exchanged else (x, y, out)
        widths = (nbytes, nbytes, calls.out.dtype.itemsize)
        factors = [
            Factor(base + width * matrix.begin, *matrix.walked, matrix.apart)
            for base, width, matrix in zip(bases, widths, (gemm.x, gemm.y, gemm.out), strict=True)
        ]
        device.blas.gemm(dtypes, gemm.sizes, factors[0], factors[1], factors[2], gemm.add, tf32)
