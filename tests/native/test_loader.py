"""Loading objects: our own linker against LLVM's, symbol by symbol and result by result."""

from __future__ import annotations

import ctypes
import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jtorch.native import elf, loader, objects
from tests.machine_code import needs_own_linker
from tests.native.building import build

# Constants in .rodata, an aligned vector table, calls to libm, a switch (jump table), another
# function of the module.
PROGRAM = r"""
@table = private constant [4 x double] [double 1.0, double 10.0, double 100.0, double 1000.0]
declare double @exp(double)
declare double @pow(double, double)

define double @lookup(i64 %index) {
  %place = getelementptr [4 x double], ptr @table, i64 0, i64 %index
  %value = load double, ptr %place
  ret double %value
}
define i64 @NAME(ptr %args) {
entry:
  %x_slot = getelementptr i64, ptr %args, i64 1
  %out_slot = getelementptr i64, ptr %args, i64 2
  %choice = load i64, ptr %args
  %x = load double, ptr %x_slot
  switch i64 %choice, label %other [
    i64 0, label %do_exp
    i64 1, label %do_pow
    i64 2, label %do_lookup
    i64 3, label %do_add
    i64 4, label %do_mul
    i64 5, label %do_neg
  ]
do_exp:
  %e = call double @exp(double %x)
  br label %store
do_pow:
  %p = call double @pow(double %x, double 3.7)
  br label %store
do_lookup:
  %i = fptosi double %x to i64
  %l = call double @lookup(i64 %i)
  br label %store
do_add:
  %a = fadd double %x, 0x400921FB54442D18
  br label %store
do_mul:
  %m = fmul double %x, 0x3FF71547652B82FE
  br label %store
do_neg:
  %n = fneg double %x
  br label %store
other:
  ret i64 9
store:
  %value = phi double [%e, %do_exp], [%p, %do_pow], [%l, %do_lookup],
    [%a, %do_add], [%m, %do_mul], [%n, %do_neg]
  store double %value, ptr %out_slot
  ret i64 0
}
"""


def run(address: int, choice: int, x: float) -> tuple[int, float]:
    block = np.array([choice, 0, 0], np.int64)
    block[1:2] = np.array([x]).view(np.int64)
    status = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(block.ctypes.data)
    return int(status), float(block[2:].view(np.float64)[0])


@pytest.mark.parametrize("way", [pytest.param("ours", marks=needs_own_linker), "llvm"])
def test_both_loaders_run_the_same_program(way):
    code = loader.compile_ir(PROGRAM.replace("NAME", f"program_{way}"))
    if way == "ours":
        (addresses,) = elf.load([code], loader._outside_symbol)
    else:
        (addresses,) = loader.load_with_llvm([code])
    assert sorted(addresses) == ["lookup", f"program_{way}"] == sorted(objects.defined_symbols(code))
    address = addresses[f"program_{way}"]
    x = 2.0
    expected = [math.exp(x), x**3.7, 100.0, x + math.pi, x * 1.4426950408889634, -x]
    assert [run(address, k, x) for k in range(6)] == [(0, value) for value in expected]
    assert run(address, 6, x)[0] == 9


def test_many_objects_in_one_mapping():
    codes = [loader.compile_ir(f"define i64 @f{k}(ptr %a) {{\n  ret i64 {k}\n}}\n") for k in range(20)]
    loaded = loader.load_many(codes)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
    assert [prototype(addresses[f"f{k}"])(None) for k, addresses in enumerate(loaded)] == list(range(20))
    assert loader.load_many([]) == []


