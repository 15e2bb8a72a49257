"""A product of matrices as memory: where its factors lie along its batch, rows, columns and inner axis.

Each of the four is a list of axes, as few as strides allow: windows of images, permuted axes and repeated
ones are axes like others, so that a factor is never copied for its layout. Strides are in elements.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jtorch.core.op import ContractionAxes

MOST_AXES = 6
"""Axes that each part of a product may have."""

Sizes = Sequence[int]


class Axis(NamedTuple):
    """Its size, and how many elements of the factors and of the result are from one position to the next."""

    size: int
    in_x: int
    in_y: int
    in_out: int


@dataclass(frozen=True, slots=True)
class Product:
    """The axes of a product of two factors, whose result has memory of its own."""

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    sizes: tuple[int, int, int, int] = field(init=False, repr=False, compare=False)
    """How many matrices, rows, columns, and products per element of the result."""

    def __post_init__(self) -> None:
        sizes = tuple(_number(part) for part in (self.batch, self.rows, self.columns, self.inner))
        object.__setattr__(self, "sizes", sizes)

    def exchanged(self) -> Product:
        """The same with the factors, and so rows and columns, exchanged."""

        def parts(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
            return tuple(Axis(a.size, a.in_y, a.in_x, a.in_out) for a in axes)

        return Product(*map(parts, (self.batch, self.columns, self.rows, self.inner)))

    @property
    def rows_overlap(self) -> bool:
        """Whether x surely holds the same elements several times, as windows of whole images do."""
        return _overlap((axis.size, axis.in_x) for axis in (*self.rows, *self.inner))

    @property
    def columns_overlap(self) -> bool:
        """The same of y."""
        return _overlap((axis.size, axis.in_y) for axis in (*self.columns, *self.inner))

    @property
    def flops(self) -> int:
        return 2 * math.prod(self.sizes)


def _number(axes: Sequence[Axis]) -> int:
    number = 1
    for axis in axes:
        number *= axis.size
    return number


def _overlap(axes: Iterable[tuple[int, int]]) -> bool:
    positions = reach = 1
    for size, stride in axes:
        if size > 1:
            positions *= size
            reach += (size - 1) * abs(stride)
    return positions > reach


def product_of_layouts(
    axes: ContractionAxes, x: tuple[Sizes, Sizes], y: tuple[Sizes, Sizes], out: Sizes
) -> Product | None:
    """The product of factors of which shape and strides are given, and of the result its strides; None where
    it has too many axes, which factors in row-major memory of their own never have.
    """
    (x_shape, x_strides), (y_shape, y_strides) = x, y
    in_out = iter(out[axes.out.index(k)] for k in range(len(axes.out)))

    def axis(k: int | None, n: int | None, in_out: int) -> Axis:
        size = x_shape[k] if k is not None else y_shape[n] if n is not None else 1
        return Axis(size, 0 if k is None else x_strides[k], 0 if n is None else y_strides[n], in_out)

    parts = (
        [axis(k, n, next(in_out)) for k, n in axes.batch], [axis(k, None, next(in_out)) for k in axes.rows],
        [axis(None, n, next(in_out)) for n in axes.columns], [axis(k, n, 0) for k, n in axes.inner],
    )  # fmt: skip
    merged = [merge(part) for part in parts]
    return None if max(map(len, merged)) > MOST_AXES else Product(*merged)


def merge(axes: list[Axis]) -> tuple[Axis, ...]:
    """The same elements in the same order by fewer axes."""
    out: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        before = out[-1] if out else None
        if before and before[1:] == tuple(stride * axis.size for stride in axis[1:]):
            out[-1] = Axis(before.size * axis.size, *axis[1:])
        else:
            out.append(axis)
    return tuple(out)


class BlasMatrix(NamedTuple):
    """How BLAS walks a matrix: as it is or transposed, with a leading dimension, in elements."""

    transposed: bool
    leading: int


class BlasMatrices(NamedTuple):
    """The factors and the result, which is never transposed."""

    x: BlasMatrix
    y: BlasMatrix
    out: BlasMatrix


def blas_matrices(product: Product) -> BlasMatrices | None:
    """The product as BLAS can walk it; None where it cannot."""
    parts = (product.batch, product.rows, product.columns, product.inner)
    if max(map(len, parts)) > 1:
        return None
    _, rows, columns, inner = product.sizes
    # the stride of a single position, or of none, does not matter
    down, right, deep = (part[0] if part else Axis(1, 0, 0, 0) for part in parts[1:])
    x, y = _walked(rows, inner, down.in_x, deep.in_x), _walked(inner, columns, deep.in_y, right.in_y)
    out = _walked(rows, columns, down.in_out, right.in_out)
    if x is None or y is None or out is None or out.transposed:
        return None
    return BlasMatrices(x, y, out)


def _walked(rows: int, columns: int, down: int, right: int) -> BlasMatrix | None:
    if 0 in (rows, columns):
        return BlasMatrix(False, max(columns, 1))
    for transposed, (n, m, leading, step) in (
        (False, (rows, columns, down, right)), (True, (columns, rows, right, down)),
    ):  # fmt: skip
        leading = m if n == 1 else leading
        if leading >= m and (m == 1 or step == 1):
            return BlasMatrix(transposed, leading)
    return None


@functools.cache
def matmul_axes(x: int, y: int) -> ContractionAxes:
    """What ``matmul`` of factors with ``x`` and ``y`` axes does with them."""
    n = max(x, y) - 2
    rows, columns = x - 2, y - 1
    if x > 2 and y == 2:  # one product over all rows
        return ContractionAxes((), tuple(range(x - 1)), (columns,), ((x - 1, 0),), tuple(range(x)))
    batch = tuple((k if x > 2 else None, k) for k in range(n))
    return ContractionAxes(batch, (rows,), (columns,), ((x - 1, y - 2),), tuple(range(n + 2)))


Pair = tuple[tuple[int, ...], tuple[int, ...]]


def free_axes(ndim: int, batch: Sequence[int], inner: Sequence[int]) -> tuple[int, ...]:
    """The axes of a factor that are neither in ``batch`` nor in ``inner``."""
    return tuple(k for k in range(ndim) if k not in batch and k not in inner)


@functools.cache
def dot_general_axes(x: int, y: int, batch: Pair, inner: Pair, order: tuple[int, ...]) -> ContractionAxes:
    """What ``dot_general`` of factors with ``x`` and ``y`` axes does with them."""
    rows, columns = (free_axes(n, batch[k], inner[k]) for k, n in enumerate((x, y)))
    together, summed = (tuple(zip(*both, strict=True)) for both in (batch, inner))
    return ContractionAxes(together, rows, columns, summed, order)
