"""NaN, infinities, signed zeros and the ends of integers: eager as compiled, vector and tail, and as PyTorch.

Left out are values for which PyTorch itself gives one thing in the vectorised part of an array and another in
its tail: ``maximum`` and ``clamp`` by tensors of equal zeros, ``softshrink``'s zeros, ``fmod`` by subnormals.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F

INF, NAN = math.inf, math.nan
SIZES = (0.0, 0.5, 1.0, 2.0, 3.0, 1e10, 3e-39, INF)
ROW = [NAN, 2.5, -7.0, *SIZES, *(-v for v in SIZES)]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.5, INF, -INF, NAN, 2]

UNARY = {
    "relu": lambda m, x: m.relu(x), "relu6": lambda m, x: m.nn.functional.relu6(x),
    "hardtanh": lambda m, x: m.nn.functional.hardtanh(x, 0.0, 1.0), "sqrt": lambda m, x: x.sqrt(),
    "logsigmoid": lambda m, x: m.nn.functional.logsigmoid(x), "rsqrt": lambda m, x: x.rsqrt(),
    "sign": lambda m, x: x.sign(), "round": lambda m, x: x.round(), "trunc": lambda m, x: x.trunc(),
    "floor": lambda m, x: x.floor(), "ceil": lambda m, x: x.ceil(), "reciprocal": lambda m, x: x.reciprocal(),
}  # fmt: skip
for _p in (0.5, -0.5, 2, 3, -1, 0, 1.5, -1.5, 0.0):
    UNARY[f"x ** {_p}"] = lambda m, x, p=_p: x**p
BESIDE = {
    "clamp_min": lambda m, x, c: m.clamp(x, min=c), "clamp_max": lambda m, x, c: m.clamp(x, max=c),
    "clamp": lambda m, x, c: m.clamp(x, c, c), "remainder": lambda m, x, c: x % c,
    "of a number": lambda m, x, c: c % x, "floor_divide": lambda m, x, c: x // c,
    "fmod": lambda m, x, c: m.fmod(x, c), "power of a number": lambda m, x, c: c**x,
    "greater": lambda m, x, c: x > c, "quotient": lambda m, x, c: x / c,
}  # fmt: skip
for (_name, _f), _c in itertools.product(BESIDE.items(), NUMBERS):
    UNARY[f"{_name} {_c}"] = lambda m, x, f=_f, c=_c: f(m, x, c)
BINARY = {
    "pow": lambda m, x, y: x**y, "remainder": lambda m, x, y: x % y, "floor_divide": lambda m, x, y: x // y,
    "mul": lambda m, x, y: x * y, "div": lambda m, x, y: x / y, "atan2": lambda m, x, y: m.atan2(x, y),
    "copysign": lambda m, x, y: m.copysign(x, y), "hypot": lambda m, x, y: m.hypot(x, y),
}  # fmt: skip
INTEGERS = {
    "pow": lambda m, x, y: x**y, "number": lambda m, x, y: 2**y, "square": lambda m, x, y: x**2,
    "large power": lambda m, x, y: x**41, "remainder": lambda m, x, y: x % y,
    "fmod": lambda m, x, y: m.fmod(x, y), "floor_divide": lambda m, x, y: x // y,
    "mul": lambda m, x, y: x * y, "neg": lambda m, x, y: -x,
    "abs": lambda m, x, y: x.abs(), "relu": lambda m, x, y: x.relu(), "clamp": lambda m, x, y: x.clamp(-3, 7),
    "sign": lambda m, x, y: x.sign(), "maximum": lambda m, x, y: m.maximum(x, y),
}  # fmt: skip
SUBNORMAL = 1e-37


def same(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where NaN, infinities and the signs of zeros agree, and numbers to 16 units in the last place; a
    subnormal may have been flushed to 0."""
    if got.dtype.kind != "f":
        return got == wanted
    with np.errstate(all="ignore"):
        tiny = (abs(got) < SUBNORMAL) & (abs(wanted) < SUBNORMAL)
        zeros = ((got != 0) & (wanted != 0)) | (np.signbit(got) == np.signbit(wanted))
        near = abs(got - wanted) <= 16 * np.spacing(abs(wanted))
        return np.where(np.isnan(wanted), np.isnan(got), (got == wanted) & zeros | near | tiny & zeros)


