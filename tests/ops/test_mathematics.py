"""Elementwise mathematics against PyTorch: values, dtypes and gradients, special numbers, bits, errors."""

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
B = RNG.uniform(0.5, 2.0, (3, 4))
UNIT = RNG.uniform(-0.9, 0.9, (3, 4))
ROW, COLUMN = RNG.standard_normal(4), RNG.standard_normal((3, 1))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e300, -1e-300])
INTS = RNG.integers(-9, 10, (3, 4))
NONZERO = np.where(INTS == 0, 4, INTS)
BOOLS = INTS > 0
POSITIVE = ("log2", "log10", "reciprocal", "rsqrt", "lgamma", "digamma", "acosh")
UNARY = (
    "exp2", "expm1", "log1p", "log2", "log10", "sinh", "cosh", "tan", "asin", "acos", "atan", "asinh",
    "acosh",
    "atanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "frac", "fix", "reciprocal",
    "square",
    "erf", "erfc", "erfinv", "lgamma", "digamma", "i0", "sinc", "negative", "absolute", "deg2rad",
    "rad2deg", "nan_to_num", "logit", "trunc", "positive",
)  # fmt: skip
QUESTIONS = ("signbit", "isfinite", "isinf", "isnan", "isposinf", "isneginf", "isreal", "logical_not")
FROM_INTS = (
    "exp2", "log2", "sinh", "tan", "atan", "asinh", "reciprocal", "square", "erf", "lgamma", "sinc",
    "sgn", "negative",
    "absolute", "deg2rad", "nan_to_num", "i0", "trunc", "positive",
)  # fmt: skip
BINARY = (
    "atan2", "arctan2", "hypot", "fmod", "remainder", "floor_divide", "true_divide", "logaddexp",
    "logaddexp2",
    "xlogy", "copysign", "maximum", "minimum", "fmax", "fmin", "float_power", "subtract", "multiply",
    "divide",
    "greater", "greater_equal", "less", "less_equal", "not_equal", "eq", "ne", "logical_and", "logical_or",
    "logical_xor", "ldexp", "heaviside", "nextafter", "rsub", "pow",
)  # fmt: skip
UNDEFINED = ("floor_divide", "heaviside")  # PyTorch's nodes are there only to raise
INTEGER_BINARY = (
    "gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "fmod", "remainder", "floor_divide",
    "true_divide",
    "maximum", "minimum", "fmax", "fmin", "eq", "lt", "logical_xor", "float_power", "atan2", "copysign",
    "xlogy",
)  # fmt: skip


def _domain(name: str) -> np.ndarray:
    if name in POSITIVE or name == "arccosh":
        return B + 0.8
    return np.abs(UNIT) * 0.9 + 0.05 if name == "logit" else UNIT


@needs_torch
@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    # PyTorch's trigamma, the gradient of digamma, sums a series that is good for nine digits
    rtol = 1e-9 if name == "digamma" else 1e-12
    compare(lambda L, x: getattr(L, name)(x), jtorch, torch, [_domain(name)], rtol=rtol, atol=1e-13)
    compare(lambda L, x: getattr(x, name)(), jtorch, torch, [_domain(name).astype(np.float32).T])
    compare(lambda L, x: getattr(L, name)(x), jtorch, torch, [np.zeros((0, 3))])


@needs_torch
@pytest.mark.parametrize("name", UNARY)
def test_unary_special_numbers(name):
    values = SPECIAL[:-2] if name in ("i0", "tan") else SPECIAL
    with jtorch.no_grad(), torch.no_grad():
        a = getattr(jtorch, name)(jtorch.tensor(values))
        b = getattr(torch, name)(torch.tensor(values))
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    zeros = (b.numpy() == 0) & (np.abs(values) < 1e-200)
    np.testing.assert_array_equal(np.signbit(a.numpy())[zeros], np.signbit(b.numpy())[zeros])


@needs_torch
@pytest.mark.parametrize("name", FROM_INTS)
def test_unary_of_integers(name):
    compare(lambda L, x: getattr(L, name)(x), jtorch, torch, [np.abs(NONZERO)])


