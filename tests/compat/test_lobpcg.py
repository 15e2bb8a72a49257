"""Eigenvalues found by ``lobpcg`` against those of all, and against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)


def _symmetric(*shape, dtype=np.float64):
    x = RNG.standard_normal(shape)
    return (x @ np.swapaxes(x, -1, -2) / shape[-1] + np.eye(shape[-1])).astype(dtype)


A, B, MANY = _symmetric(30, 30), _symmetric(30, 30), _symmetric(2, 20, 20)


@each("k, largest, dtype", [(k, w, d) for k in (1, 3) for w in (True, False) for d in ("float32", "float64")])
def test_finds_the_outermost_ones(k, largest, dtype):
    jtorch.manual_seed(0)
    a = jtorch.tensor(A.astype(dtype))
    values, vectors = jtorch.lobpcg(a, k=k, largest=largest, tol=1e-5)
    expected = np.linalg.eigvalsh(A)
    expected = expected[::-1][:k] if largest else expected[:k]
    np.testing.assert_allclose(values.numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose((a @ vectors).numpy(), (vectors * values).numpy(), atol=3e-3)
    np.testing.assert_allclose((vectors.mT @ vectors).numpy(), np.eye(k), atol=1e-4)


def _values(L, case):
    a, b = L.tensor(A), L.tensor(B)
    L.manual_seed(0)
    calls = {
        "default": lambda: L.lobpcg(a),
        "generalized": lambda: L.lobpcg(a, k=2, B=b, tol=1e-8),
        "smallest, generalized": lambda: L.lobpcg(a, k=2, B=b, largest=False, tol=1e-8),
        "batch": lambda: L.lobpcg(L.tensor(MANY), k=2, tol=1e-8),
        "start": lambda: L.lobpcg(a, X=L.eye(30, dtype=L.float64)[:, :3], k=2, tol=1e-8),
        "preconditioned": lambda: L.lobpcg(a, k=2, iK=L.linalg.inv(a), largest=False, tol=1e-8),
        "sparse": lambda: L.lobpcg(a.to_sparse(), k=2, tol=1e-8),
        "basic": lambda: L.lobpcg(a, k=2, method="basic", tol=1e-8),
    }
    values, vectors = calls[case]()
    return values.numpy(), tuple(vectors.shape)


CASES = [
    "default",
    "generalized",
    "smallest, generalized",
    "batch",
    "start",
    "preconditioned",
    "sparse",
    "basic",
]


@needs_torch
@each("case", CASES)
def test_values_equal_pytorch_s(case):
    (ours, shape), (theirs, expected) = _values(jtorch, case), _values(torch, case)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert shape == expected


def test_gradients_of_values():
    a, b = (jtorch.tensor(M, requires_grad=True) for M in (A, B))
    values, vectors = jtorch.lobpcg(a, k=2, B=b, tol=1e-10)
    (values * jtorch.tensor([1.0, 2.0])).sum().backward()
    x, e = vectors.detach().numpy(), values.detach().numpy()
    np.testing.assert_allclose(a.grad.numpy(), (x * [1.0, 2.0]) @ x.T, atol=1e-8)
    np.testing.assert_allclose(b.grad.numpy(), -(x * e * [1.0, 2.0]) @ x.T, atol=1e-8)
    for given in ({"A": a, "B": b}, {"A": a.detach().to_sparse().requires_grad_()}):
        _, vectors = jtorch.lobpcg(k=1, **given)
        with pytest.raises(NotImplementedError, match="vectors have no gradient by sparse"):
            vectors.sum().backward()


def test_gradients_of_values_of_a_sparse_matrix():
    sparse = jtorch.tensor(A).to_sparse().requires_grad_()
    values, vectors = jtorch.lobpcg(sparse, k=2, tol=1e-10)
    values.sum().backward()
    x = vectors.detach().numpy()
    np.testing.assert_allclose(sparse.grad.to_dense().numpy(), x @ x.T, atol=1e-8)


def _derivatives(L, of, matrices, by_eigh=False):
    """The gradient of what ``of`` names, and the gradient of its square."""
    a = L.tensor(matrices, requires_grad=True)
    weights = L.arange(2.0 * a.shape[-1], dtype=L.float64).sin().reshape(-1, 2)
    L.manual_seed(0)
    if by_eigh:
        values, vectors = L.linalg.eigh((a + a.mT) / 2)
        values, vectors = values[..., -2:].flip(-1), vectors[..., -2:].flip(-1)
    else:
        values, vectors = L.lobpcg(a, k=2, niter=500, tol=1e-12)
    parts = {"values": (values**2).sum(), "vectors": (vectors**2 * weights).sum()}
    (first,) = L.autograd.grad(sum(parts[name] for name in of), a, create_graph=True)
    (second,) = L.autograd.grad((first**2).sum(), a)
    return first.detach().numpy(), second.numpy()


OF = [("values",), ("vectors",), ("values", "vectors")]


@each("of, matrices", [(of, matrices) for of in OF for matrices in (A, MANY)])
def test_derivatives_are_those_of_all_eigenvectors(of, matrices):
    found, right = (_derivatives(jtorch, of, matrices, by_eigh) for by_eigh in (False, True))
    for got, expected in zip(found, right, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * abs(expected).max())


@needs_torch
@each("of, matrices", [(of, matrices) for of in OF for matrices in (A, MANY)])
def test_derivatives_equal_pytorch_s(of, matrices):
    for got, expected in zip(*(_derivatives(L, of, matrices) for L in (jtorch, torch)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * abs(expected).max())


def test_errors():
    with pytest.raises(ValueError, match=r"number of A rows \(=4\) is smaller than 3 x .* \(=2\)"):
        jtorch.lobpcg(jtorch.eye(4), k=2)
    with pytest.raises(AssertionError, match="A must be square"):
        jtorch.lobpcg(jtorch.ones(4, 3))
    with pytest.raises(AssertionError, match="A and B must have same shape"):
        jtorch.lobpcg(jtorch.eye(4), B=jtorch.eye(5))
    with pytest.raises(ValueError, match="unknown method 'other'"):
        jtorch.lobpcg(jtorch.eye(4), method="other")
    with pytest.raises(NotImplementedError, match="tracker"):
        jtorch.lobpcg(jtorch.eye(4), tracker=print)
    with pytest.raises(CompileError, match=r"test_lobpcg.py:\d+ in .*lobpcg"):
        jtorch.compile(lambda x: jtorch.lobpcg(x)[0], fullgraph=True)(jtorch.eye(4))
