"""Primitives mean the same as NumPy twins and as LLVM instructions."""

import ctypes
import math
from fractions import Fraction

import numpy as np
import pytest

from jtorch.native import intrinsics
from jtorch.native.intrinsics import POINTERS, PRIMITIVES, fma, mulhi_u64

numba = pytest.importorskip("numba", reason="primitives are compiled by Numba")

DTYPES = {"f32": np.float32, "f64": np.float64}
SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.5, -0.5, 1e-30, -1e30, math.inf, -math.inf, math.nan]


def compiled(text, **names):
    """The function `kernel(args)` of `text` as native code, called with a list of int64 words."""
    from jtorch.native import jit_names

    jit_names.register()
    namespace = {**vars(intrinsics), **names, "np": np}
    exec(text, namespace)
    signature = numba.types.int64(numba.types.CPointer(numba.types.int64))
    kernel = numba.cfunc(signature, error_model="numpy")(namespace["kernel"])

    def call(*words):
        block = np.array(words, np.int64)
        return kernel.ctypes(block.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)))

    call.llvm = kernel._library.get_llvm_str()
    return call


def map_kernel(name, kinds, out_kind):
    """A kernel that applies `name` to arrays, one of `kinds` each."""
    loads = "\n".join(f"    x{k} = as_pointer_{kind}(args[{k + 2}], {k})" for k, kind in enumerate(kinds))
    arguments = ", ".join(f"x{k}[i]" for k in range(len(kinds)))
    return f"""
def kernel(args):
    n = args[0]
    out = as_pointer_{out_kind}(args[1], 63)
{loads}
    for i in range(n):
        out[i] = {name}({arguments})
    return 0
"""


def apply_compiled(name, arrays, kinds, out_kind):
    out = np.empty(len(arrays[0]), intrinsics.POINTER_DTYPES[out_kind])
    compiled(map_kernel(name, kinds, out_kind))(len(out), out.ctypes.data, *[a.ctypes.data for a in arrays])
    return out


def same_bits(a, b):
    return np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(
        np.nan_to_num(a, nan=0.0, posinf=np.inf, neginf=-np.inf).tobytes(),
        np.nan_to_num(b, nan=0.0, posinf=np.inf, neginf=-np.inf).tobytes(),
    )


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ["rint", "floor", "ceil", "trunc", "sqrt", "fabs"])
def test_unary_primitives_match_their_twins(name, kind):
    x = np.array([*SPECIAL, 0.5, 1.5, 3.7, -3.7, 1e10], DTYPES[kind])
    with np.errstate(invalid="ignore"):
        twin = PRIMITIVES[name](x)
    assert same_bits(apply_compiled(name, [x], [kind], kind), twin)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(
    "name",
    [
        "maximum",
        "minimum",
        "copysign",
        "fmod",
        "add_reassoc",
        "mul_reassoc",
        "max_reassoc",
        "min_reassoc",
    ],
)
def test_binary_primitives_match_their_twins(name, kind):
    x, y = (a.ravel().copy() for a in np.meshgrid(SPECIAL, SPECIAL))
    x, y = x.astype(DTYPES[kind]), y.astype(DTYPES[kind])
    with np.errstate(all="ignore"):
        twin = PRIMITIVES[name](x, y)
        scalars = np.array([PRIMITIVES[name](a, b) for a, b in zip(x, y, strict=True)], DTYPES[kind])
    assert same_bits(apply_compiled(name, [x, y], [kind, kind], kind), twin)
    assert same_bits(scalars, twin)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extrema_keep_nan_on_either_side(name):
    nan, one = np.float32(np.nan), np.float32(1)
    assert np.isnan(PRIMITIVES[name](nan, one)) and np.isnan(PRIMITIVES[name](one, nan))


def exact_fma(a, b, c, dtype):
    """`a * b + c` rounded once, for finite arguments and a result other than 0."""
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if dtype is np.float64:
        return float(exact)
    nearby = np.float32(float(exact))
    candidates = [
        nearby,
        np.nextafter(nearby, np.float32(np.inf)),
        np.nextafter(nearby, np.float32(-np.inf)),
    ]
    return min(candidates, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.int32)) & 1))