@needs_torch
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(name):
    for values in (SPECIAL, INTS, BOOLS):
        compare(lambda L, x: getattr(L, name)(x), jtorch, torch, [values])


@needs_torch
@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    names = {"requires": name not in UNDEFINED}
    call = lambda L, x, y: getattr(L, name)(x, y)  # noqa: E731
    left = B if name in ("pow", "float_power") else A
    cases = [(left, B), (left, B[:, :1]), (left[0], B), (left[0, 0], B[0, 0]), (np.zeros((0, 4)), B[0])]
    for x, y in cases:
        if name not in UNDEFINED:
            compare(call, jtorch, torch, [np.asarray(x), np.asarray(y)], rtol=1e-12, atol=1e-13)
        else:
            compare(lambda L, x, y: call(L, x.detach(), y.detach()), jtorch, torch,
                    [np.asarray(x), np.asarray(y)], **names)  # fmt: skip


@needs_torch
@pytest.mark.parametrize("name", [n for n in BINARY if n not in ("rsub",)])
def test_binary_special_numbers(name):
    values = SPECIAL[:-2]
    with jtorch.no_grad(), torch.no_grad():
        a = getattr(jtorch, name)(jtorch.tensor(values)[:, None], jtorch.tensor(values))
        b = getattr(torch, name)(torch.tensor(values)[:, None], torch.tensor(values))
    assert str(a.dtype)[1:] == str(b.dtype)
    if a.dtype.is_floating_point:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-15)
    else:
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@needs_torch
@pytest.mark.parametrize("name", INTEGER_BINARY)
def test_binary_of_integers(name):
    compare(lambda L, x, y: getattr(L, name)(x, y), jtorch, torch, [INTS, NONZERO])
    compare(lambda L, x, y: getattr(L, name)(x, y), jtorch, torch, [INTS.astype(np.int32), NONZERO[:1]])


