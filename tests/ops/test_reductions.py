"""Reductions, running sums, statistics and distances against PyTorch, and against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4))
CUBE = RNG.standard_normal((2, 3, 4))
ZEROS = CUBE.copy()
ZEROS[0, 1, 2] = ZEROS[1, 1, 2] = ZEROS[1, 2, 0] = 0.0
HOLES = A.copy()
HOLES[0, 1] = HOLES[1, 1] = HOLES[2, 3] = np.nan
INTS = RNG.integers(-3, 4, (3, 4))
WEIGHTS = np.array([1, 2, 3, 1])
EMPTY = np.zeros((0, 4))
SCALAR = np.array(1.5)
INFINITE = np.array([[-np.inf, -np.inf], [np.inf, 1.0], [-np.inf, 2.0]])

CALLS = {
    "prod zeros": (lambda L, x: x.prod(), [ZEROS]),
    "prod dim zeros": (lambda L, x: x.prod(2, keepdim=True), [ZEROS]),
    "prod long": (lambda L, x: x.prod(0), [RNG.uniform(0.8, 1.2, (70, 2))]),
    "prod empty": (lambda L, x: x.prod(0), [EMPTY]),
    "prod dtype": (lambda L, x: L.prod(x, dtype=L.float64), [INTS]),
    "prod bools": (lambda L, x: (x > 0).prod(1), [INTS]),
    "var unbiased": (lambda L, x: x.var(1, False), [A]),
    "var all": (lambda L, x: L.var(x, False), [A]),
    "var correction": (lambda L, x: L.var(x, (0, 2), correction=2, keepdim=True), [CUBE]),
    "std": (lambda L, x: x.std((0, 1)), [CUBE]),
    "std still": (lambda L, x: x.std(1), [np.ones((2, 3))]),
    "var_mean": (lambda L, x: tuple(L.var_mean(x, 1)), [A]),
    "std_mean": (lambda L, x: tuple(L.std_mean(x, dim=(0, 2), correction=0, keepdim=True)), [CUBE]),
    "std_mean all": (lambda L, x: tuple(L.std_mean(x, unbiased=False)), [A]),
    "amax dims": (lambda L, x: L.amax(x, (0, 2)), [CUBE]),
    "amin ties": (lambda L, x: x.amin(1), [INTS.astype(np.float64)]),
    "aminmax": (lambda L, x: tuple(L.aminmax(x)), [A]),
    "aminmax dim": (lambda L, x: tuple(x.aminmax(dim=-1, keepdim=True)), [CUBE]),
    "max dim": (lambda L, x: tuple(L.max(x, -1)), [CUBE]),
    "max 0-d": (lambda L, x: tuple(L.max(x, 0)), [SCALAR]),
    "max other": (lambda L, x, y: L.max(x, y), [A, A[0]]),
    "min nan": (lambda L, x: tuple(x.min(0)), [HOLES]),
    "median": (lambda L, x: x.median(), [CUBE]),
    "median dim": (lambda L, x: tuple(L.median(x, 2)), [CUBE]),
    "median nan": (lambda L, x: tuple(x.median(0, keepdim=True)), [HOLES]),
    "median 0-d": (lambda L, x: tuple(x.median(0)), [SCALAR]),
    "nanmedian": (lambda L, x: tuple(L.nanmedian(x, 0)), [HOLES]),
    "nanmedian all": (lambda L, x: L.nanmedian(x), [HOLES]),
    "median ints": (lambda L, x: x.median(1).values, [INTS]),
    "mode": (lambda L, x: tuple(L.mode(x, 1)), [INTS]),
    "mode floats": (lambda L, x: tuple(x.mode(0, True)), [INTS.astype(np.float64)]),
    "norm": (lambda L, x: L.norm(x), [A]),
    "norm zero": (lambda L, x: L.norm(x), [np.zeros(3)]),
    "norm p": (lambda L, x: x.norm(3.5, (0, 2)), [CUBE]),
    "norm 1.5 zero": (lambda L, x: x.norm(1.5, 2), [ZEROS]),
    "norm 0": (lambda L, x: x.detach().norm(0, 1), [ZEROS]),
    "norm inf": (lambda L, x: x.norm(-math.inf, dim=1, keepdim=True), [A]),
    "norm dtype": (lambda L, x: L.norm(x, dtype=L.float64), [A.astype(np.float32)]),
    "logsumexp": (lambda L, x: L.logsumexp(x, (0, 2)), [CUBE * 100]),
    "logsumexp keep": (lambda L, x: x.logsumexp(-1, keepdim=True), [A]),
    "logsumexp infinite": (lambda L, x: x.detach().logsumexp(0), [INFINITE]),
    "logsumexp empty": (lambda L, x: x.logsumexp(0), [EMPTY]),
    "logsumexp ints": (lambda L, x: x.logsumexp(0), [INTS]),
    "nansum": (lambda L, x: L.nansum(x), [HOLES]),
    "nansum dims": (lambda L, x: x.nansum((0, 1), keepdim=True), [HOLES]),
    "nanmean": (lambda L, x: x.nanmean(0), [HOLES]),
    "count_nonzero": (lambda L, x: L.count_nonzero(x), [INTS]),
    "count_nonzero dims": (lambda L, x: x.count_nonzero((0, 1)), [INTS]),
    "any dims": (lambda L, x: L.any(x > 0, (0, 2)), [CUBE]),
    "argmax": (lambda L, x: x.argmax(-1, keepdim=True), [HOLES]),
    "quantile": (lambda L, x: L.quantile(x, 0.3), [CUBE]),
    "quantile dim": (lambda L, x: x.quantile(0.6, 1), [CUBE]),
    "quantile many": (
        lambda L, x, q: L.quantile(x, q.detach(), dim=0, keepdim=True), [CUBE, np.array([0.1, 0.9])],
    ),
    "quantile last": (lambda L, x, q: x.quantile(q.detach(), -1), [CUBE, np.array([0.0, 0.45, 1.0])]),
    "quantile all keep": (lambda L, x: x.quantile(0.5, keepdim=True), [CUBE]),
    "quantile nan": (lambda L, x: x.detach().quantile(0.5, 0), [HOLES]),
    "nanquantile": (lambda L, x: L.nanquantile(x, 0.4, 0), [HOLES]),
    "nanquantile keep": (lambda L, x: L.nanquantile(x, 0.4, 1, True), [HOLES]),
    "cumsum": (lambda L, x: L.cumsum(x, 1), [CUBE]),
    "cumsum 0-d": (lambda L, x: x.cumsum(0), [SCALAR]),
    "cumsum ints": (lambda L, x: x.cumsum(-1), [INTS.astype(np.int32)]),
    "cumsum dtype": (lambda L, x: x.cumsum(0, dtype=L.float32), [INTS]),
    "cumprod": (lambda L, x: L.cumprod(x, -1), [A]),
    "cumprod zeros": (lambda L, x: x.cumprod(1), [ZEROS]),
    "cumprod empty": (lambda L, x: x.cumprod(0), [EMPTY]),
    "cummax": (lambda L, x: tuple(L.cummax(x, 1)), [CUBE]),
    "cummax ties": (lambda L, x: tuple(x.cummax(0)), [INTS]),
    "cummin nan": (lambda L, x: tuple(x.detach().cummin(1)), [HOLES]),
    "cummin 0-d": (lambda L, x: tuple(x.cummin(0)), [SCALAR]),
    "logcumsumexp": (lambda L, x: L.logcumsumexp(x, 1), [CUBE * 30]),
    "logcumsumexp infinite": (lambda L, x: x.detach().logcumsumexp(1), [INFINITE]),
    "diff": (lambda L, x: L.diff(x), [CUBE]),
    "diff twice": (lambda L, x, y: x.diff(2, 0, prepend=y), [A, A[:1]]),
    "diff bools": (lambda L, x: L.diff(x > 0), [INTS]),
    "diff too often": (lambda L, x: L.diff(x, 9), [A]),
    "trapezoid": (lambda L, x: L.trapezoid(x), [CUBE]),
    "trapezoid x": (lambda L, y, x: L.trapz(y, x, dim=0), [A, np.array([0.0, 0.5, 2.0])]),
    "trapezoid dx": (lambda L, x: L.trapezoid(x, dx=0.1, dim=1), [CUBE]),
    "cumulative_trapezoid": (lambda L, y, x: L.cumulative_trapezoid(y, x), [A, A * 2]),
    "cov": (lambda L, x: L.cov(x), [A]),
    "cov vector": (lambda L, x: x.cov(correction=0), [A[0]]),
    "cov weights": (
        lambda L, x, w: L.cov(x, fweights=L.tensor(WEIGHTS), aweights=w.detach()),
        [A, np.array([0.5, 1.0, 2.0, 0.3])],
    ),
    "corrcoef": (lambda L, x: L.corrcoef(x), [A]),
    "dist": (lambda L, x, y: L.dist(x, y, 3), [A, A[0]]),
    "cdist": (lambda L, x, y: L.cdist(x, y), [CUBE, CUBE[:, :2] * 2]),
    "cdist p": (lambda L, x, y: L.cdist(x, y, p=1.5), [A, A[:2] + 1]),
    "cdist self": (lambda L, x: L.cdist(x, x, p=1.0), [A]),
    "pdist": (lambda L, x: L.pdist(x), [A]),
}  # fmt: skip


@needs_torch
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized:UserWarning")
@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, rtol=1e-6 if arrays[0].dtype == np.float32 else 1e-11, atol=1e-12)


@needs_torch
@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantile_interpolations(name, interpolation):
    for q in (0.0, 0.3, 0.5, 1.0):
        compare(
            lambda L, x, q=q: getattr(L, name)(x, q, 0, interpolation=interpolation), jtorch, torch,
            [A if name == "quantile" else HOLES], rtol=1e-11, atol=1e-12,
        )  # fmt: skip


@needs_torch
@pytest.mark.filterwarnings(r"ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("name", ["var", "std"])
def test_no_degrees_of_freedom(name):
    for values, correction in ((np.ones(1), 1), (A[0], 4), (A[0], 9), (np.zeros(0), 1)):
        call = lambda L, x, c=correction: getattr(L, name)(x.detach(), correction=c)  # noqa: E731
        compare(call, jtorch, torch, [values])


def test_no_degrees_of_freedom_warns():
    with pytest.warns(UserWarning, match=r"var\(\): degrees of freedom is <= 0"):
        assert jtorch.var(jtorch.tensor([1.0, 2.0]), correction=2).item() == math.inf


def test_closed_forms():
    x = jtorch.tensor(A)
    np.testing.assert_allclose(x.std(1).numpy(), A.std(1, ddof=1), rtol=1e-13)
    np.testing.assert_allclose(x.quantile(0.3, 0).numpy(), np.quantile(A, 0.3, 0), rtol=1e-13)
    np.testing.assert_allclose(x.cov().numpy(), np.cov(A), rtol=1e-12)
    np.testing.assert_allclose(x.corrcoef().numpy(), np.corrcoef(A), rtol=1e-12)
    np.testing.assert_allclose(x.logcumsumexp(1).numpy(), np.log(np.cumsum(np.exp(A), 1)), rtol=1e-12)
    np.testing.assert_array_equal(jtorch.nansum(jtorch.tensor(HOLES), 0).numpy(), np.nansum(HOLES, 0))


def test_gradient_of_a_product_with_zeros_is_exact_twice():
    x = jtorch.tensor([2.0, 0.0, 3.0, 0.5], dtype=jtorch.float64, requires_grad=True)
    (g,) = jtorch.autograd.grad(x.prod(), x, create_graph=True)
    assert g.tolist() == [0.0, 3.0, 0.0, 0.0]
    (second,) = jtorch.autograd.grad(g.sum(), x)
    assert second.tolist() == [1.5, 1.5 + 1.0 + 6.0, 1.0, 6.0]
    assert jtorch.autograd.gradgradcheck(lambda t: t.prod(), (x,))
    assert jtorch.autograd.gradgradcheck(lambda t: t.cumprod(0), (x,))


ERRORS = {
    "max empty": (lambda x, i: x[:0].max(), RuntimeError, "Expected reduction dim to be specified"),
    "max two dims": (lambda x, i: x.max((0, 1)), TypeError, "argument 'dim' must be int"),
    "var ints": (lambda x, i: i.var(), RuntimeError, "std and var only support floating point"),
    "norm ints": (lambda x, i: i.norm(), RuntimeError, "Expected a floating point or complex tensor"),
    "norm empty": (
        lambda x, i: x[:0].norm(math.inf), RuntimeError, "cannot compute the inf norm on an empty tensor",
    ),
    "median empty": (
        lambda x, i: x[:0].median(0), IndexError, "Expected reduction dim 0 to have non-zero size",
    ),
    "quantile ints": (lambda x, i: i.quantile(0.5), RuntimeError, "must be either float or double dtype"),
    "quantile range": (lambda x, i: x.quantile(1.5), RuntimeError, "q must be in the range"),
    "quantile way": (
        lambda x, i: x.quantile(0.5, interpolation="up"), RuntimeError, "interpolation must be one of",
    ),
    "argmax bools": (lambda x, i: (x > 0).argmax(), RuntimeError, r"argmax\(\): does not support bool input"),
    "dim": (lambda x, i: x.cumsum(3), IndexError, r"expected to be in range of \[-2, 1\]"),
    "diff": (lambda x, i: jtorch.diff(x[0, 0]), RuntimeError, "at least one-dimensional"),
    "cdist": (lambda x, i: jtorch.cdist(x[0], x), RuntimeError, "at least 2D tensors, X1 got: 1D"),
    "columns": (lambda x, i: jtorch.cdist(x, x[:, :2]), RuntimeError, "must have the same number of columns"),
    "dims twice": (lambda x, i: x.sum((0, 0)), RuntimeError, "appears multiple times"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, sentence = ERRORS[name]
    with pytest.raises(kind, match=sentence):
        call(jtorch.tensor(A), jtorch.tensor(INTS))


def test_running_sums_and_products_have_the_dtype_asked_for() -> None:
    x = jtorch.tensor([200.0, 100.0])
    assert x.cumsum(0, dtype=jtorch.uint8).tolist() == [200, 44]
    assert x.cumprod(0, dtype=jtorch.uint8).tolist() == [200, 32]
    for dtype in (jtorch.uint8, jtorch.int8, jtorch.int16, jtorch.int32, jtorch.int64, jtorch.float64):
        for name in ("cumsum", "cumprod", "sum", "prod", "nansum"):
            if name != "nansum" or dtype.is_floating_point:
                assert getattr(jtorch, name)(x, 0, dtype=dtype).dtype is dtype, name
    assert jtorch.tensor(5).cumsum(0, dtype=jtorch.int8).dtype is jtorch.int8
    assert jtorch.tensor([1, 2], dtype=jtorch.uint8).cumsum(0).dtype is jtorch.int64


@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_std_of_what_has_no_square(mode):
    """A variance of 1e60 or 1e-60 is no float32, its root is one; PyTorch adds up in float64."""
    values = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 5.0, -1.0]], np.float32)
    forms = (
        lambda x: x.std(),
        lambda x: x.std(1),
        lambda x: x.std((0, 1), keepdim=True),
        lambda x: x.std(0, False),
    )
    for scale in (1e30, 1e-30, 1e37, 1e-37, 1.0):
        x = values * np.float32(scale)
        for k, form in enumerate(forms):
            got = mode(form)(jtorch.tensor(x)).numpy()
            np.testing.assert_allclose(
                got, form(jtorch.tensor(x).double()).numpy(), rtol=1e-5, err_msg=f"{scale} {k}"
            )
        slope = mode(lambda x: jtorch.func.grad(lambda t: t.std())(x))(jtorch.tensor(x)).numpy()
        exact = jtorch.func.grad(lambda t: t.std())(jtorch.tensor(x).double()).numpy()
        np.testing.assert_allclose(slope, exact, rtol=1e-5)
    assert mode(lambda x: x.std())(jtorch.zeros(3)).item() == 0.0


def test_std_of_a_large_array_that_has_no_squares():
    x = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    for scale in (1e30, 1e-30):
        got = jtorch.tensor(x * np.float32(scale)).std().item()
        assert got == pytest.approx(float(x.std(ddof=1)) * scale, rel=1e-5)
    assert (jtorch.tensor([1.0, 3.0]).double() * 1e200).std().item() == pytest.approx(2**0.5 * 1e200)


EMPTY = {
    "max": RuntimeError, "min": RuntimeError, "amax": RuntimeError, "amin": RuntimeError, 
    "aminmax": RuntimeError, "argmax": IndexError, "argmin": IndexError, "kthvalue": IndexError,
}  # fmt: skip


def test_of_nothing_there_is_no_extreme():
    """PyTorch's classes of errors, and its sentences."""
    for name, kind in EMPTY.items():
        arguments = (1,) if name == "kthvalue" else ()
        with pytest.raises(kind, match=rf"{name}\(\): ") as ours:
            getattr(jtorch, name)(jtorch.zeros(0), *arguments)
        if HAS_TORCH:
            import torch

            with pytest.raises(kind) as theirs:
                getattr(torch, name)(torch.zeros(0), *arguments)
            assert str(ours.value) == str(theirs.value)
    with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
        jtorch.zeros(0, 3).max(0)
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        float(jtorch.ones(2))


