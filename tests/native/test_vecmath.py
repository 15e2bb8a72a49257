"""Kernel math against wider arithmetic: error bounds, special values, twin = compiled,
vectorised."""

import ctypes
import functools
import math
import warnings

import numpy as np
import pytest

from jtorch.native import vecmath
from jtorch.native.vecmath import FUNCTIONS, ULP_BOUNDS

numba = pytest.importorskip("numba", reason="kernel math is compiled by Numba")

POINTS = 1 << 20
EXACT = {
    "ceil",
    "fabs",
    "floor",
    "maximum",
    "minimum",
    "rint",
    "sqrt",
    "trunc",
    "sign",
    "remainder",
    "floor_divide",
}
NAMES = sorted(ULP_BOUNDS)
wide_longdouble = np.finfo(np.longdouble).nmant >= 63
needs_longdouble = pytest.mark.skipif(
    not wide_longdouble, reason="float64 needs a longdouble of 64 bits as reference"
)


def dtype_of(name):
    return np.float32 if name.endswith("f32") else np.float64


def arity(name):
    return 2 if name[:-4] in {"pow", "maximum", "minimum", "remainder", "floor_divide"} else 1


@functools.cache
def kernel(name):
    """(native function, its optimised LLVM IR) applying `name` to arrays."""
    from jtorch.native import intrinsics, jit_names

    jit_names.register()
    kind = name[-3:]
    loads = "".join(f"    x{k} = as_pointer_{kind}(args[{k + 2}], {k})\n" for k in range(arity(name)))
    arguments = ", ".join(f"x{k}[i]" for k in range(arity(name)))
    text = f"""
def kernel(args):
    n = args[0]
    out = as_pointer_{kind}(args[1], 63)
{loads}
    for i in range(n):
        out[i] = {name}({arguments})
    return 0
"""
    namespace = {**vars(intrinsics), name: FUNCTIONS[name]}
    exec(text, namespace)
    signature = numba.types.int64(numba.types.CPointer(numba.types.int64))
    native = numba.cfunc(signature, error_model="numpy")(namespace["kernel"])
    return native, native._library.get_llvm_str()


def compiled(name, *arrays):
    out = np.empty_like(arrays[0])
    block = np.array([len(out), out.ctypes.data, *[a.ctypes.data for a in arrays]], np.int64)
    assert kernel(name)[0].ctypes(block.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))) == 0
    return out


# --- references in wider arithmetic ---------------------------------------------------------------


ROOT_PI = np.sqrt(4 * np.arctan(np.longdouble(1)))


def wide_erf(x):
    """erf by the series of positive terms 2 x exp(-x**2) / sqrt(pi) sum (2 x**2)**n / (2 n +
    1)!!."""
    size = np.minimum(np.abs(x), x.dtype.type(7))
    term = total = np.ones_like(size)
    for n in range(1, 160):
        term = term * (2 * size * size / (2 * n + 1))
        total = total + term
    return np.copysign(2 * size * total * np.exp(-size * size) / ROOT_PI, x)


def wide_erfc(x):
    """1 - erf up to 2, beyond the continued fraction exp(-x**2) / sqrt(pi) / (x + (1/2) / (x + 1 /
    (x + ...)))."""
    t = np.clip(x, x.dtype.type(2), x.dtype.type(200))
    fraction = t
    for k in range(150, 0, -1):
        fraction = t + (x.dtype.type(k) / 2) / fraction
    head = t.astype(np.float32).astype(t.dtype)  # the square of 24 bits is exact
    square_rest = (t - head) * (t + head)
    tail = np.exp(-head * head) * np.exp(-square_rest) / (ROOT_PI * fraction)
    return np.where(x < 2, 1 - wide_erf(x), tail)


def wide_sigmoid(x):
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


REFERENCES = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sigmoid": wide_sigmoid, "tanh": np.tanh,
    "sinh": np.sinh, "cosh": np.cosh,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "pow": np.power, "erf": wide_erf, "erfc": wide_erfc, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan,
}  # fmt: skip


def reference(name, *arrays):
    """The function in float64 (for float32) or longdouble (for float64 and the error functions)."""
    base = name[:-4]
    wide = np.float64 if name.endswith("f32") and not base.startswith("erf") else np.longdouble
    with np.errstate(all="ignore"):
        return REFERENCES[base](*[a.astype(wide) for a in arrays])