FORMS = {
    "add alpha": (lambda L, x, y: L.add(x, y, alpha=0.3), [A, ROW]),
    "sub alpha": (lambda L, x, y: x.sub(y, alpha=2), [A, COLUMN]),
    "rsub alpha": (lambda L, x, y: L.rsub(x, y, alpha=2), [A, COLUMN]),
    "add alpha int": (lambda L, x: x.add(x, alpha=3), [INTS]),
    "div trunc": (lambda L, x, y: L.div(x, y, rounding_mode="trunc"), [A, B / 3]),
    "div floor": (lambda L, x, y: x.div(y, rounding_mode="floor"), [A, B / 3]),
    "div trunc int": (lambda L, x, y: L.div(x, y, rounding_mode="trunc"), [INTS, NONZERO]),
    "div floor int": (lambda L, x, y: L.divide(x, y, rounding_mode="floor"), [INTS, NONZERO]),
    "div number trunc": (lambda L, x: L.div(x, 0.3, rounding_mode="trunc"), [A]),
    "round decimals": (lambda L, x: L.round(x, decimals=2), [A]),
    "round minus": (lambda L, x: x.round(decimals=-1), [A * 40]),
    "clamp tensors": (lambda L, x, a, b: L.clamp(x, a, b), [A, ROW - 0.5, ROW + 0.4]),
    "clamp crossed": (lambda L, x: x.clamp(0.5, -0.5), [A]),
    "clip": (lambda L, x: L.clip(x, max=0.2), [A]),
    "clamp_min": (lambda L, x: L.clamp_min(x, 0.1), [A]),
    "clamp_max tensor": (lambda L, x, y: x.clamp_max(y), [A, ROW]),
    "clamp int float": (lambda L, x: x.clamp(min=0.5), [INTS]),
    "lerp": (lambda L, x, y: L.lerp(x, y, 0.3), [A, B]),
    "lerp far": (lambda L, x, y: L.lerp(x, y, 0.8), [A, ROW]),
    "lerp tensor": (lambda L, x, y, w: x.lerp(y, w), [A, B, UNIT]),
    "addcmul": (lambda L, x, y, z: L.addcmul(x, y, z, value=0.5), [A, B, ROW]),
    "addcmul plain": (lambda L, x, y, z: x.addcmul(y, z), [A, B, ROW]),
    "addcdiv": (lambda L, x, y, z: x.addcdiv(y, z, value=-2), [A, ROW, B]),
    "addcmul int": (lambda L, x: x.addcmul(x, x, value=0.5), [INTS]),
    "xlogy number": (lambda L, x: L.xlogy(2.0, x), [B]),
    "float_power number": (lambda L, x: L.float_power(x, 2), [A.astype(np.float32)]),
    "float_power base": (lambda L, x: L.float_power(2, x), [INTS]),
    "copysign number": (lambda L, x: L.copysign(x, -1.0), [A]),
    "fmod number": (lambda L, x: L.fmod(x, 0.7), [A]),
    "remainder number": (lambda L, x: L.remainder(x, -0.7), [A]),
    "int remainder float": (lambda L, x: x % 2.5, [INTS]),
    "logit eps": (lambda L, x: L.logit(x, 0.1), [np.array([-1.0, 0.05, 0.3, 0.95, 2.0])]),
    "nan_to_num values": (lambda L, x: x.nan_to_num(1.0, 2.0, -3.0), [SPECIAL]),
    "nan_to_num": (lambda L, x: L.nan_to_num(x), [SPECIAL[:-2].astype(np.float32)]),
    "frexp": (lambda L, x: tuple(L.frexp(x)), [A]),
    "polygamma": (lambda L, x: L.polygamma(2, x), [B]),
    "polygamma method": (lambda L, x: x.polygamma(1), [B]),
    "mvlgamma": (lambda L, x: L.mvlgamma(x, 3), [B + 2]),
    "igamma": (lambda L, x, y: L.igamma(x.detach(), y.detach()), [B, B[0]]),
    "maximum tie": (lambda L, x: L.fmax(x, x), [A]),
    "logaddexp infinite": (
        lambda L, x, y: L.logaddexp(x, y), [np.array([-np.inf, 1.0]), np.array([2.0, -np.inf])],
    ),
    "xlogy zero": (lambda L, x, y: L.xlogy(x, y), [np.array([0.0, 0.0, 1.0]), np.array([0.0, 2.0, 3.0])]),
    "copysign zero": (lambda L, x, y: L.copysign(x, y), [np.array([0.0, -1.0]), np.array([-1.0, 0.0])]),
    "sinc zero": (lambda L, x: L.sinc(x), [np.array([0.0, 0.5, 2.0])]),
    "invert": (lambda L, x: ~x, [INTS]),
    "invert bool": (lambda L, x: ~x, [BOOLS]),
    "invert uint8": (lambda L, x: ~x, [np.abs(INTS).astype(np.uint8)]),
    "and number": (lambda L, x: 6 & (x | 1), [INTS]),
    "xor bools": (lambda L, x: (x ^ True) & x, [BOOLS]),
    "xor mixed": (lambda L, x, y: x ^ y, [INTS, BOOLS]),
    "shift": (lambda L, x: (x << 3) >> 1, [INTS]),
    "shift number": (lambda L, x: 2 << x.abs(), [INTS]),
    "shift far": (lambda L, x: x << 9, [INTS.astype(np.int8)]),
    "shift tensor": (lambda L, x: L.bitwise_right_shift(x, x.abs()), [INTS]),
    "logical mixed": (lambda L, x, y: L.logical_and(x, y), [INTS, A]),
    "isclose": (lambda L, x: L.isclose(x, x + 1e-9), [A]),
    "isclose int": (lambda L, x: L.isclose(x, x + 1, atol=1), [INTS]),
    "gcd in place": (lambda L, x, y: x.clone().gcd_(y), [INTS, NONZERO]),
}  # fmt: skip


INTEGER_LIMITS = {
    "uint8": (0, 255), "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1), "bool": (0, 1),
}  # fmt: skip


