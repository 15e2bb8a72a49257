"""Kernel text to object code: what the shim unpacks, what is refused, and that names and bytes are
deterministic.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jtorch.native.build as build_module
from jtorch.native import loader, numba_front_end, objects
from jtorch.native.build import KernelBuildError, symbol_name
from tests.native.building import build

SCALE = """
ARGUMENTS = ("f32*", "f32*", "i64", "f32")

def scale(out, x, n, factor):
    for i in range(n):
        out[i] = x[i] * factor
"""


def call(source: str, entry: str, words: list[int], **options: object) -> int:
    """Build, load and run a kernel over one argument block."""
    built = build(source, entry, **options)
    address = loader.load(built.code, built.symbol)
    block = np.array(words, np.int64)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)
    return int(function(block.ctypes.data))


def bits(value: float) -> int:
    return int(np.float64(value).view(np.int64))


def test_typed_kernel_runs_and_float32_literal_is_rounded_once():
    x = np.linspace(-3, 3, 1001, dtype=np.float32)
    out = np.empty_like(x)
    assert call(SCALE, "scale", [out.ctypes.data, x.ctypes.data, x.size, bits(0.1)]) == 0
    np.testing.assert_array_equal(out, x * np.float32(0.1))


@pytest.mark.parametrize("n", [0, 1, 7, 16, 33])
def test_only_n_elements_are_written(n):
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    call(SCALE, "scale", [out.ctypes.data, x.ctypes.data, n, bits(2.0)])
    assert out[:n].tolist() == [2.0] * n and not out[n:].any()


KINDS = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_as_pointer_and_as_scalar(kind):
    source = f"""
ARGUMENTS = ("{kind}*", "{kind}*", "{kind}", "i64")

def put(out, x, value, n):
    for i in range(n):
        out[i] = x[i]
    out[n] = value
"""
    dtype = KINDS[kind]
    values = [0, 1, 1] if kind == "bool" else [0, 1, 100]
    largest = 1 if kind == "bool" else 0.5 if kind.startswith("f") else np.iinfo(dtype).max
    smallest = 0 if kind == "bool" else -2.5 if kind.startswith("f") else np.iinfo(dtype).min
    x = np.array(values, dtype)
    for value in (largest, smallest):
        out = np.zeros(4, dtype)
        word = bits(value) if kind.startswith("f") else int(np.array(value, dtype).astype(np.int64))
        assert call(source, "put", [out.ctypes.data, x.ctypes.data, word, 3]) == 0
        np.testing.assert_array_equal(out, np.array([*values, value], dtype))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e-40, 1e300])
def test_special_float_literals(value):
    source = 'ARGUMENTS = ("f32*", "f64*", "f32", "f64")\ndef put(a, b, x, y):\n    a[0] = x\n    b[0] = y\n'
    a, b = np.zeros(1, np.float32), np.zeros(1)
    call(source, "put", [a.ctypes.data, b.ctypes.data, bits(value), bits(value)])
    with np.errstate(over="ignore"):
        assert a.tobytes() == np.array([value]).astype(np.float32).tobytes()
    assert b.tobytes() == np.array([value]).tobytes()


def test_status_of_the_body_is_the_kernels():
    source = 'ARGUMENTS = ("i64",)\ndef check(n):\n    if n < 0:\n        return 3\n    return 0\n'
    assert call(source, "check", [5]) == 0
    assert call(source, "check", [-5]) == 3


def test_a_body_that_raises_gives_failed():
    source = 'ARGUMENTS = ("i64",)\ndef check(n):\n    if n < 0:\n        raise ValueError\n'
    assert call(source, "check", [1]) == 0
    assert call(source, "check", [-1]) == numba_front_end.FAILED


def test_raw_entry_takes_the_block_itself():
    source = """
def total(args):
    s = 0
    for i in range(args[0]):
        s += args[i + 1]
    return s
"""
    assert call(source, "total", [3, 10, 20, 12]) == 42


def test_helper_functions_are_inlined_and_stay_usable_from_ordinary_numba():
    numba = pytest.importorskip("numba")
    from numba.extending import register_jitable

    @register_jitable
    def cube(v):
        return v * v * v

    source = """
ARGUMENTS = ("f32*", "f32*", "i64")

def cubes(out, x, n):
    for i in range(n):
        out[i] = cube(x[i]) + cube(cube(x[i]))