def ulps(result, exact, dtype):
    """|result - exact| in units in the last place of `dtype` at `exact`; an overflow that rounds to
    infinity is right."""
    info, wide = np.finfo(dtype), exact.dtype.type
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(exact)
        unit = np.ldexp(wide(1), np.maximum(exponent - 1, info.minexp) - info.nmant)
        error = np.abs(result.astype(wide) - exact) / unit
        overflow = (np.abs(exact) >= wide(info.max) * (1 + wide(info.eps) / 4)) & np.isinf(result)
        right = (result == exact) | (np.isnan(result) & np.isnan(exact)) | (overflow & (result * exact > 0))
        return np.where(right, 0, np.where(np.isnan(error), np.inf, error)).astype(np.float64)


# --- points ---------------------------------------------------------------------------------------


def points(name):
    """A tenth of all bit patterns at random, the rest where the function is neither constant nor
    overflowing."""
    dtype, rng = dtype_of(name), np.random.default_rng(len(name))
    count = (
        POINTS // 8 if name in {"erf_f64", "erfc_f64", "erfc_f32", "erf_f32"} else POINTS
    )  # slow references
    patterns = rng.integers(0, 2**64, count // 10, dtype=np.uint64)
    patterns = (
        patterns.view(np.float64) if dtype is np.float64 else (patterns >> np.uint64(32)).astype(np.uint32)
    )
    top = math.log(float(np.finfo(dtype).max))
    pieces = [
        patterns.view(dtype),
        rng.standard_normal(count // 5) * 10 ** rng.uniform(-4, 4, count // 5),
        1 + rng.standard_normal(count // 5) * 10 ** rng.uniform(-8, 0, count // 5),
        rng.uniform(-1.1 * top, 1.1 * top, count // 4),
        rng.uniform(-3, 3, count // 4),
    ]
    return np.concatenate([piece.astype(dtype) for piece in pieces])


def power_points(dtype):
    rng, top = np.random.default_rng(0), math.log(float(np.finfo(dtype).max))
    logarithm = np.concatenate([rng.uniform(-top, top, POINTS // 4), rng.uniform(-1e-2, 1e-2, POINTS // 4)])
    return np.exp(logarithm).astype(dtype), (
        rng.uniform(-1.1 * top, 1.1 * top, POINTS // 2) / logarithm
    ).astype(dtype)


def special(dtype):
    info = np.finfo(dtype)
    one, tiny, least = dtype(1), info.tiny, info.smallest_subnormal
    values = [
        0.0,
        math.inf,
        info.max,
        tiny,
        tiny / 3,
        least,
        one,
        np.nextafter(one, dtype(0)),
        0.5,
        2,
        3,
        1e-5,
        30,
    ]
    values += [1.5, 88.8, 104, 710, 746, 1e6, 2.0**24, 2.0**53, info.eps, np.pi]
    return np.array([math.nan, *values, *[-v for v in values]], dtype)


# --- tests ----------------------------------------------------------------------------------------


def test_every_function_states_a_bound_and_has_a_reference():
    assert {name for name in FUNCTIONS if name[:-4] not in EXACT} == set(ULP_BOUNDS)
    assert {name[:-4] for name in ULP_BOUNDS} == set(REFERENCES)
    assert all(f"{name[:-4]}_f32" in FUNCTIONS and f"{name[:-4]}_f64" in FUNCTIONS for name in FUNCTIONS)


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("f32") and not n.startswith("erf")])
def test_float32_error_is_within_the_bound(name):
    arrays = power_points(np.float32) if name == "pow_f32" else (points(name),)
    assert ulps(compiled(name, *arrays), reference(name, *arrays), np.float32).max() <= ULP_BOUNDS[name]


@pytest.mark.slow
@needs_longdouble
@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("f64") or n.startswith("erf")])
def test_error_against_longdouble_is_within_the_bound(name):
    arrays = power_points(np.float64) if name == "pow_f64" else (points(name),)
    assert ulps(compiled(name, *arrays), reference(name, *arrays), dtype_of(name)).max() <= ULP_BOUNDS[name]


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("pow")])
def test_special_values(name):
    dtype = dtype_of(name)
    x = special(dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        exact = reference(name, x).astype(dtype)
    result = compiled(name, x)
    decided = np.isnan(exact) | np.isinf(exact) | (exact == 0)
    if name.startswith("tan"):  # tan of a number next to pi / 2 is large, not special
        decided &= np.abs(x) != dtype(np.pi)
    assert np.array_equal(result[decided], exact[decided], equal_nan=True)
    signs = decided & (exact == 0)
    assert np.array_equal(np.signbit(result[signs]), np.signbit(exact[signs]))
    assert not np.any(np.isnan(result) & ~np.isnan(exact))


def c99_power(x, y):
    """pow of Python floats with C99's values where Python raises."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
    except ValueError:
        if x != 0:
            return math.nan
        return math.copysign(math.inf, x) if y == int(y) and int(y) % 2 else math.inf


@pytest.mark.parametrize("name", ["pow_f32", "pow_f64"])
def test_pow_special_values(name):
    dtype = dtype_of(name)
    values = np.concatenate([special(dtype), np.array([3, -3, 101, -1074, 1.5, -1.5], dtype)])
    x, y = (a.ravel().copy() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        exact = np.array([c99_power(float(a), float(b)) for a, b in zip(x, y, strict=True)]).astype(dtype)
    result = compiled(name, x, y)
    decided = ~np.isfinite(exact) | (exact == 0)
    assert np.array_equal(result[decided], exact[decided], equal_nan=True)
    assert np.array_equal(np.signbit(result[exact == 0]), np.signbit(exact[exact == 0]))
    with np.errstate(all="ignore"):
        assert np.all(np.abs(result - exact)[~decided] <= np.spacing(np.abs(exact[~decided])))


@pytest.mark.parametrize("name", ["remainder_f32", "remainder_f64", "floor_divide_f32", "floor_divide_f64"])
def test_division_with_python_signs_is_numpy_bit_for_bit(name):
    dtype, rng = dtype_of(name), np.random.default_rng(0)
    x, y = (a.ravel() for a in np.meshgrid(special(dtype), special(dtype)))
    x = np.concatenate([x, rng.standard_normal(3000).astype(dtype) * 100])
    y = np.concatenate([y, rng.standard_normal(3000).astype(dtype)])
    with np.errstate(all="ignore"):
        exact = getattr(np, name[:-4])(x, y)
        if name.startswith("remainder"):  # 0 has the sign of x here, as in PyTorch
            exact = np.where(exact == 0, np.copysign(exact, x), exact)
    result = compiled(name, x, y)
    assert np.array_equal(result, exact, equal_nan=True)
    number = ~np.isnan(exact)
    assert np.array_equal(np.signbit(result[number]), np.signbit(exact[number]))


def test_sine_of_huge_arguments():
    # 6381956970095103 * 2**797 is the float64 nearest to a multiple of pi / 2 (Kahan)
    x = np.array([1e22, 6381956970095103.0 * 2.0**797, np.finfo(np.float64).max])
    assert compiled("sin_f64", x)[0] == -0.8522008497671888
    assert compiled("cos_f64", x)[1] == pytest.approx(-4.68716592425462761112e-19, rel=2e-16)
    assert compiled("sin_f64", x)[2] == pytest.approx(0.004961954789184062, rel=2e-16)
    assert compiled("sin_f32", np.array([1e22, 3.4e38], np.float32)) == pytest.approx(
        np.sin(np.array([1e22, 3.4e38], np.float32).astype(np.float64)), rel=2e-7
    )


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_twin_equals_compiled_bit_for_bit(name):
    dtype, rng = dtype_of(name), np.random.default_rng(3)
    x = np.concatenate([special(dtype), rng.standard_normal(300).astype(dtype) * dtype(4)])
    arrays = [x, np.roll(x, 7)][: arity(name)]
    result = compiled(name, *arrays)
    with np.errstate(invalid="ignore"):
        twin = FUNCTIONS[name](*arrays)
        scalars = [FUNCTIONS[name](*values) for values in zip(*[a[-12:] for a in arrays], strict=True)]
    assert twin.dtype == dtype and {type(s) for s in scalars} == {dtype}
    assert np.array_equal(result, twin, equal_nan=True)
    number = ~np.isnan(twin)
    assert np.array_equal(np.signbit(result[number]), np.signbit(twin[number]))
    assert np.array_equal(np.array(scalars), twin[-12:], equal_nan=True)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {f"{n}_{k}" for n in EXACT for k in ("f32", "f64")}))
def test_loops_vectorise_without_libm(name):
    llvm = kernel(name)[1]
    assert "vector.body" in llvm
    kind = "float" if name.endswith("f32") else "double"
    body = llvm.partition("vector.body:")[2].partition("middle.block:")[0]
    assert f"x {kind}>" in body
    calls = [line for line in body.splitlines() if " call " in line and "@llvm." not in line]
    assert not calls


@pytest.mark.parametrize("name", ["exp_f32", "log_f32", "tanh_f32", "sigmoid_f32", "erf_f32", "log1p_f32"])
def test_no_double_enters_float32_code(name):
    body = kernel(name)[1].partition("vector.body:")[2].partition("middle.block:")[0]
    assert "double" not in body


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no kernel math function is called gamma_f32"):
        vecmath.gamma_f32  # noqa: B018
