"""What instructions compute, against Python's integers, fractions and floats."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tests.cuda.snippets import PLACE, kernel, run

_REGISTERS = {1: "rs", 2: "rs", 4: "r", 8: "rd"}


def register(dtype, number):
    dtype = np.dtype(dtype)
    letters = {"f4": "f", "f8": "fd"}.get(dtype.str[1:], _REGISTERS[dtype.itemsize])
    return f"%{letters}{number}"


def kind(dtype):
    dtype = np.dtype(dtype)
    return f"{dtype.kind.replace('i', 's')}{8 * dtype.itemsize}"


def result(text, *columns, out):
    """``text`` for each row of ``columns``: {0} is the register of the result, {1} of the first column."""
    columns = [np.ascontiguousarray(c) for c in columns]
    found = np.zeros(len(columns[0]), out)
    registers = [register(out, 8)] + [register(c.dtype, 5 + k) for k, c in enumerate(columns)]
    body = PLACE
    for k, c in enumerate(columns, 1):
        body += f"ld.param.u64 %rd10, [k_param_{k}]; mul.wide.u32 %rd11, %r4, {c.itemsize};"
        body += f"add.s64 %rd10, %rd10, %rd11; ld.global.{kind(c.dtype)} {registers[k]}, [%rd10];\n"
    body += text.format(*registers)
    body += f"mul.wide.u32 %rd11, %r4, {found.itemsize}; add.s64 %rd10, %rd1, %rd11;"
    body += f"st.global.{kind(out)} [%rd10], {registers[0]};"
    run(kernel(body, "u64 " * (1 + len(columns))), found, *columns, block=len(found))
    return found


def pairs(values, dtype):
    a, b = zip(*itertools.product(values, repeat=2), strict=True)
    return np.array(a, dtype), np.array(b, dtype)


# -- integers ----------------------------------------------------------------------------------------------

INTEGERS = ("int16", "int32", "int64", "uint16", "uint32", "uint64")


def corners(dtype):
    info = np.iinfo(dtype)
    return sorted({info.min, info.min + 1, 0, 1, 2, 7, 100, info.max // 3, info.max - 1, info.max} | (
        {-1, -2, -7} if info.min else set()))  # fmt: skip


def wrapped(value, dtype):
    info = np.iinfo(dtype)
    return (value - info.min) % (info.max - info.min + 1) + info.min


def quotient(a, b):
    """Towards zero; all bits where ``b`` is 0."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": quotient,
    "rem": lambda a, b: a - quotient(a, b) * b if b else a,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("opcode", BINARY)
def test_binary(opcode, dtype):
    a, b = pairs(corners(dtype), dtype)
    found = result(f"{opcode}.{kind(dtype)} {{0}}, {{1}}, {{2}};", a, b, out=dtype)
    assert found.tolist() == [
        wrapped(BINARY[opcode](x, y), dtype) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]


@pytest.mark.parametrize("dtype", ("uint16", "uint32", "uint64"))
@pytest.mark.parametrize("opcode", ("and", "or", "xor"))
def test_bits(opcode, dtype):
    a, b = pairs(corners(dtype), dtype)
    of = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}[opcode]
    found = result(f"{opcode}.b{8 * a.itemsize} {{0}}, {{1}}, {{2}};", a, b, out=dtype)
    assert found.tolist() == [of(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("dtype", ("int16", "int32", "int64"))
def test_unary(dtype):
    a = np.array(corners(dtype), dtype)
    for text, of in (("neg.{k}", int.__neg__), ("abs.{k}", abs), ("not.b{b}", int.__invert__)):
        opcode = text.format(k=kind(dtype), b=8 * a.itemsize)
        found = result(opcode + " {0}, {1};", a, out=dtype)
        assert found.tolist() == [wrapped(of(x), dtype) for x in a.tolist()], opcode


@pytest.mark.parametrize("narrow", ["int16", "uint16", "int32", "uint32"])
def test_wide_products(narrow):
    wide = f"{narrow.rstrip('1236')}{16 * np.dtype(narrow).itemsize}"
    a, b = pairs(corners(narrow), narrow)
    found = result(f"mul.wide.{kind(narrow)} {{0}}, {{1}}, {{2}};", a, b, out=wide)
    assert found.tolist() == [x * y for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype):
    """By a register and by a number; by the width and more, too."""
    width = 8 * np.dtype(dtype).itemsize
    values = np.array(corners(dtype), dtype)
    for count in (0, 1, width - 1, width, width + 1, 2**32 - 1):
        counts = np.full(len(values), count, np.uint32)
        moved = (
            [x << min(count, width) for x in values.tolist()],
            [x >> min(count, width) for x in values.tolist()],
        )
        for opcode, expected in zip((f"shl.b{width}", f"shr.{kind(dtype)}"), moved, strict=True):
            wanted = [wrapped(x, dtype) for x in expected]
            assert result(f"{opcode} {{0}}, {{1}}, {{2}};", values, counts, out=dtype).tolist() == wanted
            assert result(f"{opcode} {{0}}, {{1}}, {count};", values, out=dtype).tolist() == wanted


# -- floats ------------------------------------------------------------------------------------------------

FLOATS = (0.0, -0.0, 1.0, -1.5, 1 / 3, 3e38, -7e37, 1e-45, 7e-39, -2.0, 100.1, np.inf, -np.inf, np.nan)
EXACT = {
    "add.rn": lambda a, b: a + b,
    "sub.rn": lambda a, b: a - b,
    "mul.rn": lambda a, b: a * b,
    "div.rn": lambda a, b: a / b,
}


def same(found, expected):
    """To the bit, NaN aside."""
    np.testing.assert_array_equal(found, expected)
    kept = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[kept]), np.signbit(expected[kept]))