@pytest.mark.parametrize("kind", DTYPES)
def test_fma_twin_rounds_once(kind):
    dtype, rng = DTYPES[kind], np.random.default_rng(0)
    a, b = (rng.standard_normal(600) * 10.0 ** rng.uniform(-12, 12, 600) for _ in range(2))
    a, b = a.astype(dtype), b.astype(dtype)
    c = np.where(rng.random(600) < 0.5, -a * b, rng.standard_normal(600)).astype(
        dtype
    )  # cancels half the time
    c[:20] = (a * b)[:20] * dtype(2.0) ** rng.integers(-60, 60, 20).astype(dtype)
    expected = np.array([exact_fma(*abc, dtype) for abc in zip(a, b, c, strict=True)], dtype)
    assert np.array_equal(fma(a, b, c), expected)
    assert all(fma(a[i], b[i], c[i]) == expected[i] for i in range(30))
    assert type(fma(a[0], b[0], c[0])) is dtype


@pytest.mark.parametrize("kind", DTYPES)
def test_fma_compiled_equals_its_twin(kind):
    dtype, rng = DTYPES[kind], np.random.default_rng(1)
    tiny = float(np.finfo(dtype).tiny)
    values = [
        *SPECIAL,
        float(np.finfo(dtype).max),
        tiny,
        tiny / 8,
        -tiny,
        1 + float(np.finfo(dtype).eps),
    ]
    grid = [g.ravel() for g in np.meshgrid(values, values, values)]
    a, b, c = (np.concatenate([g, rng.standard_normal(500)]).astype(dtype) for g in grid)
    assert same_bits(apply_compiled("fma", [a, b, c], [kind] * 3, kind), fma(a, b, c))


@pytest.mark.slow
def test_bit_casts_and_conversions():
    x = np.array([0.0, -0.0, 1.0, -2.5, 1e30, math.inf], np.float32)
    assert np.array_equal(apply_compiled("bits_i32", [x], ["f32"], "i32"), x.view(np.int32))
    assert np.array_equal(apply_compiled("float_from_i32", [x.view(np.int32)], ["i32"], "f32"), x)
    wide = x.astype(np.float64)
    assert np.array_equal(apply_compiled("bits_i64", [wide], ["f64"], "i64"), wide.view(np.int64))
    assert np.array_equal(apply_compiled("float_from_i64", [wide.view(np.int64)], ["i64"], "f64"), wide)
    ints = np.array([-5, 0, 7, 2**31 - 1], np.int32)
    for name, kind in {"to_f32": "f32", "to_f64": "f64", "to_i64": "i64", "to_u64": "u64"}.items():
        assert np.array_equal(apply_compiled(name, [ints], ["i32"], kind), PRIMITIVES[name](ints))
    small = np.array([-5.9, 0.5, 7.99], np.float64)
    assert apply_compiled("to_i32", [small], ["f64"], "i32").tolist() == [-5, 0, 7]


def test_mulhi_u64():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2**64, 200, dtype=np.uint64) for _ in range(2))
    a[:2] = b[:2] = 2**64 - 1
    expected = [int(p) * int(q) >> 64 for p, q in zip(a, b, strict=True)]
    assert mulhi_u64(a, b).tolist() == expected
    assert int(mulhi_u64(a[0], b[0])) == expected[0]
    assert apply_compiled("mulhi_u64", [a, b], ["u64", "u64"], "u64").tolist() == expected


REDUCE = """
def kernel(args):
    n = args[0]
    out = as_pointer_f32(args[1], 0)
    x = as_pointer_f32(args[2], 1)
    accumulator = np.float32({start})
    for i in range(n):
        accumulator = {step}
    out[0] = accumulator
    return 0
"""


@pytest.mark.parametrize(
    ("step", "start", "reference"),
    [
        ("add_reassoc(accumulator, x[i])", "0.0", np.sum),
        ("mul_reassoc(accumulator, x[i])", "1.0", np.prod),
        ("max_reassoc(accumulator, x[i])", "-np.inf", np.max),
        ("min_reassoc(accumulator, x[i])", "np.inf", np.min),
    ],
)
def test_reductions_vectorise_and_keep_nan(step, start, reference):
    kernel = compiled(REDUCE.format(step=step, start=start))
    assert "vector.body" in kernel.llvm
    x = np.random.default_rng(0).uniform(0.9, 1.1, 1001).astype(np.float32)
    out = np.empty(1, np.float32)
    kernel(len(x), out.ctypes.data, x.ctypes.data)
    assert out[0] == pytest.approx(float(reference(x.astype(np.float64))), rel=1e-5)
    x[777] = np.nan
    kernel(len(x), out.ctypes.data, x.ctypes.data)
    assert np.isnan(out[0])
    kernel(0, out.ctypes.data, x.ctypes.data)
    assert out[0] == np.float32(eval(start, {"np": np}))