"""
    built = build(source, "cubes", cube=cube)
    text = built.optimised()
    assert "call" not in text.split("_body(", 1)[1].split("\n}", 1)[0].replace("call void @llvm", "")
    assert "x float> " in text, "the loop around inlined helpers is vectorised"
    # The helper's library was only linked above; Numba must still make working code of it.
    assert numba.njit(lambda v: cube(v))(np.float32(2)) == 8


def test_vector_math_by_name_vectorises_and_needs_no_libm():
    source = """
from jtorch.native.vecmath import exp_f32
ARGUMENTS = ("f32*", "f32*", "i64")

def exps(out, x, n):
    for i in range(n):
        out[i] = exp_f32(x[i])
"""
    x, out = np.linspace(-5, 5, 100, dtype=np.float32), np.empty(100, np.float32)
    assert call(source, "exps", [out.ctypes.data, x.ctypes.data, x.size]) == 0
    np.testing.assert_allclose(out, np.exp(x.astype(float)), rtol=2e-7)
    built = build(source, "exps")
    assert "x float>" in built.optimised() and not objects.undefined_symbols(built.code)


def test_written_pointers_need_no_alias_checks():
    names = [f"p{i}" for i in range(8)]
    source = f"""
ARGUMENTS = ({'"f32*", ' * 8} "i64")

def many({", ".join(names)}, n):
    for i in range(n):
        p0[i] = p4[i] + p5[i]
        p1[i] = p0[i] * p6[i]
        p2[i] = p1[i] - p7[i]
        p3[i] = p2[i] * p4[i]
"""
    text = build(source, "many").optimised()
    assert "x float>" in text
    assert "vector.memcheck" not in text


@pytest.mark.slow
def test_symbol_and_code_are_equal_in_another_process():
    built = build(SCALE, "scale")
    program = (
        "import sys, hashlib; from tests.native.building import build\n"
        "build('def other(args):\\n    return 1\\n', 'other')\n"
        "b = build(sys.argv[1], 'scale'); print(b.symbol, hashlib.sha256(b.code).hexdigest())"
    )
    root = str(Path(build_module.__file__).parents[2])
    result = subprocess.run(
        [sys.executable, "-c", program, SCALE], capture_output=True, text=True, cwd=root, check=True
    )
    assert result.stdout.split() == [built.symbol, hashlib.sha256(built.code).hexdigest()]
    assert built.symbol == symbol_name(SCALE, "scale") and built.symbol.startswith("jtorch_scale_")


def test_object_needs_nothing_but_libm():
    source = """
import math
ARGUMENTS = ("f64*", "i64")

def f(x, n):
    for i in range(n):
        x[i] = math.exp(x[i])
"""
    built = build(source, "f")
    assert set(objects.undefined_symbols(built.code)) <= {"exp"}
    assert objects.defined_symbols(built.code) == [built.symbol]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def k(args):\n    return nowhere(args[0])\n", "nowhere"),
        ("def other(args):\n    return 0\n", "no function 'k'"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("def k(args)\n    return 0\n", "SyntaxError"),
        ('ARGUMENTS = ("f16*",)\ndef k(x):\n    return 0\n', "'f16\\*'"),
        ('ARGUMENTS = ("f32*",)\ndef k(x):\n    return x[0]\n', "expected nothing or an integer"),
        ("def k(args):\n    x = [args[0]]\n    x.append(1)\n    return x[0]\n", "NRT required"),
    ],
)
def test_refusals_name_the_kernel_and_the_cause(source, message):
    with pytest.raises(KernelBuildError, match=message) as caught:
        build(source, "k")
    assert "jtorch_k_" in str(caught.value)


WITHOUT_NUMBA = """
import sys
sys.modules.update(numba=None, llvmlite=None)
import jtorch
x = jtorch.ones(3, requires_grad=True)
(x * x).sum().backward()
print(jtorch.nn.functional.max_pool2d(jtorch.rand(2, 3, 64, 64), 2).shape == (2, 3, 32, 32), x.grad.tolist())
try:
    jtorch.compile(lambda x: x * 5 + 3)(x)
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_numba_eager_mode_runs_and_compiling_says_what_it_needs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "JTORCH_CACHE": str(tmp_path)}, cwd=Path(build_module.__file__).parents[2],
    )  # fmt: skip
    eager, compiled = done.stdout.splitlines()
    assert (eager, done.stderr) == ("True [2.0, 2.0, 2.0]", "")
    assert compiled.startswith("compiled functions need Numba and llvmlite")
    assert "JTORCH_COMPILE=0" in compiled