def check(program, arrays, torch):
    """One program over ``arrays``: eager is compiled, in the vectors and in the tail, and PyTorch."""

    def eager(*parts):
        return program(jtorch, *map(jtorch.from_numpy, parts)).numpy()

    wanted, n = eager(*arrays), len(arrays[0])
    step = jtorch.compile(lambda *tensors: program(jtorch, *tensors))
    for size in (n, 7, 1):
        places = range(0, n - size + 1, size)
        parts = [[np.ascontiguousarray(a[k : k + size]) for a in arrays] for k in places]
        seen = slice(0, len(parts) * size)
        compiled = np.concatenate([step(*map(jtorch.from_numpy, p)).numpy() for p in parts])
        assert compiled.dtype == wanted.dtype
        for name, got in (("compiled", compiled), ("eager", np.concatenate([eager(*p) for p in parts]))):
            holds = same(got, wanted[seen])
            assert holds.all(), (name, size, [a[seen][~holds][:3] for a in arrays], got[~holds][:3])
    if torch is not None:
        theirs = program(torch, *map(torch.from_numpy, arrays)).numpy()
        holds = same(wanted, theirs)
        assert wanted.dtype == theirs.dtype
        assert holds.all(), [v[~holds][:3] for v in (*arrays, wanted, theirs)]


@pytest.fixture(scope="module")
def torch():
    try:
        import torch
    except ModuleNotFoundError:
        return None  # then the modes are compared with each other alone
    return torch


@pytest.mark.parametrize("name", UNARY)
def test_of_one(name, torch):
    values = ROW
    if name.startswith("of a number"):  # modulo subnormals PyTorch gives NaN
        values = [v for v in ROW if not 0 < abs(v) < SUBNORMAL]
    check(UNARY[name], [np.array(values, np.float32)], torch)


@pytest.mark.parametrize("name", BINARY)
def test_of_two(name, torch):
    values = [v for v in ROW if not 0 < abs(v) < SUBNORMAL] if name in ("remainder", "floor_divide") else ROW
    x, y = (np.array(v, np.float32) for v in zip(*itertools.product(values, values), strict=True))
    check(BINARY[name], [x, y], torch)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("name", INTEGERS)
def test_of_integers(name, dtype, torch):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = {0, 1, 2, 3, 7, 63, 64, 100, low, low + 1, high - 1, high} | ({-1, -2, -3, -7} if low else set())
    pairs = [(a, b) for a, b in itertools.product(sorted(values), repeat=2) if b or name not in DIVISIONS]
    x, y = (np.array(v, dtype) for v in zip(*pairs, strict=True))
    check(INTEGERS[name], [x, y], torch)


DIVISIONS = ("remainder", "fmod", "floor_divide")


@pytest.mark.parametrize("p", [0.5, -0.5])
def test_a_root_beside_a_number_and_a_power_beside_a_tensor(p, torch):
    x = jtorch.tensor([-INF, -0.0, 4.0])
    root = [repr(v) for v in (x**p).tolist()]
    assert root[0] == "nan" and root[1] == {0.5: "-0.0", -0.5: "-inf"}[p]
    assert [repr(v) for v in jtorch.compile(lambda x, p: x**p)(x, p).tolist()] == root  # a runtime scalar
    power = [repr(v) for v in (x ** jtorch.tensor(p)).tolist()]
    assert power[:2] == {0.5: ["inf", "0.0"], -0.5: ["0.0", "inf"]}[p]
    assert [repr(v) for v in jtorch.compile(lambda x, p: x**p)(x, jtorch.tensor(p)).tolist()] == power
    if torch is not None:
        theirs = torch.tensor([-INF, -0.0, 4.0])
        assert [repr(v) for v in (theirs**p).tolist()] == root
        assert [repr(v) for v in (theirs ** torch.tensor(p)).tolist()] == power


