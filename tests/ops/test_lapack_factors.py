"""LU, L D L^T and Householder's reflections as LAPACK keeps them, and approximate factors,
against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.autograd import gradcheck, gradgradcheck
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)


def _r(*shape):
    return RNG.standard_normal(shape)


def _symmetric(*shape):
    x = _r(*shape)
    return x + x.swapaxes(-2, -1)


REGULAR = _r(3, 3) + 3 * np.eye(3)
BATCH = _r(2, 1, 3, 3) + 3 * np.eye(3)
HOLLOW = _symmetric(5, 5) * (1 - np.eye(5))
SINGULAR = np.array([np.ones((3, 3)), np.diag([1.0, 0, 2]), np.eye(3)])
TALL, WIDE = _r(2, 4, 3), _r(2, 2, 4)
RIGHT = _r(3, 2)

CALLS = {
    "lu_factor_ex": (lambda L, x: L.linalg.lu_factor_ex(x), [BATCH]),
    "lu_factor_ex of singular ones": (lambda L, x: L.linalg.lu_factor_ex(x.detach()), [SINGULAR]),
    "lu_factor_ex tall": (lambda L, x: L.linalg.lu_factor_ex(x.detach(), check_errors=True), [TALL]),
    "lu_solve adjoint": (
        lambda L, x, b: L.linalg.lu_solve(*L.linalg.lu_factor(x), b, adjoint=True), [REGULAR, RIGHT]
    ),
    "lu_solve right": (
        lambda L, x, b: L.linalg.lu_solve(*L.linalg.lu_factor(x), b.mT, left=False), [REGULAR, RIGHT]
    ),
    "lu_solve right adjoint": (
        lambda L, x, b: L.linalg.lu_solve(*L.linalg.lu_factor(x), b.mT, left=False, adjoint=True),
        [BATCH, RIGHT],
    ),
    "lu_solve old": (lambda L, x, b: b.lu_solve(*L.linalg.lu_factor(x)), [REGULAR, RIGHT]),
    "lu_unpack": (lambda L, x: L.lu_unpack(*L.linalg.lu_factor(x)), [BATCH]),
    "lu_unpack of one": (
        lambda L, x: L.lu_unpack(*L.linalg.lu_factor(x), unpack_pivots=False)[1:], [REGULAR]
    ),
    "triangular_solve": (lambda L, x, b: L.triangular_solve(b, x)[0], [REGULAR, RIGHT]),
    "triangular_solve turned": (
        lambda L, x, b: b.triangular_solve(x, upper=False, transpose=True, unitriangular=True).solution,
        [REGULAR, RIGHT],
    ),
    "ldl_factor": (lambda L, x: L.linalg.ldl_factor(x.detach()), [_symmetric(2, 4, 4)]),
    "ldl_factor in blocks": (lambda L, x: L.linalg.ldl_factor(x.detach(), hermitian=True), [HOLLOW]),
    "ldl_factor_ex": (lambda L, x: L.linalg.ldl_factor_ex(x.detach()), [SINGULAR]),
    "ldl_solve": (
        lambda L, x, b: L.linalg.ldl_solve(*L.linalg.ldl_factor(x.detach()), b.detach()), [HOLLOW, _r(5, 3)]
    ),
    "ldl_solve batch": (
        lambda L, x, b: L.linalg.ldl_solve(*L.linalg.ldl_factor(x.detach()), b.detach()),
        [_symmetric(2, 3, 3), _r(2, 3, 1)],
    ),
    "geqrf": (lambda L, x: L.geqrf(x.detach()), [TALL]),
    "geqrf wide": (lambda L, x: x.detach().geqrf(), [WIDE]),
    "householder_product": (lambda L, x, t: L.linalg.householder_product(x, t), [TALL, _r(2, 3)]),
    "householder_product of few": (lambda L, x, t: L.orgqr(x, t), [TALL, _r(2, 2)]),
    "householder_product of none": (lambda L, x, t: x.detach().orgqr(t.detach()), [_r(3, 2), np.zeros(0)]),
    "ormqr": (lambda L, x, t, c: L.ormqr(x, t, c), [TALL, _r(2, 3), _r(2, 4, 2)]),
    "ormqr right": (lambda L, x, t, c: x.ormqr(t, c, left=False), [TALL, _r(2, 3), _r(2, 2, 4)]),
    "ormqr turned": (lambda L, x, t, c: L.ormqr(x, t, c, transpose=True), [_r(4, 3), _r(3), _r(4, 4)]),
    "ormqr right turned": (lambda L, x, t, c: L.ormqr(x, t, c, False, True), [_r(4, 3), _r(3), _r(1, 4)]),
}  # fmt: skip


@needs_torch
@pytest.mark.filterwarnings("ignore:torch.(lu_solve|triangular_solve) is deprecated")
@each("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, rtol=1e-8, atol=1e-9)
    if "singular" not in name:
        narrow = [a.astype(np.float32) for a in arrays]
        compare(call, jtorch, torch, narrow, rtol=2e-3, atol=2e-4)


@pytest.mark.slow
@each("name", ["householder_product", "ormqr", "ormqr right turned", "lu_solve adjoint"])
def test_gradients_of_both_orders_are_those_of_finite_differences(name):
    call, arrays = CALLS[name]
    inputs = [jtorch.tensor(a, requires_grad=True) for a in arrays]
    assert gradcheck(lambda *x: call(jtorch, *x), inputs)
    assert gradgradcheck(lambda *x: call(jtorch, *x), inputs)


def test_a_solution_by_ldl_factors_has_a_gradient():
    factors = jtorch.linalg.ldl_factor(jtorch.tensor(HOLLOW))
    right = jtorch.tensor(_r(5, 2), requires_grad=True)
    assert gradcheck(lambda b: jtorch.linalg.ldl_solve(*factors, b), [right])
    assert gradgradcheck(lambda b: jtorch.linalg.ldl_solve(*factors, b), [right])


def test_reflections_of_a_matrix_give_its_qr():
    x = jtorch.tensor(TALL)
    a, tau = jtorch.geqrf(x)
    np.testing.assert_allclose((jtorch.linalg.householder_product(a, tau) @ a[:, :3].triu()).numpy(), TALL)
    r = jtorch.ormqr(a, tau, x, transpose=True)
    np.testing.assert_allclose(r.numpy(), np.linalg.qr(TALL, "complete")[0].swapaxes(1, 2) @ TALL, atol=1e-12)


BAD = {
    "lu_factor_ex": lambda L: L.linalg.lu_factor_ex(L.ones(2, 2), check_errors=True),
    "lu_factor_ex of a vector": lambda L: L.linalg.lu_factor_ex(L.ones(2)),
    "no pivots": lambda L: L.linalg.lu_factor(L.ones(2, 2), pivot=False),
    "lu without pivots": lambda L: L.linalg.lu(L.ones(2, 2), pivot=False),
    "unpack": lambda L: L.lu_unpack(L.eye(2), L.tensor([1, 2])),
    "ldl_factor": lambda L: L.linalg.ldl_factor(L.ones(3, 2)),
    "ldl_factor of ints": lambda L: L.linalg.ldl_factor(L.ones(2, 2).long()),
    "ldl_solve pivots": lambda L: L.linalg.ldl_solve(L.eye(3), L.ones(2).int(), L.ones(3, 1)),
    "ldl_solve floats": lambda L: L.linalg.ldl_solve(L.eye(3), L.ones(3), L.ones(3, 1)),
    "ldl_solve rows": lambda L: L.linalg.ldl_solve(L.eye(3), L.ones(3).int(), L.ones(4, 1)),
    "ldl_solve dtype": lambda L: L.linalg.ldl_solve(L.eye(3), L.ones(3).int(), L.ones(3, 1).double()),
    "geqrf": lambda L: L.geqrf(L.ones(3)),
    "geqrf of ints": lambda L: L.geqrf(L.ones(2, 2).long()),
    "householder_product": lambda L: L.linalg.householder_product(L.ones(4, 3), L.ones(4)),
    "householder_product wide": lambda L: L.linalg.householder_product(L.ones(2, 3), L.ones(2)),
    "householder_product of a vector": lambda L: L.linalg.householder_product(L.ones(3), L.ones(2)),
    "householder_product dtype": lambda L: L.linalg.householder_product(L.ones(3, 2).double(), L.ones(2)),
    "householder_product batch": lambda L: L.linalg.householder_product(L.ones(1, 3, 2), L.ones(2)),
    "householder_product of ints": lambda L: L.orgqr(L.ones(3, 2).long(), L.ones(2).long()),
    "ormqr": lambda L: L.ormqr(L.ones(4, 3), L.ones(3), L.ones(3, 2)),
    "ormqr right": lambda L: L.ormqr(L.ones(4, 3), L.ones(3), L.ones(2, 3), left=False),
    "ormqr tau": lambda L: L.ormqr(L.ones(4, 3), L.ones(5), L.ones(4, 2)),
    "ormqr dtype": lambda L: L.ormqr(L.ones(4, 3).double(), L.ones(3), L.ones(4, 2)),
    "ormqr dims": lambda L: L.ormqr(L.ones(1, 4, 3), L.ones(1, 3), L.ones(4, 2)),
    "ormqr of a vector": lambda L: L.ormqr(L.ones(3), L.ones(3), L.ones(4, 2)),
    "ormqr of another vector": lambda L: L.ormqr(L.ones(4, 3), L.ones(3), L.ones(4)),
    "pca_lowrank": lambda L: L.pca_lowrank(L.ones(3, 2), q=3),
    "pca_lowrank niter": lambda L: L.pca_lowrank(L.ones(3, 2), niter=-1),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises((RuntimeError, ValueError)) as theirs:
        BAD[name](torch)
    with pytest.raises(type(theirs.value)) as ours:
        BAD[name](jtorch)
    assert str(ours.value) == str(theirs.value)


def test_a_singular_matrix_has_no_ldl_factors():
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\): D\[1,1\] is zero"):
        jtorch.linalg.ldl_factor(jtorch.stack([jtorch.eye(2), jtorch.zeros(2, 2)]))


@pytest.mark.parametrize("shape", [(20, 9), (9, 20), (2, 12, 8)])
def test_svd_lowrank_of_few_directions_is_exact(shape):
    low = _r(*shape[:-1], 3) @ _r(*shape[:-2], 3, shape[-1])
    u, s, v = jtorch.svd_lowrank(jtorch.tensor(low), q=4)
    assert (u.shape, s.shape, v.shape) == ((*shape[:-1], 4), (*shape[:-2], 4), (*shape[:-2], shape[-1], 4))
    np.testing.assert_allclose(((u * s.unsqueeze(-2)) @ v.mT).numpy(), low, atol=1e-10)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(low)[1][..., :4], atol=1e-10)
    shifted = jtorch.svd_lowrank(jtorch.tensor(low + 1), q=4, M=jtorch.ones(shape[-1], dtype=jtorch.float64))
    np.testing.assert_allclose(shifted[1].numpy(), s.numpy(), atol=1e-10)


@needs_torch
def test_pca_lowrank_finds_pytorchs_directions():
    low = _r(30, 3) @ _r(3, 8) + 2.0
    ours, theirs = jtorch.pca_lowrank(jtorch.tensor(low)), torch.pca_lowrank(torch.tensor(low))
    assert [tuple(t.shape) for t in ours] == [tuple(t.shape) for t in theirs]
    np.testing.assert_allclose(ours[1].numpy(), theirs[1].numpy(), atol=1e-10)
    for k in range(3):
        assert abs(float(ours[2][:, k].numpy() @ theirs[2][:, k].numpy())) == pytest.approx(1)
    plain = jtorch.pca_lowrank(jtorch.tensor(low), q=4, center=False)
    np.testing.assert_allclose(plain[1].numpy(), np.linalg.svd(low)[1][:4], atol=1e-10)


@pytest.mark.slow
def test_compiled_equals_eager():
    def step(a, x, t, b):
        lu, pivots, info = jtorch.linalg.lu_factor_ex(a)
        solved = jtorch.linalg.lu_solve(lu, pivots, b, adjoint=True)
        ldl = jtorch.linalg.ldl_solve(*jtorch.linalg.ldl_factor((a + a.mT).detach()), b)
        return solved.sum() + (jtorch.linalg.householder_product(x, t) ** 2).sum() + ldl.sum() + info

    leaves = [jtorch.tensor(a, requires_grad=True) for a in (REGULAR, TALL[0], _r(3), RIGHT)]
    expected = [step(*leaves), *jtorch.autograd.grad(step(*leaves), leaves)]

    @jtorch.compile(fullgraph=True)
    def compiled(*inputs):
        out = step(*inputs)
        return [out, *jtorch.autograd.grad(out, inputs)]

    for a, b in zip(compiled(*leaves), expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10)
