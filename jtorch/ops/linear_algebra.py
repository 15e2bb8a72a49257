"""Solvers and determinants: library calls with closed-form gradients, over any number of batch axes.

Source of the gradients: M. Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008); for the Cholesky factor I. Murray, "Differentiation of the Cholesky
decomposition" (2016), arXiv:1602.07527.

Of complex matrices: what is holomorphic and has one output has the gradient of reals, see
``node.complex_class``; the others write out conjugates and say ``holomorphic=False``.
"""

from __future__ import annotations

import numpy as np

from jtorch.core.op import composite, opaque
from jtorch.ops.complex import is_complex, real_dtype
from jtorch.ops.contraction import swap

_INT = np.dtype(np.int64)
_INT32 = np.dtype(np.int32)


def dtype_of(x):
    """NumPy's dtype of an array, a traced one or a Tensor."""
    return getattr(x.dtype, "numpy", x.dtype)


def conjugate(xp, x):
    """``conj`` of complex numbers; reals are not touched."""
    return xp.conj(x) if is_complex(x) else x


def adjoint(xp, x):
    """The conjugate transposes of matrices."""
    return conjugate(xp, swap(xp, x))


def below(xp, x, diagonal):
    """``x`` with zeros above the ``diagonal``-th diagonal of its last two axes."""
    shape = tuple(x.shape)
    n = len(shape)
    row = xp.iota(shape=shape, axis=n - 2, dtype=_INT)
    column = xp.iota(shape=shape, axis=n - 1, dtype=_INT)
    return xp.where(xp.le(column, row + diagonal), x, 0.0)


def above(xp, x, diagonal):
    """``x`` with zeros below the ``diagonal``-th diagonal of its last two axes."""
    return swap(xp, below(xp, swap(xp, x), -diagonal))


def _column(xp, g):
    """One number per matrix, ready to scale matrices."""
    n = g.ndim
    return xp.unsqueeze(g, axes=(n, n + 1))


def _of_batch(*shapes, **_):
    return shapes[0][:-2]


@opaque(
    shape=lambda x: x,
    public=None,
    may_raise=True,
    holomorphic=False,
    grad_name="LinalgInvExBackward0",
    leads=True,
)
def inv(xp, x):
    return xp.inv(x)


@inv.vjp
def _(xp, g, out):
    return _inv_vjp(xp, g, out)


def _inv_vjp(xp, g, out):
    turned = adjoint(xp, out)
    return -xp.matmul(xp.matmul(turned, g), turned)


def _with_info(name):
    """A result and, for each matrix, LAPACK's info: 0 where all went well. A failure is no error."""
    return opaque(
        shape=lambda *shapes: (shapes[-1], shapes[0][:-2]),
        n_outputs=2,
        dtype=lambda dtypes, statics: (dtypes[0], _INT32),
        public=None,
        holomorphic=False,
        grad_name=name,
        leads=True,
    )


@_with_info("LinalgInvExBackward0")
def inv_ex(xp, x):
    return xp.inv_ex(x)


@inv_ex.vjp
def _(xp, g, out0):
    return _inv_vjp(xp, g[0], out0)


@opaque(
    shape=lambda x, y: y,
    public=None,
    may_raise=True,
    holomorphic=False,
    grad_name="LinalgSolveExBackward0",
    leads=True,
)
def solve(xp, x, y):
    return xp.solve(x, y)


@solve.vjp
def _(xp, g, x, out, needs):
    return _solve_vjp(xp, xp.solve(adjoint(xp, x), g), out, needs)


def _solve_vjp(xp, gy, out, needs):
    return -xp.matmul(gy, adjoint(xp, out)) if needs[0] else None, gy


@_with_info("LinalgSolveExBackward0")
def solve_ex(xp, x, y):
    return xp.solve_ex(x, y)


@solve_ex.vjp
def _(xp, g, x, out0, needs):
    return _solve_vjp(xp, xp.solve_ex(adjoint(xp, x), g[0])[0], out0, needs)


@opaque(
    shape=lambda x, y, lower, unit: y, public=None, grad_name="LinalgSolveTriangularBackward0", leads=True
)
def triangular_solve(xp, x, y, *, lower, unit):
    """``z`` with ``x z = y`` for triangular ``x``; the other triangle is not read."""
    return xp.triangular_solve(x, y, lower=lower, unit=unit)


@triangular_solve.vjp
def _(xp, g, x, out, lower, unit, needs):
    gy = xp.triangular_solve(swap(xp, x), g, lower=not lower, unit=unit)
    if not needs[0]:
        return None, gy
    gx = -xp.matmul(gy, swap(xp, out))
    return below(xp, gx, -int(unit)) if lower else above(xp, gx, int(unit)), gy


