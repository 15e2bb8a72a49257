"""``jtorch.special`` against PyTorch and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import jtorch
from jtorch.ops.polynomials import DEGREES
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

X = np.random.default_rng(0).uniform(0.05, 0.95, (3, 4))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0])
DIFFERENTIABLE = (
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0",
    "i0e", "i1",
    "i1e", "log1p", "log_ndtr", "logit", "ndtr", "ndtri", "psi", "round", "sinc",
)  # fmt: skip
WITHOUT = (
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0", "modified_bessel_i1",
    "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
    "spherical_bessel_j0",
)  # fmt: skip
BINARY = ("xlog1py", "xlogy", "zeta", "gammainc", "gammaincc")


@needs_torch
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_functions_and_gradients(name):
    rtol = 1e-9 if name in ("digamma", "psi") else 1e-11  # PyTorch's trigamma has nine digits
    for x in (X, X[0, 0], X[:0]):
        call = lambda L, x: getattr(L.special, name)(x)  # noqa: E731
        compare(call, jtorch, torch, [np.asarray(x)], rtol=rtol, atol=1e-13)
    compare(call, jtorch, torch, [X.astype(np.float32)])


@needs_torch
@pytest.mark.parametrize("name", [*DIFFERENTIABLE, *WITHOUT])
def test_special_numbers(name):
    a = getattr(jtorch.special, name)(jtorch.tensor(SPECIAL))
    b = getattr(torch.special, name)(torch.tensor(SPECIAL))
    rtol = 1e-5 if name == "airy_ai" else 1e-10  # of negative numbers PyTorch's has six digits
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol)


@needs_torch
@pytest.mark.parametrize("name", WITHOUT)
def test_functions_without_a_gradient(name):
    compare(lambda L, x: getattr(L.special, name)(x.detach()), jtorch, torch, [X * 5], rtol=1e-11)
    compare(lambda L, x: getattr(L.special, name)(x.detach()), jtorch, torch, [X.astype(np.float32)])


@needs_torch
@pytest.mark.parametrize("name", BINARY)
def test_two_arguments(name):
    def call(L, x, y):
        given = (x + 1.5, y) if name == "zeta" else (x, y)
        if not name.startswith("xlog"):  # the first argument has no derivative
            given = (given[0].detach(), given[1])
        return getattr(L.special, name)(*given)

    compare(call, jtorch, torch, [X, X[0] + 1], rtol=1e-11)


@needs_torch
def test_more_signatures():
    compare(lambda L, x: L.special.polygamma(1, x), jtorch, torch, [X], rtol=1e-8)
    compare(lambda L, x: L.special.multigammaln(x, 2), jtorch, torch, [X + 1], rtol=1e-9)
    compare(lambda L, x: L.special.logsumexp(x, 1), jtorch, torch, [X], rtol=1e-11)
    compare(lambda L, x: L.special.softmax(x, 1), jtorch, torch, [X], rtol=1e-11)
    compare(lambda L, x: L.special.log_softmax(x, dim=0), jtorch, torch, [X], rtol=1e-11)
    compare(lambda L, x: L.special.expit(x), jtorch, torch, [np.arange(4)])


@pytest.mark.parametrize(
    ("name", "reference"),
    [("ndtr", special.ndtr), ("log_ndtr", special.log_ndtr), ("i1", special.i1), ("erfcx", special.erfcx),
     ("gammaln", special.gammaln), ("entr", special.entr), ("bessel_y1", special.y1)],
)  # fmt: skip
def test_against_scipy(name, reference):
    found = getattr(jtorch.special, name)(jtorch.tensor(X))
    np.testing.assert_allclose(found.numpy(), reference(X), rtol=1e-13)


def test_unknown_names_say_what_there_is():
    with pytest.raises(AttributeError, match="it offers airy_ai"):
        _ = jtorch.special.no_such_function


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DEGREES)
def test_polynomials(name, dtype):
    x = np.array([0.0, 0.5, -0.5, 1.0, -1.0, 0.3, 2.0, -2.5], dtype)
    unit = 1e-6 if dtype == "float32" else 1e-14
    for n in (0, 1, 2, 3, 7, 9, -1, 2.7):
        found = getattr(jtorch.special, name)(jtorch.from_numpy(x), n)
        wanted = getattr(torch.special, name)(torch.from_numpy(x), n)
        scale = max(1.0, float(wanted.abs().max()))
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=scale * unit)
    degrees = np.arange(8.0).astype(dtype)
    found = getattr(jtorch.special, name)(jtorch.from_numpy(x), jtorch.from_numpy(degrees))
    wanted = getattr(torch.special, name)(torch.from_numpy(x), torch.from_numpy(degrees))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("name", DEGREES)
def test_polynomials_of_degrees_that_are_no_integers_of_64_bits(name):
    degrees = jtorch.tensor([np.nan, np.inf, 1e30, -np.inf, -1e30])
    found = getattr(jtorch.special, name)(jtorch.tensor(0.5), degrees)
    np.testing.assert_array_equal(found.numpy(), np.array([np.nan, np.nan, np.nan, 0.0, 0.0], np.float32))


def test_zeta_of_numbers():
    x = jtorch.tensor([3.0, 2.0])
    np.testing.assert_allclose(jtorch.special.zeta(x, 1).numpy(), [1.2020569, 1.6449341], rtol=1e-6)
    np.testing.assert_allclose(jtorch.special.zeta(2, x).numpy(), [0.3949341, 0.6449341], rtol=1e-6)


def test_airy_of_the_largest_numbers_vanishes():
    assert jtorch.special.airy_ai(jtorch.tensor([1e38, 500.0])).tolist() == [0.0, 0.0]