@pytest.mark.parametrize("opcode", EXACT)
def test_float32_arithmetic(opcode):
    """Of two float32 one operation in float64, rounded, is what one rounding gives."""
    a, b = pairs(FLOATS, np.float32)
    with np.errstate(all="ignore"):
        expected = EXACT[opcode](a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    same(result(f"{opcode}.f32 {{0}}, {{1}}, {{2}};", a, b, out=np.float32), expected)


@pytest.mark.parametrize("opcode", EXACT)
def test_float64_arithmetic(opcode):
    g = np.random.default_rng(0)
    a, b = g.standard_normal((2, 200))
    found = result(f"{opcode}.f64 {{0}}, {{1}}, {{2}};", a, b, out=np.float64)
    for x, y, z in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
        assert is_nearest(EXACT[opcode](Fraction(x), Fraction(y)), z)


def is_nearest(exact, found):
    return all(
        abs(exact - Fraction(found)) <= abs(exact - Fraction(math.nextafter(found, to)))
        for to in (-math.inf, math.inf)
    )


def test_roots_and_reciprocals():
    a = np.array(FLOATS, np.float32)
    with np.errstate(all="ignore"):
        wide = a.astype(np.float64)
        same(result("sqrt.rn.f32 {0}, {1};", a, out=np.float32), np.sqrt(wide).astype(np.float32))
        same(result("rcp.rn.f32 {0}, {1};", a, out=np.float32), (1 / wide).astype(np.float32))
    same(result("neg.f32 {0}, {1};", a, out=np.float32), np.array([-x for x in FLOATS], np.float32))
    same(result("abs.f32 {0}, {1};", a, out=np.float32), np.array([abs(x) for x in FLOATS], np.float32))
    signs, sizes = pairs(FLOATS[:-1], np.float32)
    expected = [math.copysign(abs(x), s) for s, x in zip(signs.tolist(), sizes.tolist(), strict=True)]
    same(result("copysign.f32 {0}, {1}, {2};", signs, sizes, out=np.float32), np.array(expected, np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype):
    a, b, c = _cancelling(dtype)
    found = result(f"fma.rn.{kind(dtype)} {{0}}, {{1}}, {{2}}, {{3}};", a, b, c, out=dtype)
    for x, y, z, r in zip(a, b, c, found, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        others = np.nextafter(r, dtype(np.inf)), np.nextafter(r, dtype(-np.inf))
        assert all(abs(Fraction(float(r)) - exact) <= abs(Fraction(float(o)) - exact) for o in others)


def test_fma_toward_zero():
    a, b, c = _cancelling(np.float32)
    found = result("fma.rz.f32 {0}, {1}, {2}, {3};", a, b, c, out=np.float32)
    for x, y, z, r in zip(a, b, c, found, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        beyond = np.nextafter(r, np.float32(math.copysign(math.inf, exact)))
        assert abs(Fraction(float(r))) <= abs(exact) < abs(Fraction(float(beyond))) or exact == r


def _cancelling(dtype):
    """Products and addends that nearly cancel, and others."""
    g = np.random.default_rng(0)
    a, b = g.standard_normal((2, 600)).astype(dtype)
    c = (-(a * b) * (1 + g.integers(-3, 4, 600) * np.finfo(dtype).eps)).astype(dtype)
    c[::3] = g.standard_normal(200)
    return a, b, c


def test_approximations_are_within_their_bounds_and_not_exact():
    """PTX promises no more, so no result may lean on more."""
    g = np.random.default_rng(0)
    a, b = g.standard_normal((2, 1000)).astype(np.float32)
    wide = a.astype(np.float64) / b
    for text, expected, ulps in (
        ("div.approx.f32 {0}, {1}, {2};", wide, 2),
        ("rcp.approx.ftz.f32 {0}, {2};", 1 / b.astype(np.float64), 1),
    ):
        found = result(text, a, b, out=np.float32)
        off = np.abs(found - expected) / np.spacing(np.abs(expected).astype(np.float32))
        assert off.max() <= ulps + 0.5 and off.max() > 0.6
    odd = np.array([1e-39, -1e-39, 3e38, 0.0, -0.0, np.inf], np.float32)
    found = result("rcp.approx.ftz.f32 {0}, {1};", odd, out=np.float32)
    same(found, np.array([np.inf, -np.inf, 0.0, np.inf, -np.inf, 0.0], np.float32))
    large = result(
        "div.approx.f32 {0}, {1}, {2};", np.float32([3.0, -3.0]), np.float32([2e38, 2e38]), out=np.float32
    )
    same(large, np.array([0.0, -0.0], np.float32))


# -- choices and conversions -------------------------------------------------------------------------------

ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def holds(how, a, b):
    """As PTX says it: of NaN ``eq`` and its like are false, ``equ`` and its like true."""
    unordered = math.isnan(a) or math.isnan(b)
    if how in ("num", "nan"):
        return unordered == (how == "nan")
    if unordered:
        return how.endswith("u")
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[how[:2]]


@pytest.mark.parametrize("how", [*ORDERED, *(f"{how}u" for how in ORDERED), "num", "nan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_comparisons_of_floats(how, dtype):
    a, b = pairs(FLOATS, dtype)
    text = f"setp.{how}.{kind(dtype)} %p1, {{1}}, {{2}}; selp.u32 {{0}}, 1, 0, %p1;"
    expected = [int(holds(how, x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert result(text, a, b, out=np.uint32).tolist() == expected


@pytest.mark.parametrize("dtype", INTEGERS)
def test_comparisons_of_integers(dtype):
    a, b = pairs(corners(dtype), dtype)
    for how in ORDERED:
        text = f"setp.{how}.{kind(dtype)} %p1, {{1}}, {{2}}; selp.u32 {{0}}, 1, 0, %p1;"
        expected = [int(holds(how, x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        assert result(text, a, b, out=np.uint32).tolist() == expected, how


def test_predicates():
    rows = np.array([0, 1, 2, 3], np.uint32)
    head = "and.b32 %r9, {1}, 1; setp.eq.u32 %p1, %r9, 1; setp.gt.u32 %p2, {1}, 1;"
    for text, expected in (
        ("and.pred %p3, %p1, %p2;", [0, 0, 0, 1]),
        ("or.pred %p3, %p1, %p2;", [0, 1, 1, 1]),
        ("xor.pred %p3, %p1, %p2;", [0, 1, 1, 0]),
        ("not.pred %p3, %p1;", [1, 0, 1, 0]),
        ("mov.pred %p3, %p2;", [0, 0, 1, 1]),
        ("mov.pred %p3, -1;", [1, 1, 1, 1]),
        ("mov.pred %p3, 0;", [0, 0, 0, 0]),
    ):
        assert result(head + text + "selp.b32 {0}, 1, 0, %p3;", rows, out=np.uint32).tolist() == expected, (
            text
        )


def test_floats_to_integers():
    values = [0.5, 1.5, 2.5, -0.5, -1.5, 2147483520.0, 3e9, -3e9, 1e30, np.nan, np.inf, -np.inf]
    a = np.array(values, np.float32)

    def clipped(x, low, high):
        return 0 if math.isnan(x) else low if x < low else high if x > high else int(x)

    rounding = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    for how, of in rounding.items():
        for dtype in (np.int32, np.int64, np.uint32):
            info = np.iinfo(dtype)
            found = result(f"cvt.{how}.{kind(dtype)}.f32 {{0}}, {{1}};", a, out=dtype)
            assert found.tolist() == [clipped(of(x), info.min, info.max) for x in a.tolist()], (how, dtype)
        same(result(f"cvt.{how}.f32.f32 {{0}}, {{1}};", a, out=np.float32), of(a))


def test_integers_to_floats():
    a = np.array([0, 1, -1, 2**24 + 1, 2**24 + 3, 2**53 + 1, -(2**62) - 1, 2**63 - 1], np.int64)
    for dtype in (np.float32, np.float64):
        found = result(f"cvt.rn.{kind(dtype)}.s64 {{0}}, {{1}};", a, out=dtype)
        for x, y in zip(a.tolist(), found, strict=True):
            others = np.nextafter(y, dtype(np.inf)), np.nextafter(y, dtype(-np.inf))
            assert all(abs(Fraction(float(y)) - x) <= abs(Fraction(float(o)) - x) for o in others), (x, y)


def test_floats_to_floats():
    a = np.array([1 / 3, 1e300, -1e-300, np.inf, np.nan, -0.0, 1 + 2.0**-24, 1 + 3 * 2.0**-24])
    found = result("cvt.rn.f32.f64 {0}, {1};", a, out=np.float32)
    same(
        found, np.array([np.float32(1 / 3), np.inf, -0.0, np.inf, np.nan, -0.0, 1, 1 + 2.0**-22], np.float32)
    )
    same(result("cvt.f64.f32 {0}, {1};", found, out=np.float64), found.astype(np.float64))


def test_integers_to_integers():
    """Narrow values lie in wide registers: extended as their type says, and cut off where they are stored."""
    a = np.array([0, 1, 127, 128, 255], np.uint8)
    assert result("cvt.s64.s8 {0}, {1};", a.view(np.int8), out=np.int64).tolist() == [0, 1, 127, -128, -1]
    assert result("cvt.u64.u16 {0}, {1};", a, out=np.uint64).tolist() == a.tolist()
    assert result("cvt.u64.u16 {0}, {1};", a.view(np.int8), out=np.uint64).tolist() == [
        0,
        1,
        127,
        65408,
        65535,
    ]
    assert result("cvt.s16.s8 {0}, {1};", a.view(np.int8), out=np.int16).tolist() == [0, 1, 127, -128, -1]
    b = np.array([0, 1, 300, -1, -(2**40)], np.int64)
    assert result("cvt.u32.u64 {0}, {1};", b, out=np.uint32).tolist() == [0, 1, 300, 2**32 - 1, 0]
    assert result("cvt.u16.u64 {0}, {1};", b, out=np.uint8).tolist() == [0, 1, 44, 255, 0]


def test_halves_of_a_word():
    a = np.array([0x0123456789ABCDEF, 0, 2**64 - 1], np.uint64)
    assert result("mov.b64 {{{0}, %r9}}, {1};", a, out=np.uint32).tolist() == [0x89ABCDEF, 0, 2**32 - 1]
    assert result("mov.b64 {{%r9, {0}}}, {1};", a, out=np.uint32).tolist() == [0x01234567, 0, 2**32 - 1]
    turned = result("mov.b64 {{%r9, %r10}}, {1}; mov.b64 {0}, {{%r10, %r9}};", a, out=np.uint64)
    assert turned.tolist() == [0x89ABCDEF01234567, 0, 2**64 - 1]
    b = np.array([0x01234567, 2**32 - 1], np.uint32)
    turned = result("mov.b32 {{%rs7, %rs8}}, {1}; mov.b32 {0}, {{%rs8, %rs7}};", b, out=np.uint32)
    assert turned.tolist() == [0x45670123, 2**32 - 1]


def test_bits_of_floats():
    a = np.array([1.0, -2.0], np.float32)
    assert result("mov.b32 {0}, {1};", a, out=np.uint32).tolist() == [0x3F800000, 0xC0000000]
    assert result("mov.f32 {0}, 0f40490FDB;", a, out=np.float32).tolist() == [np.float32(np.pi)] * 2
    assert result("mov.f64 {0}, 0d400921FB54442D18;", a, out=np.float64).tolist() == [np.pi] * 2


def test_a_register_that_was_copied_is_another():
    a = np.array([5, 6], np.uint32)
    text = "mov.u32 %r9, {1}; setp.eq.u32 %p1, {1}, 5; @%p1 bra L1; mov.u32 {1}, 1;\nL1: mov.u32 {0}, %r9;"
    assert result(text, a, out=np.uint32).tolist() == [5, 6]