@opaque(
    shape=lambda x: x,
    public=None,
    may_raise=True,
    holomorphic=False,
    grad_name="LinalgCholeskyExBackward0",
    leads=True,
)
def cholesky(xp, x):
    """The lower factor of Hermitian positive-definite matrices; only their lower triangle is read."""
    return xp.cholesky(x)


@cholesky.vjp
def _(xp, g, out):
    return _cholesky_vjp(xp, g, out)


def _cholesky_vjp(xp, g, out):
    turned = adjoint(xp, out)
    inner = xp.matmul(turned, g)
    inner = 0.5 * (below(xp, inner, 0) + adjoint(xp, below(xp, inner, -1)))  # as if all of x were read
    left = xp.triangular_solve(turned, inner, lower=False, unit=False)
    return adjoint(xp, xp.triangular_solve(turned, adjoint(xp, left), lower=False, unit=False))


@_with_info("LinalgCholeskyExBackward0")
def cholesky_ex(xp, x):
    return xp.cholesky_ex(x)


@cholesky_ex.vjp
def _(xp, g, out0):
    return _cholesky_vjp(xp, g[0], out0)


@composite(public=None, holomorphic=False, grad_name="CholeskySolveBackward0", fuses=False)
def cholesky_solve(xp, y, factor):
    """``z`` with ``factor factor^H z = y`` for a lower ``factor``; its other triangle is not read."""
    half = xp.triangular_solve(factor, y, lower=True, unit=False)
    return xp.triangular_solve(adjoint(xp, factor), half, lower=False, unit=False)


@cholesky_solve.vjp
def _(xp, g, factor, out, needs):
    half = xp.triangular_solve(factor, g, lower=True, unit=False)
    gy = xp.triangular_solve(adjoint(xp, factor), half, lower=False, unit=False)
    if not needs[1]:
        return gy, None
    product = xp.matmul(gy, adjoint(xp, out))  # of the whole square, as in PyTorch
    return gy, -xp.matmul(product + adjoint(xp, product), below(xp, factor, 0))


@opaque(shape=_of_batch, public=None, grad_name="LinalgDetBackward0", leads=True)
def det(xp, x):
    return xp.det(x)


@det.vjp
def _(xp, g, x):
    return _column(xp, g) * swap(xp, xp.adjugate(x))


@opaque(shape=lambda x: x, public=None, leads=True)
def adjugate(xp, x):
    """det(x) inv(x), which exists for singular matrices, too."""
    return xp.adjugate(x)


@adjugate.vjp
def _(xp, g, x, out):
    n = x.ndim
    inverse = xp.inv(x)
    turned = swap(xp, inverse)
    inner = _column(xp, xp.sum(g * inverse, axis=(n - 2, n - 1), keepdims=False))
    scaled = _column(xp, xp.det(x)) * g
    return inner * swap(xp, out) - xp.matmul(xp.matmul(turned, scaled), turned)


@opaque(
    shape=lambda x: (x[:-2], x[:-2]),
    n_outputs=2,
    dtype=lambda dtypes, statics: (dtypes[0], real_dtype(dtypes[0])),
    public=None,
    holomorphic=False,
    grad_name="LinalgSlogdetBackward0",
    leads=True,
)
def slogdet(xp, x):
    """(the sign of the determinant, the logarithm of its absolute value)"""
    return xp.slogdet(x)


@slogdet.vjp
def _(xp, g, x):
    """The sign of a real determinant is constant. A complex one turns by i Im(tr(x^-1 dx)).

    Source: PyTorch's ``slogdet_backward``, torch/csrc/autograd/FunctionsManual.cpp
    """
    scale = g[1]
    if is_complex(x):
        sign, _ = xp.slogdet(x)
        scale = xp.make_complex(scale, xp.imag_part(xp.conj(sign) * g[0]))
    return _column(xp, scale) * conjugate(xp, xp.inv_transposed(x))


@opaque(shape=lambda x: x, public=None, leads=True)
def inv_transposed(xp, x):
    """The inverse of the transposed matrix; of a singular one what dividing by zero makes of it."""
    return xp.inv_transposed(x)


@inv_transposed.vjp
def _(xp, g, out):
    return -xp.matmul(xp.matmul(out, swap(xp, g)), out)


@opaque(shape=lambda x: x, public=None, grad_name="LinalgMatrixExpBackward0", leads=True)
def matrix_exp(xp, x):
    return xp.matrix_exp(x)


