"""Which kernel computes a product, and what it is told."""

from __future__ import annotations

import numpy as np
import pytest

from jtorch.compile.graph.access import Layout
from jtorch.compile.graph.ir import Type, Var
from jtorch.compile.graph.products import Axis, Product
from jtorch.compile.run.products import call_of
from jtorch.native import blas

F4 = np.dtype(np.float32)


def product(batch, rows, columns, inner):
    """Of row-major factors."""
    at = Layout(Var(Type(F4, (1,))), 0, (1,))
    return Product(
        at, at, (Axis(batch, rows * inner, inner * columns, rows * columns),) if batch > 1 else (),
        (Axis(rows, inner, 0, columns),), (Axis(columns, 0, 1, 1),), (Axis(inner, 1, columns, 0),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "own"),
    [
        ((1, 256, 256, 256), True), ((50, 200, 200, 200), True), ((1, 64, 512, 512), True),
        # thin ones, and many small ones: BLAS takes a half to a tenth of the time
        ((1, 64, 64, 64), False), ((1, 32, 512, 512), False), ((20000, 2, 2, 3), False),
        ((5000, 8, 8, 8), False),
        ((1, 100000, 4, 4), False), ((1, 1000000, 1, 4), False), ((1, 4, 4, 1000000), False),
        ((1, 1500, 1, 1500), False), ((1, 1500, 4, 1500), False), ((1, 1, 1500, 1500), False),
        ((64, 1, 256, 256), False),
    ],
)  # fmt: skip
def test_our_own_kernel_is_for_matrices_that_are_large_and_not_thin(sizes, own):
    if not blas.is_private():
        pytest.skip("SciPy's BLAS computes all that it can walk")
    assert (call_of(product(*sizes), F4).shared is not None) is own


def test_what_blas_cannot_walk_is_our_own():
    thin = product(1, 1500, 1, 1500)
    apart = thin.rows[0]._replace(in_x=0)
    repeated = Product(thin.x, thin.y, (), (apart,), thin.columns, thin.inner)
    assert call_of(repeated, F4).shared is not None
