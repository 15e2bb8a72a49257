"""Samples: solvers, decompositions, norms. Matrices are well conditioned, spectra without near "
"repetitions."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.sampling import Sample, entry


def _regular(draw, *shape):
    return draw.floats(*shape, low=-0.5, high=0.5) + 2 * np.eye(shape[-2], shape[-1])


def _positive(draw, *shape):
    x = draw.floats(*shape)
    return x @ x.swapaxes(-2, -1) + 2 * np.eye(shape[-1])


def _spread(draw, *shape):
    """Singular values 1, 2, 3... apart."""
    k = min(shape[-2:])
    left = np.linalg.qr(draw.floats(*shape[:-1], k))[0]
    right = np.linalg.qr(draw.floats(*shape[:-2], shape[-1], k))[0]
    return (left * np.arange(k, 0, -1.0)) @ right.swapaxes(-2, -1)


@entry("inv", "inv_ex", "inv_transposed", "det", "adjugate", "slogdet", "matrix_exp")
def _(draw):
    return [Sample((_regular(draw, *s),)) for s in [(3, 3), (2, 2, 2), (1, 1), (2, 1, 3, 3)]]


@entry("solve", "solve_ex")
def _(draw):
    return [
        Sample((_regular(draw, 3, 3), draw.floats(3, 2))),
        Sample((_regular(draw, 2, 2, 2), draw.floats(2, 2, 1))),
    ]


@entry("cholesky_solve")
def _(draw):
    return [  # the factor's gradient is that of factor factor^T, as in PyTorch, and no triangle's
        Sample((draw.floats(3, 2), _regular(draw, 3, 3)), constant=(1,)),
        Sample((draw.floats(2, 2, 1), _regular(draw, 2, 2, 2)), constant=(1,)),
    ]


@entry("triangular_solve")
def _(draw):
    return [
        Sample((_regular(draw, 3, 3), draw.floats(3, 2)), {"lower": True, "unit": False}),
        Sample((_regular(draw, 2, 2, 2), draw.floats(2, 2, 1)), {"lower": False, "unit": False}),
        Sample((_regular(draw, 3, 3), draw.floats(3, 2)), {"lower": False, "unit": True}),
    ]


@entry("cholesky", "cholesky_ex")
def _(draw):
    return [Sample((_positive(draw, *s),), symmetric=True) for s in [(3, 3), (2, 2, 2)]]


@entry("eigh", "eigvalsh")
def _(draw):
    found = []
    for shape in [(3, 3), (2, 2, 2)]:
        turn = np.linalg.qr(draw.floats(*shape))[0]
        values = np.arange(1.0, shape[-1] + 1)
        found.append(Sample(((turn * values) @ turn.swapaxes(-2, -1),), symmetric=True))
    return found


@entry("eig")
def _(draw):
    found = []
    for shape in [(3, 3), (2, 2, 2)]:
        basis = _spread(draw, *shape)
        values = np.arange(1.0, shape[-1] + 1)
        found.append(Sample((np.linalg.solve(basis, values[..., None] * basis),)))
    return found


@entry("svd")
def _(draw):
    shapes = [(3, 3), (4, 2), (2, 3), (2, 3, 2)]
    return [Sample((_spread(draw, *s),), {"full": False}) for s in shapes] + [
        Sample((_spread(draw, 3, 3),), {"full": True})
    ]


@entry("svdvals")
def _(draw):
    return [Sample((_spread(draw, *s),)) for s in [(3, 3), (4, 2), (2, 3), (2, 3, 2)]]


@entry("qr")
def _(draw):
    return [
        Sample((_regular(draw, *s),), {"complete": False}) for s in [(3, 3), (4, 2), (2, 4), (2, 3, 2)]
    ] + [Sample((_regular(draw, 2, 3),), {"complete": True})]


@entry("pinv")
def _(draw):
    return [
        Sample((_spread(draw, *s), 0.0, 1e-10), {"hermitian": False})
        for s in [(3, 3), (4, 2), (2, 3), (2, 3, 2)]
    ]


@entry("lu_factor")
def _(draw):
    return [
        Sample((_regular(draw, *s)[..., ::-1, :].copy(),), {"checked": checked})
        for s, checked in [((3, 3), True), ((2, 2, 2), False), ((4, 2), True), ((2, 2, 3), False)]
    ]


@entry("row_order")
def _(draw):
    return [
        Sample((np.array([3, 2, 3], np.int32),), {"n": 3}),
        Sample((np.array([[2, 2], [1, 3]], np.int32),), {"n": 4}),
    ]


@entry("vector_norm")
def _(draw):
    facts = [(2.0, (0,), False), (1.0, (1,), True), (3.0, (0, 1), False), (1.5, (1,), False),
             (math.inf, (0,), False), (-math.inf, (1,), True), (-2.0, (1,), False)]  # fmt: skip
    return [
        Sample((draw.apart(3, 4),), {"order": order, "axis": axis, "keepdims": keep})
        for order, axis, keep in facts
    ]


@entry("geqrf")
def _(draw):
    return [Sample((draw.floats(*s),)) for s in [(3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 2)]]


@entry("reflected")
def _(draw):
    shapes = [((4, 3), 3, 2), ((4, 3), 2, 4), ((2, 3, 2), 2, 1), ((3, 0), 0, 2)]
    return [
        Sample(
            (draw.floats(*s), draw.floats(*s[:-2], k), draw.floats(*s[:-1], n)), {"transposed": transposed}
        )
        for s, k, n in shapes
        for transposed in (False, True)
    ]


def _symmetric(draw, *shape):
    x = draw.floats(*shape)
    x = x + x.swapaxes(-2, -1)
    np.einsum("...ii->...i", x)[...] = 0.0  # blocks of two rows
    return x


@entry("ldl_factor")
def _(draw):
    shapes = [((3, 3), True), ((4, 4), False), ((2, 2, 2), False), ((0, 0), True)]
    return [
        Sample((_symmetric(draw, *s),), {"hermitian": False, "checked": checked}) for s, checked in shapes
    ]


@entry("ldl_solve")
def _(draw):
    found = []
    for shape, pivots in [((4, 4), [1, -4, -4, 4]), ((2, 2, 2), [[1, 2], [-2, -2]])]:
        factors = np.tril(draw.floats(*shape) + 3 * np.eye(shape[-1]))
        right = draw.floats(*shape[:-1], 3)
        arrays = (factors, np.array(pivots, np.int32), right)
        found += [Sample(arrays, {"hermitian": hermitian}, constant=(0,)) for hermitian in (False, True)]
    return found


@entry("real_diagonal")
def _(draw):
    return [Sample((draw.floats(*s),), {"message": "turned"}) for s in [(3, 3), (2, 2, 2), (0, 0)]]