@needs_torch
@pytest.mark.parametrize("dtype", INTEGER_LIMITS)
def test_integers_far_apart_are_not_close(dtype):
    least, most = INTEGER_LIMITS[dtype]
    left, right = [least, least, most, 0, 1], [0, most, least, 1, 0]
    for options in ({}, {"atol": 3}, {"rtol": 1e-12, "atol": 1e-12}, {"rtol": 0.3}):
        theirs, ours = (
            library.isclose(
                *(library.tensor(v, dtype=getattr(library, dtype)) for v in (left, right)), **options
            )
            for library in (torch, jtorch)
        )
        assert ours.tolist() == theirs.tolist()


def test_integers_far_apart_are_not_close_in_compiled_code():
    step = jtorch.compile(lambda x, y: jtorch.isclose(x, y))
    x, y = jtorch.tensor([-128, 5], dtype=jtorch.int8), jtorch.tensor([0, 5], dtype=jtorch.int8)
    assert step(x, y).tolist() == [False, True]
    assert not jtorch.allclose(x, y)


@needs_torch
@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    call, arrays = FORMS[name]
    # of PyTorch's derivatives of digamma see above
    rtol = 1e-6 if name == "nan_to_num" else 1e-9 if "polygamma" in name else 1e-12
    compare(call, jtorch, torch, arrays, rtol=rtol, atol=1e-13)


IN_PLACE = {
    "add_": lambda L, x: x.add_(x.detach(), alpha=2), "sub_": lambda L, x: x.subtract_(1.5),
    "div_": lambda L, x: x.div_(2.0, rounding_mode="floor"), "clamp_": lambda L, x: x.clamp_(-0.5, 0.5),
    "lerp_": lambda L, x: x.lerp_(x.detach() * 2, 0.3), "square_": lambda L, x: x.square_(),
    "expm1_": lambda L, x: x.expm1_(), "reciprocal_": lambda L, x: x.reciprocal_(),
    "round_": lambda L, x: x.round_(decimals=1), "neg": lambda L, x: x.negative_(),
    "trunc_": lambda L, x: x.fix_(), "ifloordiv": lambda L, x: _operate(x, "__imod__", 0.7),
    "ipow": lambda L, x: _operate(x, "__ipow__", 2), "eq_": lambda L, x: x.eq_(1.0).detach(),
    "addcmul_": lambda L, x: x.addcmul_(x.detach() * 2, x.detach() + 1, value=0.5),
    "pow_": lambda L, x: L.pow(input=x, exponent=3).add_(2),
    "atan2_": lambda L, x: x.atan2_(x.detach() + 3), "arctan_": lambda L, x: x.arctan_(),
    "cumsum_": lambda L, x: x.cumsum_(1), "logit_": lambda L, x: (x * 0.1 + 0.5).logit_(1e-6),
}  # fmt: skip


def _operate(x, name, other):
    return getattr(x, name)(other)


@needs_torch
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    compare(lambda L, x: IN_PLACE[name](L, x.clone()), jtorch, torch, [A], rtol=1e-11, atol=1e-12)


