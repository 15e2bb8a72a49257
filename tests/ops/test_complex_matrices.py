"""Linear algebra of complex matrices: values, dtypes and gradients are PyTorch's.

Eigenvectors and singular vectors are compared by what does not depend on their phases.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch.autograd import gradcheck, gradgradcheck
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

_rng = np.random.default_rng(0)


def _z(*shape):
    return _rng.standard_normal(shape) + 1j * _rng.standard_normal(shape)


def _adjoint(x):
    return x.conj().swapaxes(-2, -1)


REGULAR, BATCH = _z(3, 3) + 3 * np.eye(3), _z(2, 1, 3, 3) + 3 * np.eye(3)
SYMMETRIC = BATCH + BATCH.swapaxes(-2, -1)
POSITIVE = BATCH @ _adjoint(BATCH)
FACTOR = np.linalg.cholesky(POSITIVE)[0, 0]
HOLLOW = _z(5, 5) * (1 - np.eye(5))
HOLLOW = HOLLOW + _adjoint(HOLLOW)  # its L D L^H has blocks of two rows
SINGULAR = np.outer(_z(3), _z(3))
TALL, WIDE = _z(2, 4, 3), _z(2, 2, 4)
RIGHT, VECTOR = _z(3, 2), _z(3)


def _hermitian(x):
    return (x + x.mH) / 2


def _projector(x):
    return x @ x.mH


CALLS = {
    "inv": (lambda L, x: L.linalg.inv(x), [BATCH]),
    "inv_ex": (lambda L, x: L.linalg.inv_ex(x), [BATCH]),
    "det": (lambda L, x: L.linalg.det(x), [BATCH]),
    "det of rank 2": (lambda L, x: L.linalg.det(x), [SINGULAR + np.outer(VECTOR, VECTOR)]),
    "slogdet": (lambda L, x: L.linalg.slogdet(x), [BATCH]),
    "logdet": (lambda L, x: L.logdet(x), [BATCH]),
    "solve": (lambda L, a, b: L.linalg.solve(a, b), [BATCH, RIGHT]),
    "solve vector": (lambda L, a, b: L.linalg.solve(a, b), [REGULAR, VECTOR]),
    "solve right": (lambda L, a, b: L.linalg.solve(a, b.mT, left=False), [REGULAR, RIGHT]),
    "solve_ex": (lambda L, a, b: L.linalg.solve_ex(a, b), [BATCH, RIGHT]),
    "solve_triangular": (lambda L, a, b: L.linalg.solve_triangular(a, b, upper=True), [BATCH, RIGHT]),
    "solve_triangular right": (
        lambda L, a, b: L.linalg.solve_triangular(a, b.mT, upper=False, left=False, unitriangular=True),
        [REGULAR, RIGHT],
    ),
    "triangular_solve": (lambda L, a, b: L.triangular_solve(b, a, transpose=True)[0], [REGULAR, RIGHT]),
    "cholesky": (lambda L, x: L.linalg.cholesky(x), [POSITIVE]),
    "cholesky upper": (lambda L, x: L.linalg.cholesky(_hermitian(x), upper=True), [POSITIVE]),
    "cholesky_ex": (lambda L, x: L.linalg.cholesky_ex(x), [POSITIVE]),
    "cholesky_ex unfinished": (lambda L, x: L.linalg.cholesky_ex(x.detach()).info, [SYMMETRIC]),
    "cholesky_solve": (lambda L, b, x: L.cholesky_solve(b, x.tril()), [RIGHT, REGULAR]),
    "cholesky_solve upper": (lambda L, b, x: L.cholesky_solve(b, x.triu(), upper=True), [RIGHT, REGULAR]),
    "cholesky_inverse": (lambda L, x: L.cholesky_inverse(x.tril()), [FACTOR]),
    "cholesky_inverse upper": (lambda L, x: L.cholesky_inverse(x.triu(), upper=True), [FACTOR]),
    "eigvalsh": (lambda L, x: L.linalg.eigvalsh(x), [POSITIVE]),
    "eigvalsh upper": (lambda L, x: L.linalg.eigvalsh(x.detach(), UPLO="U"), [BATCH]),
    "eigh values": (lambda L, x: L.linalg.eigh(x)[0], [POSITIVE]),
    "eigh vectors": (lambda L, x: _projector(L.linalg.eigh(x)[1][..., :2]), [POSITIVE]),
    "svdvals": (lambda L, x: L.linalg.svdvals(x), [TALL]),
    "svd left": (lambda L, x: _projector(L.linalg.svd(x, full_matrices=False).U[..., :1]), [TALL]),
    "svd right": (lambda L, x: _projector(L.linalg.svd(x, full_matrices=False).Vh.mH[..., :1]), [WIDE]),
    "svd both": (lambda L, x: (lambda u, s, vh: u[..., :2] @ vh[..., :2, :])(*L.linalg.svd(x)), [BATCH]),
    "svd full": (lambda L, x: L.linalg.svd(x).S, [TALL]),
    "svd old": (lambda L, x: _projector(x.svd().V[..., :1]), [WIDE]),
    "qr": (lambda L, x: L.linalg.qr(x), [TALL]),
    "qr wide": (lambda L, x: L.linalg.qr(x), [WIDE]),
    "qr square": (lambda L, x: L.linalg.qr(x), [REGULAR]),
    "qr complete": (lambda L, x: L.linalg.qr(x.detach(), "complete"), [TALL]),
    "lu_factor": (lambda L, x: L.linalg.lu_factor(x)[0], [BATCH]),
    "lu_factor_ex": (lambda L, x: L.linalg.lu_factor_ex(x), [BATCH]),
    "lu tall": (lambda L, x: L.linalg.lu(x), [TALL]),
    "lu wide": (lambda L, x: L.linalg.lu(x), [WIDE]),
    "lu_solve": (lambda L, x, b: L.linalg.lu_solve(*L.linalg.lu_factor(x), b), [BATCH, RIGHT]),
    "lu_solve adjoint": (
        lambda L, x, b: L.linalg.lu_solve(*L.linalg.lu_factor(x), b, adjoint=True), [REGULAR, RIGHT]
    ),
    "lu_solve right": (
        lambda L, x, b: L.linalg.lu_solve(*L.linalg.lu_factor(x), b.mT, left=False), [REGULAR, RIGHT]
    ),
    "pinv": (lambda L, x: L.linalg.pinv(x), [TALL]),
    "pinv wide": (lambda L, x: x.pinverse(), [WIDE]),
    "pinv hermitian": (lambda L, x: L.linalg.pinv(_hermitian(x), hermitian=True), [POSITIVE]),
    "pinv singular": (lambda L, a, b: L.linalg.pinv(a @ b.mH), [_z(4, 2), _z(3, 2)]),
    "matrix_rank": (lambda L, x: L.linalg.matrix_rank(x), [SINGULAR]),
    "matrix_rank hermitian": (lambda L, x: L.linalg.matrix_rank(x, hermitian=True), [POSITIVE]),
    "lstsq": (lambda L, a, b: L.linalg.lstsq(a, b).solution, [TALL, _z(2, 4, 1)]),
    "lstsq wide": (lambda L, a, b: L.linalg.lstsq(a, b)[0], [WIDE, _z(2, 2, 1)]),
    "lstsq residuals": (lambda L, a, b: L.linalg.lstsq(a, b, driver="gels")[:2], [TALL, _z(2, 4, 2)]),
    "lstsq gelsd": (
        lambda L, a, b: L.linalg.lstsq(a.detach(), b.detach(), driver="gelsd"), [TALL, _z(2, 4, 2)]
    ),
    "matrix_exp": (lambda L, x: L.linalg.matrix_exp(x), [BATCH / 3]),
    "matrix_power -2": (lambda L, x: L.linalg.matrix_power(x, -2), [BATCH]),
    "tensorinv": (lambda L, x: L.linalg.tensorinv(x, ind=1), [_z(6, 2, 3)]),
    "tensorsolve": (lambda L, x, y: L.linalg.tensorsolve(x, y), [_z(2, 3, 6), _z(2, 3)]),
    "ldl symmetric": (
        lambda L, x, b: L.linalg.ldl_solve(*L.linalg.ldl_factor(x.detach()), b.detach()), [SYMMETRIC, RIGHT]
    ),
    "ldl_factor hermitian": (lambda L, x: L.linalg.ldl_factor(x.detach(), hermitian=True), [HOLLOW]),
    "ldl hermitian": (
        lambda L, x, b: L.linalg.ldl_solve(
            *L.linalg.ldl_factor(x.detach(), hermitian=True), b.detach(), hermitian=True
        ),
        [HOLLOW, _z(5, 2)],
    ),
    "geqrf": (lambda L, x: L.geqrf(x.detach()), [TALL]),
    "householder_product": (lambda L, x, t: L.linalg.householder_product(x, t), [TALL, _z(2, 3)]),
    "ormqr": (lambda L, x, t, c: L.ormqr(x, t, c), [TALL, _z(2, 3), _z(2, 4, 2)]),
    "ormqr turned": (lambda L, x, t, c: L.ormqr(x, t, c, transpose=True), [_z(4, 3), _z(3), _z(4, 4)]),
    "ormqr right": (lambda L, x, t, c: x.ormqr(t, c, left=False), [TALL, _z(2, 3), _z(2, 2, 4)]),
    "ormqr right turned": (lambda L, x, t, c: L.ormqr(x, t, c, False, True), [_z(4, 3), _z(3), _z(1, 4)]),
} | {
    f"matrix_norm {p}": (lambda L, x, p=p: L.linalg.matrix_norm(x, p), [TALL])
    for p in ("fro", "nuc", math.inf, -1, 2)
} | {
    f"cond {p}": (lambda L, x, p=p: L.linalg.cond(x.detach(), p), [BATCH]) for p in (None, "fro", 1)
}  # fmt: skip


@needs_torch
@pytest.mark.filterwarnings("ignore:torch.(lu_solve|triangular_solve) is deprecated")
@each("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, rtol=1e-8, atol=1e-9)
    narrow = [a.astype(np.complex64) for a in arrays]
    compare(call, jtorch, torch, narrow, rtol=2e-3, atol=2e-4)


SMOOTH = [
    "inv", "det of rank 2", "slogdet", "solve right", "cholesky_solve", "cholesky_inverse upper", "svd both",
    "qr wide", "lu tall", "lu wide", "lu_solve adjoint", "pinv", "pinv singular", "lstsq residuals",
    "matrix_exp", "ormqr right turned",
]  # fmt: skip


@pytest.mark.slow
@each("name", SMOOTH)
def test_gradients_are_those_of_finite_differences(name):
    call, arrays = CALLS[name]
    inputs = [jtorch.tensor(a if a.ndim < 3 else a[0], requires_grad=True) for a in arrays]
    assert gradcheck(lambda *x: call(jtorch, *x), inputs, check_forward_ad=True)


@each("name", ["cholesky", "eigh vectors", "eigvalsh"])
def test_gradients_of_hermitian_matrices(name):
    call, arrays = CALLS[name]
    leaf = jtorch.tensor(arrays[0][0, 0], requires_grad=True)
    assert gradcheck(lambda x: call(jtorch, _hermitian(x)), [leaf])
    assert gradgradcheck(lambda x: call(jtorch, _hermitian(x)), [leaf])


@each("name", ["inv_ex", "svdvals", "lu_factor", "ormqr turned"])
def test_second_gradients(name):
    call, arrays = CALLS[name]
    inputs = [jtorch.tensor(a if a.ndim < 3 else a[0], requires_grad=True) for a in arrays]
    assert gradgradcheck(lambda *x: call(jtorch, *x), inputs)


@each("hermitian", [False, True])
def test_a_solution_by_ldl_factors_has_a_gradient(hermitian):
    factors = jtorch.linalg.ldl_factor(
        jtorch.tensor(HOLLOW if hermitian else SYMMETRIC[0, 0]), hermitian=hermitian
    )
    right = jtorch.tensor(_z(len(factors[0]), 2), requires_grad=True)
    assert gradcheck(lambda b: jtorch.linalg.ldl_solve(*factors, b, hermitian=hermitian), [right])


PHASES = {
    "eigh": lambda L, x: L.linalg.eigh(x)[1],
    "eig": lambda L, x: L.linalg.eig(x)[1],
    "svd left": lambda L, x: L.linalg.svd(x)[0],
    "svd right": lambda L, x: L.linalg.svd(x)[2],
}


@needs_torch
@each("name", PHASES)
def test_what_depends_on_phases_has_no_gradient(name):
    told = []
    for library in (torch, jtorch):
        x = library.tensor(REGULAR, requires_grad=True)
        with pytest.raises(RuntimeError) as error:
            (PHASES[name](library, x) * (1 + 2j)).imag.sum().backward()
        told.append(str(error.value))
    assert told[0] == told[1]


BAD = {
    "inv": lambda L: L.linalg.inv(L.zeros(2, 2, dtype=L.complex64)),
    "inv batch": lambda L: L.linalg.inv(L.zeros(2, 1, 2, 2, dtype=L.complex128)),
    "solve": lambda L: L.linalg.solve(L.zeros(2, 2, dtype=L.complex64), L.ones(2, dtype=L.complex64)),
    "solve of reals": lambda L: L.linalg.solve(L.eye(2, dtype=L.complex64), L.ones(2)),
    "cholesky": lambda L: L.linalg.cholesky(-L.eye(2, dtype=L.complex64)),
    "lu_factor": lambda L: L.linalg.lu_factor(L.zeros(2, 2, dtype=L.complex64)),
    "not square": lambda L: L.linalg.eigvalsh(L.zeros(2, 3, dtype=L.complex64)),
    "ormqr": lambda L: L.ormqr(L.ones(4, 3, dtype=L.complex64), L.ones(3), L.ones(4, 2)),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises(RuntimeError) as theirs:
        BAD[name](torch)
    with pytest.raises(RuntimeError) as ours:
        BAD[name](jtorch)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("shape", [(8, 5), (5, 8)])
def test_svd_lowrank_of_few_directions_is_exact(shape):
    low = _z(shape[0], 2) @ _z(2, shape[1])
    u, s, v = jtorch.svd_lowrank(jtorch.tensor(low), q=3)
    np.testing.assert_allclose(((u * s) @ v.mH).numpy(), low, atol=1e-10)


def test_compiled_functions_run_eagerly():
    x = jtorch.tensor(REGULAR)
    with pytest.raises(jtorch.errors.CompileError, match="complex"):
        jtorch.compile(lambda x: jtorch.linalg.inv(x), fullgraph=True)(x)