EXTREMES = {
    "amin": lambda x: x.amin(), "amax": lambda x: x.amax(), "rows": lambda x: x.amax(-1),
    "columns": lambda x: (x.amin(0), x.amax(0)), "min": lambda x: x.min(), "max": lambda x: x.max(),
    "min(dim)": lambda x: x.min(-1).values, "max(dim)": lambda x: x.max(0).values,
    "aminmax": lambda x: x.aminmax(), "maximum": lambda x: jtorch.maximum(x, x.flip(0)),
    "minimum": lambda x: jtorch.minimum(x, x.flip(0)),
    "clamp": lambda x: (x.clamp(0.0, 1.0), x.clamp(max=-0.0)),
    "relu": lambda x: x.relu(), "median": lambda x: x.median(), "sort": lambda x: x.sort(stable=True).values,
    "cummax": lambda x: x.cummax(-1).values, "argmax": lambda x: (x.argmax(), x.argmin(-1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", EXTREMES)
def test_zeros_of_both_signs_in_extremes(name, dtype):
    """The same zero in both modes, of any number of elements: -0.0 is the smaller one."""
    f, random = EXTREMES[name], np.random.default_rng(0)
    compiled = jtorch.compile(f)
    for shape in ((1, 1), (1, 2), (3, 1), (2, 9), (17, 5), (5, 33)):
        for values in ([0.0, -0.0], [0.0, -0.0, -1.0], [0.0, -0.0, 1.0], [0.0, -0.0, NAN]):
            x = jtorch.from_numpy(random.choice(values, shape).astype(dtype))
            assert repr(compiled(x)) == repr(f(x))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["maximum", "minimum", "clamp_min", "clamp_max", "relu"])
def test_of_two_zeros_both_modes_choose_the_same(name, dtype):
    """The second one of two tensors, that of the input beside a limit; many elements as few."""

    def chosen(x):
        if name.startswith("clamp"):
            return [getattr(jtorch, name)(x, limit) for limit in (0.0, -0.0)]
        return [jtorch.relu(x)] if name == "relu" else [getattr(jtorch, name)(x, -x)]

    for repeats in (1, 40):
        x = jtorch.tensor([0.0, -0.0], dtype=getattr(jtorch, dtype)).repeat(repeats)
        wanted = x.signbit() if name not in ("maximum", "minimum") else (-x).signbit()
        for function in (chosen, jtorch.compile(chosen, fullgraph=True)):
            assert all(out.signbit().tolist() == wanted.tolist() for out in function(x))


def test_minus_zero_is_the_smaller_one():
    for row in ([0.0, -0.0], [-0.0, 0.0]):
        x = jtorch.tensor(row)
        assert (1 / x.amin()).item() == -INF
        assert (1 / x.amax()).item() == INF


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_targets_that_are_all_ignored_have_no_gradient(smoothing, weighted, compiled):
    weight = jtorch.tensor([1.0, 2.0, 0.5]) if weighted else None

    def f(x, target):
        loss = jtorch.nn.functional.cross_entropy(
            x, target, weight, ignore_index=1, label_smoothing=smoothing
        )
        loss.backward()
        return loss, x.grad

    x = jtorch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 1.0]], requires_grad=True)
    loss, grad = (jtorch.compile(f) if compiled else f)(x, jtorch.tensor([1, 1]))
    assert math.isnan(loss.item()) and grad.abs().sum().item() == 0.0


def test_take_along_dim_counts_from_the_end():
    x = jtorch.arange(6.0).reshape(3, 2)
    assert x.take_along_dim(jtorch.tensor([[-1, 0]]), 0).tolist() == [[4.0, 1.0]]


def test_logit_with_a_tensor_as_eps():
    x, eps = jtorch.tensor([0.1, 0.5, 0.99]), jtorch.tensor(0.2)
    assert jtorch.allclose(x.logit(eps=eps), x.logit(eps=0.2))
    assert jtorch.allclose(jtorch.compile(lambda x, eps: x.logit(eps=eps))(x, eps), x.logit(eps=0.2))


TINY = [1e-45, 1e-40, 1e-30, 1e-25, 1e-20, 1e-10, 0.0]


@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_gradients_at_tiny_numbers_divide_by_no_square_of_them(mode):
    x = jtorch.tensor([*TINY, *(-v for v in TINY)])
    special = jtorch.special
    for f, slope in ((jtorch.sinc, 0.0), (special.i1, 0.5), (special.i1e, 0.5)):
        found = mode(lambda x, f=f: jtorch.func.grad(lambda u: f(u).sum())(x))(x)
        assert found.tolist() == pytest.approx([slope] * len(x), abs=1e-6), f
    nonzero = x[x != 0]
    found = mode(lambda x: jtorch.func.grad(lambda u: jtorch.hypot(u, 0 * x).sum())(x))(nonzero)
    assert found.tolist() == nonzero.sign().tolist()


