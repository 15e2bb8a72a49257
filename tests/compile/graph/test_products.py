"""Products as strides: which axes a kernel is told of, and which ones BLAS can walk."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.products import product_of
from jtorch.core.products import Axis, Product, blas_matrices
from tests.compile.chain import optimised, trace


def walked(x, y, sizes):
    """How BLAS walks factors with these (down, right) strides and (rows, columns, inner) sizes."""
    rows, columns, inner = sizes
    down, right = (Axis(rows, x[0], 0, columns),), (Axis(columns, 0, y[1], 1),)
    found = blas_matrices(Product((), down, right, (Axis(inner, x[1], y[0], 0),)))
    assert found is None or found.out == (False, max(columns, 1))
    return found and tuple(tuple(f) for f in found[:2])


@pytest.mark.parametrize(
    ("x", "y", "sizes", "expected"),
    [
        ((3, 1), (4, 1), (2, 4, 3), ((False, 3), (False, 4))),
        ((1, 2), (4, 1), (2, 4, 3), ((True, 2), (False, 4))),
        ((7, 1), (1, 9), (2, 4, 3), ((False, 7), (True, 9))),
        ((0, 1), (4, 1), (2, 4, 3), None),
        ((6, 2), (4, 1), (2, 4, 3), None),
        ((-3, 1), (4, 1), (2, 4, 3), None),
        ((3, -1), (4, 1), (2, 4, 3), None),
        ((3, 1), (4, 1), (0, 4, 3), ((False, 3), (False, 4))),
        ((99, 1), (4, 1), (1, 4, 3), ((False, 3), (False, 4))),
        ((99, 5), (4, 1), (1, 4, 3), ((True, 5), (False, 4))),
        ((3, 99), (99, 1), (2, 4, 1), ((False, 3), (False, 4))),
        ((3, 1), (5, 99), (2, 1, 3), ((False, 3), (False, 5))),
    ],
)
def test_what_blas_can_walk(x, y, sizes, expected):
    assert walked(x, y, sizes) == expected


def product(function, *arrays):
    with jtorch.no_grad():
        graph = finalise(optimised(trace(function, [jtorch.from_numpy(a) for a in arrays]).graph))
    made_by = {v: e for e in graph.eqns for v in e.outputs}
    (eqn,) = [e for e in graph.eqns if e.op.contracted is not None]
    return product_of(eqn, made_by.get).product


def zeros(*shape):
    return np.zeros(shape, np.float32)


def test_axes_that_lie_one_in_another_are_one():
    found = product(lambda x, w: x @ w, zeros(5, 7, 3), zeros(3, 4))
    assert found.sizes == (1, 35, 4, 3) and found.flops == 2 * 35 * 4 * 3
    assert (found.batch, found.rows, found.columns) == ((), (Axis(35, 3, 0, 4),), (Axis(4, 0, 1, 1),))


def test_heads_of_attention_are_axes_of_the_batch():
    def scores(q, k):
        q, k = (t.view(2, 6, 3, 4).transpose(1, 2) for t in (q, k))
        return q @ k.transpose(-1, -2)

    found = product(scores, zeros(2, 6, 12), zeros(2, 6, 12))
    assert found.batch == (Axis(2, 72, 72, 108), Axis(3, 4, 4, 36))
    assert (found.rows, found.columns) == ((Axis(6, 12, 0, 6),), (Axis(6, 0, 12, 1),))
    assert blas_matrices(found) is None


def test_windows_of_images_are_axes():
    weight = jtorch.zeros(4, 3, 2, 2)
    found = product(lambda x: jtorch.conv2d(x, weight), zeros(5, 3, 6, 6))
    assert found.sizes == (1, 4, 5 * 25, 12)
    assert found.columns == (Axis(5, 0, 108, 100), Axis(5, 0, 6, 5), Axis(5, 0, 1, 1))
    assert found.inner == (Axis(3, 4, 36, 0), Axis(2, 2, 6, 0), Axis(2, 1, 1, 0))


def test_a_single_row_and_repeated_ones():
    found = product(lambda x, w: x[:1].expand(5, 3) @ w, zeros(2, 3), zeros(3, 4))
    assert found.rows == (Axis(5, 0, 0, 4),) and blas_matrices(found) is None
    assert product(lambda x, w: x @ w, zeros(1, 1), zeros(1, 1)).sizes == (1, 1, 1, 1)
