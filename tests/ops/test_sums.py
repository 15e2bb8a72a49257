"""The error of sums does not grow with the number of terms: over any axis, in any layout, in both modes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from tests.each import each

MANY = 2 * 10**6
MODES = {"eager": lambda f: f, "compiled": jtorch.compile}
DTYPES = {"float32": jtorch.float32, "float16": jtorch.float16, "bfloat16": jtorch.bfloat16}
DIGITS = {"float32": 24, "float16": 11, "bfloat16": 8, "float64": 53}


def floats(*shape: int, mean: float = 0.5) -> np.ndarray:
    return np.random.default_rng(0).uniform(mean - 0.5, mean + 0.5, shape).astype(np.float32)


def units(got: jtorch.Tensor, exact: np.ndarray) -> float:
    """The largest error in units in the last place at the largest exact value."""
    _, exponent = np.frexp(np.abs(exact).max())
    worst = np.abs(got.detach().double().numpy() - exact).max()
    return math.ldexp(float(worst), DIGITS[got.dtype.name] - int(exponent))


SUMS = {
    "all": (lambda x: x.mean(), (MANY,), None),
    "all of a matrix": (lambda x: x.mean(), (MANY // 8, 8), None),
    "rows": (lambda x: x.mean(0), (MANY // 4, 4), 0),
    "many columns": (lambda x: x.mean(0), (2048, 1000), 0),
    "odd rows": (lambda x: x.mean(0), (MANY // 3 + 1, 3), 0),
    "columns": (lambda x: x.mean(1), (4, MANY // 4), 1),
    "an axis between": (lambda x: x.mean(1), (3, MANY // 12, 4), 1),
    "two axes apart": (lambda x: x.mean((0, 2)), (MANY // 64, 4, 16), (0, 2)),
    "transposed columns": (lambda x: x.t().mean(1), (MANY // 4, 4), 0),
    "transposed rows": (lambda x: x.t().mean(0), (4, MANY // 4), 1),
    "part of each row": (lambda x: x[:, :3].sum() / 3, (MANY // 4, 4), "part"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SUMS)
def test_any_axis(name, mode):
    program, shape, axis = SUMS[name]
    x = floats(*shape)
    wide = x.astype(np.float64)
    exact = wide[:, :3].sum() / 3 if axis == "part" else wide.mean(axis)
    # two roundings, and of 1000 columns the worst
    assert units(MODES[mode](program)(jtorch.from_numpy(x)), exact) <= 2.5


# Equal terms are the worst: all of their roundings go one way. In one running sum 2048 of them are off by 216
# units in the last place, in partials of 64 by 8 to 10, in float64 by 17.
MOST = {np.float32: 10.5, np.float64: 18}
COLUMNS = (1, 2, 3, 7, 10, 31, 64, 300)
LAYOUTS = {
    "rows": lambda n, c: (jtorch.full((n, c), 0.1), 0, c),
    "transposed": lambda n, c: (jtorch.full((n, c), 0.1).t(), 1, c),
    "between": lambda n, c: (jtorch.full((3, n, c + 1), 0.1), 1, 3 * c + 3),
    "apart": lambda n, c: (jtorch.full((n, c, 2), 0.1), (0, 2), c),
    "two leading": lambda n, c: (jtorch.full((2, n, c), 0.1), (0, 1), c),
    "part of each": lambda n, c: (jtorch.full((n, c + 1), 0.1)[:, :c], 0, c),
}


def _off(found: np.ndarray, terms: int, dtype: type) -> float:
    """The error of a sum of 0.1 in units in the last place."""
    exact = terms * float(dtype(0.1))  # exact, but for a rounding in float64
    return float(np.abs(found.astype(np.float64) - exact).max() / np.spacing(dtype(exact)))


@pytest.mark.parametrize("c", COLUMNS)
def test_any_number_of_equal_rows(c):
    for dtype, step in ((np.float32, 1), (np.float64, 97)):
        x = np.full((4096, c), 0.1, dtype)
        for n in range(65, 4097, step):
            found = jtorch.from_numpy(x[:n]).sum(0).numpy()
            assert _off(found, n, dtype) <= MOST[dtype], (n, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_of_equal_rows(layout):
    for n in (65, 100, 127, 128, 255, 257, 300, 511, 512, 513, 1000, 1023, 1500, 2047, 2048, 2049, 4095):
        for c in COLUMNS:
            x, dim, results = LAYOUTS[layout](n, c)
            found = x.sum(dim)
            assert found.numel() == results
            assert _off(found.numpy(), x.numel() // results, np.float32) <= MOST[np.float32], (n, c)


@pytest.mark.parametrize("n", [65, 257, 511, 2047, 2049])
def test_compiled_rows_are_off_no_more(n):
    for c in (2, 31, 64):
        found = jtorch.compile(lambda x: x.sum(0))(jtorch.full((n, c), 0.1)).numpy()
        assert _off(found, n, np.float32) <= MOST[np.float32], c


@pytest.mark.parametrize("mode", MODES)
def test_float64(mode):
    x = np.random.default_rng(0).random((200_000, 3))
    exact = [math.fsum(column) for column in x.T]
    assert units(MODES[mode](lambda x: x.sum(0))(jtorch.from_numpy(x)), np.array(exact)) <= 4.0
    assert units(MODES[mode](lambda x: x.sum())(jtorch.from_numpy(x)), np.array(math.fsum(x.ravel()))) <= 1.0


@pytest.mark.parametrize(
    ("name", "mode"), [("float16", "eager"), ("float16", "compiled"), ("bfloat16", "eager")]
)
def test_half_precisions_are_added_up_in_float32(name, mode):
    x = jtorch.from_numpy(floats(100_000, 4)).to(DTYPES[name])
    exact = x.double().numpy()
    for program, result in {
        lambda x: x.mean(): exact.mean(), lambda x: x.mean(0): exact.mean(0),
        lambda x: x.mean(1): exact.mean(1), lambda x: x.var(0): exact.var(0, ddof=1),
        lambda x: x.norm(): np.sqrt((exact * exact).sum()),
    }.items():  # fmt: skip
        assert units(MODES[mode](program)(x), np.asarray(result)) <= 1.0


@pytest.mark.parametrize("mode", MODES)
def test_no_saturation(mode):
    n = 2**24 + 64
    ones = jtorch.ones(n, 1)
    w = jtorch.ones(1, requires_grad=True)

    def gradient(ones, w):
        (w.grad,) = jtorch.autograd.grad((ones * w).sum(), w)
        return w.grad

    assert MODES[mode](lambda x: x.sum(0))(ones).tolist() == [n]
    assert MODES[mode](gradient)(ones, w).tolist() == [n]


def test_a_sum_over_expanded_axes_is_a_product():
    x = jtorch.tensor([0.1, 0.2]).expand(10**7, 2)
    assert units(x.sum(0), 1e7 * x[0].double().numpy()) <= 0.5
    assert jtorch.ones(1).expand(2**40).sum().item() == 2.0**40


def test_bias_gradient_of_bfloat16():
    g = jtorch.from_numpy(floats(100_000, 4)).to(jtorch.bfloat16)
    bias = jtorch.zeros(4, dtype=jtorch.bfloat16, requires_grad=True)
    (g + bias).backward(g)
    assert units(bias.grad, g.double().numpy().sum(0)) <= 0.5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1000, 10**6])
def test_variance_of_data_far_from_zero(n, mode):
    x = np.random.default_rng(0).normal(1000.0, 1.0, n).astype(np.float32)
    exact = x.astype(np.float64).var(ddof=1)
    assert units(MODES[mode](lambda x: x.var())(jtorch.from_numpy(x)), np.asarray(exact)) <= 1.5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(500, 3), (64, 3, 8, 8), (1000, 3, 16, 16)], ids=str)
def test_batch_norm_of_data_far_from_zero(shape, mode):
    x = np.random.default_rng(0).normal(1000.0, 1.0, shape).astype(np.float32)
    wide, axes = x.astype(np.float64), (0, *range(2, len(shape)))
    mean, var = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    normalized = (wide - mean) / np.sqrt(var + 1e-5)
    weight, bias = jtorch.ones(shape[1]), jtorch.zeros(shape[1])

    def program(x, *affine):
        return F.batch_norm(x, None, None, *affine, training=True)

    # PyTorch: 90, which is half a unit in the last place of the mean; with a bias there is where to put it
    assert units(MODES[mode](program)(jtorch.from_numpy(x), weight, bias), normalized) <= 4.0
    assert units(MODES[mode](program)(jtorch.from_numpy(x)), normalized) <= 100.0


@pytest.mark.parametrize("mode", MODES)
def test_dot(mode):
    x, y = floats(MANY), floats(MANY, mean=1.0)
    exact = np.asarray(x.astype(np.float64) @ y.astype(np.float64))
    assert units(MODES[mode](jtorch.dot)(jtorch.from_numpy(x), jtorch.from_numpy(y)), exact) <= 1.0


def test_running_sums_do_not_stand_still():
    x = jtorch.ones(11)
    x[0] = 2.0**24
    assert x.cumsum(0)[-1].item() == 2**24 + 10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [jtorch.float32, jtorch.float64])
def test_infinities_and_nan(dtype, mode):
    inf, nan = math.inf, math.nan
    x = jtorch.tensor([[1.0, inf, inf, nan], [2.0, 1.0, -inf, inf]], dtype=dtype).repeat(2000, 1)
    rows = MODES[mode](lambda x: x.sum(0))(x)
    assert rows[0].item() == 6000.0 and rows[1].item() == inf
    assert rows[2].isnan() and rows[3].isnan()
    assert MODES[mode](lambda x: x[:, :2].sum())(x).item() == inf
    assert MODES[mode](lambda x: x.sum())(x).isnan()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("dtype", [jtorch.float32, jtorch.float16])
def test_of_nothing(shape, dtype, mode):
    x = jtorch.zeros(*shape, dtype=dtype)
    for axis in (0, 1, (0, 1)):
        got = MODES[mode](lambda x, axis=axis: x.sum(axis))(x)
        assert got.dtype is dtype and got.tolist() == np.zeros(shape).sum(axis).tolist()


@pytest.mark.parametrize("values", [-0.0, [-0.0], [-0.0, -0.0], [[-0.0]], [[-0.0], [-0.0]]])
@pytest.mark.parametrize("dtype", [jtorch.float32, jtorch.float64, jtorch.float16])
def test_sums_of_negative_zeros_are_zero(values, dtype):
    """As in PyTorch, also of one."""
    x = jtorch.tensor(values, dtype=dtype)

    def sums(x):
        return [
            x.sum(),
            x.mean(),
            x.sum(-1).flatten()[0],
            x.sum(0).flatten()[0],
            x.sum(-1, keepdim=True).flatten()[0],
        ]

    for function in (sums, jtorch.compile(sums, fullgraph=True)):
        assert [
            1 / total.item() if total.item() else math.copysign(1, total.item()) for total in function(x)
        ] == [1] * 5


WHOLE_AND_WIDE = [
    (shape, dim)
    for shape, dim in (
        ((10000,), None), ((100, 100), None), ((7, 1000), 1), ((1000, 7), 0), ((3000, 7), 1), ((64, 33), 1),
        ((300, 20), 0), ((8, 16, 40), (0, 1)), ((8, 40, 16), (0, 2)),
    )
]  # fmt: skip


@each("shape, dim, dtype", [(*case, dtype) for case in WHOLE_AND_WIDE for dtype in ("float32", "float64")])
def test_a_mean_is_the_sum_divided_by_the_number(shape, dim, dtype):
    """Bit for bit, in both modes: who adds up and divides finds the mean."""
    x = jtorch.tensor(np.random.default_rng(5).standard_normal(shape).astype(dtype))
    for mode in (lambda function: function, jtorch.compile):
        total, mean = mode(lambda x: x.sum(dim))(x), mode(lambda x: x.mean(dim))(x)
        assert (total / (x.numel() // total.numel())).equal(mean)


def test_a_large_sum_is_the_compiled_one_bit_for_bit():
    for shape, dim in (((10000,), None), ((300, 20), 0), ((300, 20), 1)):
        x = jtorch.tensor(np.random.default_rng(6).standard_normal(shape))
        assert x.sum(dim).equal(jtorch.compile(lambda x, dim=dim: x.sum(dim))(x)), (shape, dim)


def test_the_gradient_of_a_large_sum_is_a_view_of_what_arrives():
    x = jtorch.ones(300, 4096, requires_grad=True)
    (g,) = jtorch.autograd.grad(x.sum(0), x, jtorch.arange(4096.0))
    assert g.stride() == (0, 1) and g[7, 9].item() == 9.0