def test_operators_in_place_keep_the_memory():
    x = jtorch.tensor([6, 7, 8])
    before = x.data_ptr()
    x &= 6
    x |= 1
    x ^= 3
    x <<= 2
    x >>= 1
    x //= 2
    x %= 4
    assert x.tolist() == [((((v & 6) | 1) ^ 3) << 2 >> 1) // 2 % 4 for v in (6, 7, 8)]
    assert x.data_ptr() == before


@pytest.mark.parametrize("dtype", [jtorch.int8, jtorch.uint8, jtorch.int64])
def test_shifts_by_too_much(dtype):
    x = jtorch.tensor([-5, 5, 1], dtype=jtorch.int64).to(dtype)
    bits = 8 * x.element_size()
    sign = [-1 if v < 0 else 0 for v in x.tolist()]
    assert (x << bits).tolist() == [0, 0, 0]
    assert (x >> bits).tolist() == sign
    if dtype.is_signed:
        assert (x << -1).tolist() == [0, 0, 0]


def test_lerp_ends_exactly():
    x, end = jtorch.tensor([0.1, 1e8]), jtorch.tensor([0.7, -3.0])
    assert jtorch.lerp(x, end, 1.0).tolist() == end.tolist()
    assert jtorch.lerp(x, end, 0.0).tolist() == x.tolist()


def test_closed_forms():
    x = np.array([0.3, 1.2, 2.5])
    t = jtorch.tensor(x)
    np.testing.assert_allclose(jtorch.lgamma(t).numpy(), [math.lgamma(v) for v in x], rtol=1e-14)
    np.testing.assert_allclose(jtorch.logaddexp(t, -t).numpy(), np.log(2 * np.cosh(x)), rtol=1e-14)
    mantissa, exponent = jtorch.frexp(t)
    assert exponent.dtype is jtorch.int32
    np.testing.assert_array_equal(jtorch.ldexp(mantissa, exponent).numpy(), x)


ERRORS = {
    "bits of floats": (
        lambda x, i, b: x & 1, NotImplementedError, '"bitwise_and_cpu" not implemented for \'Float\'',
    ),
    "invert floats": (lambda x, i, b: ~x, TypeError, r"~ \(operator.invert\) is only implemented on integer"),
    "gcd of floats": (lambda x, i, b: jtorch.gcd(x, x), NotImplementedError, '"gcd_cpu" not implemented'),
    "negated bools": (lambda x, i, b: -b, RuntimeError, "Negation, the `-` operator, on a bool tensor"),
    "bools apart": (
        lambda x, i, b: b - b, RuntimeError, "Subtraction, the `-` operator, with two bool tensors",
    ),
    "plus a bool": (lambda x, i, b: +b, RuntimeError, r"The `\+` operator, on a bool tensor"),
    "alpha": (
        lambda x, i, b: i.add(i, alpha=0.5), RuntimeError, "argument alpha must not be a floating point",
    ),
    "bool alpha": (lambda x, i, b: i.add(i, alpha=True), RuntimeError, "Boolean alpha only supported"),
    "power": (lambda x, i, b: i**-1, RuntimeError, "Integers to negative integer powers are not allowed"),
    "floor": (lambda x, i, b: i // 0, RuntimeError, "ZeroDivisionError"),
    "fmod": (lambda x, i, b: i.fmod(0), RuntimeError, "ZeroDivisionError"),
    "mod": (lambda x, i, b: i % 0, RuntimeError, "ZeroDivisionError"),
    "rounding": (
        lambda x, i, b: i.div(2, rounding_mode="up"), RuntimeError, "rounding_mode to be one of None",
    ),
    "trunc": (lambda x, i, b: i.div(0, rounding_mode="trunc"), RuntimeError, "ZeroDivisionError"),
    "clamp": (lambda x, i, b: x.clamp(), RuntimeError, "At least one of 'min' or 'max' must not be None"),
    "addcdiv": (lambda x, i, b: i.addcdiv(i, i), RuntimeError, "Integer division with addcdiv is no longer"),
    "heaviside": (lambda x, i, b: jtorch.heaviside(x, i), RuntimeError, "tensors with different dtypes"),
    "isclose": (lambda x, i, b: jtorch.isclose(x, i), RuntimeError, "Float did not match Long"),
    "polygamma": (lambda x, i, b: jtorch.polygamma(-1, x), RuntimeError, "does not support negative n"),
    "frac": (lambda x, i, b: i.frac(), NotImplementedError, '"frac_cpu" not implemented for \'Long\''),
    "frexp": (lambda x, i, b: jtorch.frexp(i), RuntimeError, "only supports floating-point dtypes"),
    "float into int": (lambda x, i, b: i.add_(0.5), RuntimeError, "result type Float can't be cast"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, sentence = ERRORS[name]
    with pytest.raises(kind, match=sentence):
        call(jtorch.tensor([1.0, 2.0]), jtorch.tensor([1, 2]), jtorch.tensor([True, False]))


@pytest.mark.parametrize("dtype", [jtorch.float32, jtorch.float64])
def test_the_cube_is_two_products(dtype):
    x = jtorch.tensor(
        [0.0, -0.0, 1.1, -2.3, 1e-20, 3e12, float("inf"), -float("inf"), float("nan")], dtype=dtype
    )
    found, expected = x**3.0, x * x * x
    assert repr(found) == repr(expected)
    assert found.isnan().equal(x.isnan())