@matrix_exp.vjp
def _(xp, g, x):
    """The upper right block of exp([[x^T, g], [0, x^T]]).

    Source: R. Mathias, "A chain rule for matrix functions and applications" (1996)
    """
    n, k = x.ndim, x.shape[-1]
    turned = swap(xp, x)
    top = xp.cat(turned, g, axis=n - 1)
    bottom = xp.cat(xp.full(0.0, shape=tuple(x.shape), dtype=dtype_of(x)), turned, axis=n - 1)
    whole = xp.matrix_exp(xp.cat(top, bottom, axis=n - 2))
    start, stop = [0] * n, [*x.shape[:-2], k, 2 * k]
    start[-1] = k
    return xp.slice(whole, start=tuple(start), stop=tuple(stop), step=(1,) * n)


@opaque(
    shape=lambda x, checked: (x, (*x[:-2], min(x[-2:]))),
    n_outputs=2,
    dtype=lambda dtypes, statics: (dtypes[0], _INT32),
    public=None,
    may_raise=True,
    holomorphic=False,
    grad_name="LinalgLuFactorExBackward0",
    leads=True,
)
def lu_factor(xp, x, *, checked):
    """(L without its diagonal of ones and U in one matrix, the rows exchanged at each step from 1);
    ``checked`` for zeros on the diagonal of U"""
    return xp.lu_factor(x, checked=checked)


@lu_factor.vjp
def _(xp, g, out0, out1):
    """Of x = P L U, with U1 the square of U, and gU1 of its gradient:

    square or wide: P L^-H [(gU1 U1^H + tril(L^H gL - gU U^H, -1)) U1^-H, what is right of gU1]
    tall: P (gL + [L1^-H triu(gU U^H - L^H gL), 0]) U^-H, with L1 the square of L

    Source: PyTorch's derivation above ``plu_backward``, torch/csrc/autograd/FunctionsManual.cpp
    """
    g, n = g[0], out0.ndim
    rows, columns = out0.shape[-2:]
    k = min(rows, columns)
    square, upper = _part(xp, out0, (k, k)), _part(xp, above(xp, out0, 0), (k, columns))
    to_lower, to_upper = _part(xp, below(xp, g, -1), (rows, k)), _part(xp, above(xp, g, 0), (k, columns))
    by_lower = xp.matmul(_adjoint_lower(xp, _part(xp, out0, (rows, k))), to_lower)
    by_upper = xp.matmul(to_upper, adjoint(xp, upper))
    if rows > columns:
        inner = above(xp, by_upper - by_lower, 0)
        first = _part(xp, to_lower, (k, k)) + xp.triangular_solve(
            adjoint(xp, square), inner, lower=False, unit=True
        )
        left = xp.cat(first, _part(xp, to_lower, (rows, k), (k, 0)), axis=n - 2)
        both = _by_adjoint_inverse(xp, square, left)
    else:
        first = _part(xp, to_upper, (k, k))
        inner = xp.matmul(first, adjoint(xp, above(xp, square, 0))) + below(xp, by_lower - by_upper, -1)
        both = _by_adjoint_inverse(xp, square, inner)
        if columns > rows:
            both = xp.cat(both, _part(xp, to_upper, (k, columns), (0, k)), axis=n - 1)
        both = xp.triangular_solve(adjoint(xp, square), both, lower=False, unit=True)
    order = xp.row_order(out1, n=rows)
    places = xp.iota(shape=(*out0.shape[:-2], rows, rows), axis=n - 1, dtype=_INT)
    moved = xp.cast(xp.eq(places, xp.unsqueeze(order, axes=(n - 1,))), dtype=dtype_of(g))  # x[order] = L U
    return xp.matmul(swap(xp, moved), both)


def _part(xp, x, stop, start=(0, 0)):
    """Each matrix between these rows and columns."""
    batch = tuple(x.shape[:-2])
    start, step = (*[0] * len(batch), *start), (1,) * x.ndim
    return xp.slice(x, start=start, stop=(*batch, *stop), step=step)


def _by_adjoint_inverse(xp, upper, x):
    """x U^-H for the upper triangle U."""
    return adjoint(xp, xp.triangular_solve(upper, adjoint(xp, x), lower=False, unit=False))


def _adjoint_lower(xp, lu):
    lower = below(xp, lu, -1)
    n = lower.ndim
    row = xp.iota(shape=tuple(lower.shape), axis=n - 2, dtype=_INT)
    column = xp.iota(shape=tuple(lower.shape), axis=n - 1, dtype=_INT)
    return adjoint(xp, lower + xp.cast(xp.eq(row, column), dtype=dtype_of(lower)))


@opaque(
    shape=lambda pivots, n: (*pivots[:-1], n),
    dtype=lambda dtypes, statics: _INT,
    public=None,
    differentiable=False,
    leads=True,
)
def row_order(xp, pivots, *, n):
    """The permutation of ``n`` rows that a list of exchanges makes."""
    return xp.row_order(pivots, n=n)