def test_the_gradient_of_the_extreme_of_all_is_shared_by_nans():
    nan = float("nan")
    for values, wanted in (
        ([1.0, nan, 2.0, nan], [0.0, 0.5, 0.0, 0.5]),
        ([3.0, nan, 4.0, 1.0], [0.0, 1.0, 0.0, 0.0]),
        ([nan] * 4, [0.25] * 4),
    ):
        for name in ("max", "min"):
            for dtype in (jtorch.float32, jtorch.float64):
                x = jtorch.tensor(values, dtype=dtype, requires_grad=True)
                getattr(x, name)().backward()
                assert x.grad.tolist() == wanted, name

                def gradient(x, name=name):
                    (found,) = jtorch.autograd.grad(getattr(x, name)(), x)
                    return found

                assert jtorch.compile(gradient, mode="interpret")(x).tolist() == wanted, name
    x = jtorch.tensor([1.0, 3.0, 3.0], requires_grad=True)
    x.max().backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5]
    x = jtorch.tensor([1.0, nan], requires_grad=True)
    x.amax().backward()  # PyTorch shares by what is equal there
    assert str(x.grad.tolist()) == "[nan, nan]"


@pytest.mark.parametrize("name", ["any", "all"])
def test_of_no_dims_each_element_is_asked(name):
    x = np.array([[0.0, 2.0], [np.nan, 0.0]])
    for none in ((), []):
        found = getattr(jtorch, name)(jtorch.tensor(x), none, keepdim=True)
        assert found.tolist() == [[False, True], [True, False]]
        bytes_ = getattr(jtorch.tensor([0, 3], dtype=jtorch.uint8), name)(dim=none)
        assert bytes_.tolist() == [0, 1] and bytes_.dtype is jtorch.uint8