def test_wide_constants_are_aligned_where_the_object_asks_for_it():
    source = """
import numpy as np
ARGUMENTS = ("f32*", "i64")
A, B, C = np.float32(1.25), np.float32(-3.5), np.float32(0.1)

def polynomial(x, n):
    for i in range(n):
        v = x[i]
        x[i] = ((A * v + B) * v + C) if v > B else C
"""
    built = build(source, "polynomial")
    # Loaded at several offsets of one mapping: aligned vector loads would fault on a misplaced
    # table.
    odd = loader.compile_ir("define i64 @odd(ptr %a) {\n  ret i64 1\n}\n")
    for addresses in loader.load_many([odd, built.code, odd, built.code])[1::2]:
        x = np.linspace(-9, 9, 100, dtype=np.float32)
        expected = np.where(
            x > -3.5,
            (np.float32(1.25) * x + np.float32(-3.5)) * x + np.float32(0.1),
            np.float32(0.1),
        )
        block = np.array([x.ctypes.data, x.size], np.int64)
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(addresses[built.symbol])(block.ctypes.data)
        np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_code_memory_is_never_writable_and_executable():
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("memory protection is read from /proc")
    address = loader.load(loader.compile_ir("define i64 @guarded(ptr %a) {\n  ret i64 0\n}\n"), "guarded")
    for line in maps.read_text().splitlines():
        span, protection = line.split()[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= address < end:
            assert protection.startswith("r-x")
            return
    raise AssertionError("the function's address is in no mapping")


@needs_own_linker
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("@count = global i64 0\ndefine ptr @where(ptr %a) {\n  ret ptr @count\n}\n", None),
        ("@count = global i64 5\ndefine ptr @where(ptr %a) {\n  ret ptr @count\n}\n", "writable"),
        ("declare i64 @no_such_function()\ndefine i64 @f(ptr %a) {\n  %r = call i64 @no_such_function()\n"
         "  ret i64 %r\n}\n", "no_such_function"),
    ],
)  # fmt: skip
def test_what_the_linker_does_not_handle_it_refuses(text, reason):
    with pytest.raises(elf.UnsupportedError, match=reason):
        elf.load([loader.compile_ir(text)], loader._outside_symbol)


def test_writable_data_goes_to_llvm():
    code = loader.compile_ir("@word = global i64 42\ndefine ptr @where_word(ptr %a) {\n  ret ptr @word\n}\n")
    where = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(loader.load(code, "where_word"))
    assert ctypes.c_int64.from_address(where(None)).value == 42


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x02" + bytes(60), b"MZ" * 100])
def test_other_files_are_refused(content):
    with pytest.raises(elf.UnsupportedError, match="ELF64"):
        elf.sections(content)


def test_an_object_for_another_cpu_is_read_but_not_linked():
    code = bytearray(loader.compile_ir("define i64 @here(ptr %a) {\n  ret i64 0\n}\n"))
    code[18:20] = struct.pack("<H", 183)  # EM_AARCH64
    assert objects.defined_symbols(bytes(code)) == ["here"]
    with pytest.raises(elf.UnsupportedError, match="another CPU"):
        elf.load([bytes(code)], loader._outside_symbol)


def test_a_setting_sends_every_object_to_llvm(monkeypatch):
    code = loader.compile_ir("define i64 @by_llvm(ptr %a) {\n  ret i64 6\n}\n")
    monkeypatch.setenv("JTORCH_JIT", "llvm")
    monkeypatch.setattr(elf, "load", lambda *_: pytest.fail("the own linker ran"))
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loader.load(code, "by_llvm"))(None) == 6


def test_missing_symbol_and_bad_text_are_named():
    code = loader.compile_ir("define i64 @present(ptr %a) {\n  ret i64 0\n}\n")
    with pytest.raises(RuntimeError, match=r"defines present, not absent"):
        loader.load(code, "absent")
    with pytest.raises(RuntimeError, match="expected"):
        loader.compile_ir("define i64 @broken(")


@needs_own_linker
def test_a_stored_object_runs_without_numba_or_llvm(tmp_path):
    path = tmp_path / "stored.o"
    path.write_bytes(loader.compile_ir(PROGRAM.replace("NAME", "stored")))
    program = (
        "import sys, ctypes, pathlib\nfrom jtorch.native import loader\n"
        f"a = loader.load(pathlib.Path({str(path)!r}).read_bytes(), 'stored')\n"
        "block = (ctypes.c_int64 * 3)(7, 0, 0)\n"
        "assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(a)(block) == 9\n"
        "print([m for m in ('numba', 'llvmlite') if m in sys.modules])"
    )
    root = str(Path(loader.__file__).parents[2])
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root)
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


@pytest.mark.parametrize("load", [loader.load_many, loader.load_with_llvm])
def test_what_is_offered_is_found_by_name(load):
    name = f"jtorch_test_offered_{load.__name__}"
    (below,) = load([loader.compile_ir(f"define i64 @{name}() {{\n  ret i64 42\n}}")])
    loader.offer(below)
    above = f"declare i64 @{name}()\ndefine i64 @asks() {{\n  %x = call i64 @{name}()\n  ret i64 %x\n}}"
    (found,) = load([loader.compile_ir(above)])
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(found["asks"])() == 42