@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_gradients_at_nan_are_pytorchs(mode):
    """Of clamp NaN gets none, nor does a bound beside it; of relu it gets g, of a Huber loss NaN."""
    nan = math.nan
    x, bound = jtorch.tensor([nan, 0.5, 2.0, -1.0]), jtorch.tensor([0.0, nan, nan, 0.0])
    rows = {
        "clamp": (lambda t: t.clamp(0, 1), x, [0.0, 1.0, 0.0, 0.0]),
        "clamp(min=tensor)": (lambda t: t.clamp(min=jtorch.zeros(4)), x, [0.0, 1.0, 1.0, 0.0]),
        "bound below": (lambda b: x.clamp(min=b), bound, [0.0, 0.0, 0.0, 1.0]),
        "bound above": (lambda b: x.clamp(max=b), bound, [0.0, 0.0, 0.0, 0.0]),
        "relu": (lambda t: t.relu(), x, [1.0, 1.0, 1.0, 0.0]),
        "huber_loss": (lambda t: F.huber_loss(t, jtorch.zeros(4), reduction="sum"), x, [nan, 0.5, 1.0, -1.0]),
        "smooth_l1_loss": (
            lambda t: F.smooth_l1_loss(t, jtorch.zeros(4), reduction="sum"),
            x,
            [nan, 0.5, 1.0, -1.0],
        ),
    }
    for name, (f, at, expected) in rows.items():
        for repeats in (1, 400):  # more than 512 elements are chosen by masks of bits
            many = at.repeat(repeats)
            g = f if repeats == 1 else FEW.get(name, f)
            if repeats > 1 and name not in FEW:
                continue
            got = mode(lambda t, g=g: jtorch.func.grad(lambda u: g(u).sum())(t))(many).tolist()
            assert got == pytest.approx(expected * repeats, nan_ok=True), name


FEW = {"clamp": lambda t: t.clamp(0, 1), "relu": lambda t: t.relu()}


LARGE_EXPONENTS = [(1e-30, 130), (1.0, -149), (1e38, -270), (1e-45, 276), (0.0, 2000), (INF, -2000), (NAN, 3)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ldexp_by_an_exponent_that_no_power_of_the_dtype_has(dtype):
    kind = getattr(jtorch, dtype)
    for number, exponent in [*LARGE_EXPONENTS, (1e-4, 20), (5e-324, 1074), (1e300, -1100)]:
        x = jtorch.tensor(number, dtype=kind)
        with np.errstate(over="ignore"):
            wanted = np.ldexp(x.numpy(), exponent)
        for whole in (jtorch.int64, jtorch.int16):
            found = jtorch.ldexp(x, jtorch.tensor(exponent, dtype=whole))
            assert found.dtype is kind
            np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("dtype", [jtorch.float16, jtorch.bfloat16, jtorch.float32, jtorch.float64], ids=str)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_a_running_extreme_is_the_element_at_its_place(dtype, name):
    x = jtorch.tensor([0.0, -0.0, 0.0, -0.0] * 5, dtype=dtype)
    values, places = getattr(x, name)(0)
    assert places.tolist() == list(range(20))
    assert values.signbit().tolist() == x.signbit().tolist()


@pytest.mark.parametrize("name", ["fmax", "fmin", "maximum", "minimum"])
def test_the_larger_of_complex_numbers_is_refused(name):
    x = jtorch.tensor([1 + 2j, 1 - 2j])
    with pytest.raises(NotImplementedError, match=f'"{name}_cpu" not implemented for .ComplexFloat.'):
        getattr(jtorch, name)(x, x.flip(0))


def test_ldexp_by_an_exponent_of_fewer_bits_than_the_result():
    few = jtorch.tensor(2.59375, dtype=jtorch.bfloat16)
    of = lambda dtype: jtorch.ldexp(jtorch.tensor([1.0], dtype=dtype), few)  # noqa: E731
    assert of(jtorch.bfloat16).item() == 6.03125
    assert of(jtorch.float16).item() == 6.03515625
    assert of(jtorch.float32).item() == pytest.approx(2.0**2.59375, rel=2**-23)
    assert jtorch.ldexp(few, jtorch.tensor([0.0], dtype=jtorch.float64)).dtype is jtorch.float64


def test_ldexp_has_the_gradient_of_its_power():
    x = jtorch.tensor([1e-30, 0.0], requires_grad=True)
    jtorch.ldexp(x, jtorch.tensor([100, -3])).sum().backward()
    assert x.grad.tolist() == [2.0**100, 0.125]