def test_only_the_marked_instruction_is_reordered():
    plain = compiled(REDUCE.format(step="accumulator + x[i]", start="0.0"))
    marked = compiled(REDUCE.format(step="add_reassoc(accumulator, x[i]) - np.float32(0.0)", start="0.0"))
    x = np.random.default_rng(0).uniform(-1, 1, 1001).astype(np.float32)
    out = np.empty(1, np.float32)
    plain(len(x), out.ctypes.data, x.ctypes.data)
    # one by one, in order; ARM's loop is made of vectors all the same, which it adds up in order
    assert out[0] == np.add.accumulate(x)[-1]
    assert "fast" not in marked.llvm and "nnan" not in marked.llvm


COPY = """
def kernel(args):
    n = args[0]
    out = as_pointer_{kind}(args[1], 0)
    x = as_pointer_{kind}(args[2], 1)
    for i in range(n):
        out[i] = x[i]
    return 0
"""


@pytest.mark.parametrize("kind", POINTERS)
def test_pointers_of_every_dtype(kind):
    x = np.array([0, 1, 2, 1, 0, 3, 127], intrinsics.POINTER_DTYPES[kind])
    out = np.zeros_like(x)
    compiled(COPY.format(kind=kind))(len(x), out.ctypes.data, x.ctypes.data)
    assert np.array_equal(out, x)
    out[:] = 0
    namespace = dict(vars(intrinsics))
    exec(COPY.format(kind=kind), namespace)  # the same text unjitted
    assert namespace["kernel"]([len(x) - 1, out.ctypes.data, x.ctypes.data]) == 0
    assert np.array_equal(out[:-1], x[:-1]) and out[-1] == 0


def test_bool_buffers_hold_booleans():
    text = """
def kernel(args):
    n = args[0]
    out = as_pointer_bool(args[1], 0)
    mask = as_pointer_bool(args[2], 1)
    x = as_pointer_f32(args[3], 2)
    for i in range(n):
        out[i] = mask[i] and x[i] > np.float32(0.5)
        x[i] = select(mask[i], x[i], np.float32(0.0))
    return 0
"""
    x = np.linspace(0, 1, 100, dtype=np.float32)
    mask = np.arange(100) % 3 == 0
    out, expected = np.zeros(100, bool), np.where(mask, x, np.float32(0))
    kernel = compiled(text)
    kernel(100, out.ctypes.data, mask.ctypes.data, x.ctypes.data)
    assert np.array_equal(out, mask & (expected > 0.5)) and np.array_equal(x, expected)
    assert out.view(np.uint8).max() == 1


def many_pointers(count, scoped):
    scope = (lambda k: f", {k}") if scoped else (lambda k: "")
    lines = ["def kernel(args):", "    n = args[0]"]
    lines += [f"    p{k} = as_pointer_f32(args[{k + 1}]{scope(k)})" for k in range(count)]
    lines += ["    for i in range(n):"]
    lines += [f"        p{k}[i] = p{k}[i] + p{(k + 1) % count}[i]" for k in range(0, count, 2)]
    return "\n".join([*lines, "    return 0"])


def test_scopes_spare_the_overlap_checks():
    assert "vector.memcheck" in compiled(many_pointers(8, scoped=False)).llvm
    scoped = compiled(many_pointers(8, scoped=True)).llvm
    assert "vector.memcheck" not in scoped and "vector.body" in scoped


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("fma(x[i], np.float64(2.0), x[i])", "mixes f32 and f64"),
        ("select(x[i] > np.float32(0), x[i], 0.0)", "mixes f32 and f64"),
        ("mulhi_u64(x[i], x[i])", "takes two u64, not f32 and f32"),
        ("bits_i64(x[i])", "takes f64, not f32"),
        ("fma(args, x[i], x[i])", "must be a real number"),
    ],
)
def test_mixed_dtypes_are_errors(expression, message):
    text = map_kernel("IDENTITY", ["f32"], "f32").replace("x0", "x").replace("IDENTITY(x[i])", expression)
    with pytest.raises(numba.core.errors.TypingError, match=message):
        compiled(text)


def test_scope_is_a_literal_in_range():
    with pytest.raises(numba.core.errors.TypingError, match="literal from 0 to 63"):
        compiled(COPY.format(kind="f32").replace("args[2], 1", "args[2], 64"))


def test_registering_twice_is_harmless():
    from jtorch.native import jit_names

    jit_names.register()
    jit_names.register()
    assert compiled(COPY.format(kind="f32"))


def test_branches_in_kernel_math_are_errors():
    from jtorch.native.llvm_values import LLVMValue

    with pytest.raises(TypeError, match="use select"):
        bool(LLVMValue(None, "b1", None))
