"""Names in the objects of every system, written here by LLVM for that system."""

from __future__ import annotations

import ctypes
import platform

import pytest

from jtorch.native import elf, loader, objects
from jtorch.native.build import ALLOWED_SYMBOLS

TEXT = """
declare double @exp(double)
declare double @a_longer_name(double)
define internal i64 @hidden(i64 %x) noinline {
  ret i64 %x
}
define i64 @short(i64 %x) {
  %y = call i64 @hidden(i64 %x)
  ret i64 %y
}
define double @more_than_eight_letters(double %x) {
  %y = call double @exp(double %x)
  %z = call double @a_longer_name(double %y)
  ret double %z
}
"""
SYSTEMS = {
    "x86_64-unknown-linux-gnu": b"\x7fELF",
    "aarch64-unknown-linux-gnu": b"\x7fELF",
    "x86_64-apple-darwin": b"\xcf\xfa\xed\xfe",
    "arm64-apple-darwin": b"\xcf\xfa\xed\xfe",
    "x86_64-pc-windows-gnu": b"\x64\x86",
    "arm64-pc-windows-msvc": b"\x64\xaa",
}


def machine_for(system):
    llvm = loader.binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(system)
    except RuntimeError:  # the wheels hold the processors that they are for, and some others
        pytest.skip(f"this LLVM writes nothing for {system}")
    return target.create_target_machine(jit=True)


def module_for(system, machine, text):
    module = loader.binding().parse_assembly(text)
    module.triple, module.data_layout = system, str(machine.target_data)
    return module


def object_for(system, text=TEXT):
    machine = machine_for(system)
    return bytes(machine.emit_object(module_for(system, machine, text)))


@pytest.mark.parametrize("system", SYSTEMS)
def test_names_are_those_of_the_text(system):
    code = object_for(system)
    assert code.startswith(SYSTEMS[system])
    assert set(objects.defined_symbols(code)) == {"short", "more_than_eight_letters"}
    assert set(objects.undefined_symbols(code)) - {"_fltused"} == {"exp", "a_longer_name"}


@pytest.mark.parametrize("system", SYSTEMS)
def test_cut_short_or_foreign_is_an_error_that_says_so(system):
    code = object_for(system)
    for damaged in (code[:70], code[: len(code) // 2], b"", b"MZ" * 100, b"\x7fELF"):
        with pytest.raises(elf.UnsupportedError, match="object"):
            objects.defined_symbols(damaged)


def test_an_object_of_macos_is_loaded_by_llvm(monkeypatch):
    """It calls functions as Linux does there, so that one without calls of libm runs here, too."""
    system = "arm64-apple-darwin" if platform.machine() == "aarch64" else "x86_64-apple-darwin"
    machine = machine_for(system)
    engine = loader.binding().create_mcjit_compiler(module_for(system, machine, ""), machine)
    monkeypatch.setattr(loader, "_engine", lambda: engine)
    code = object_for(system, "define i64 @plus_five(i64 %x) {\n  %y = add i64 %x, 5\n  ret i64 %y\n}\n")
    with pytest.raises(elf.UnsupportedError, match="not a little-endian ELF64"):
        elf.load([code], loader._outside_symbol)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loader.load(code, "plus_five"))
    assert function(7) == 12


FILL = """
define void @NAME(ptr noalias %out, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %place = getelementptr float, ptr %out, i64 %i
  store float VALUE, ptr %place
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_kernels_may_use_what_llvm_makes_of_loops_that_fill_memory(system):
    llvm, machine = loader.binding(), machine_for(system)
    zeros, ones = (FILL.replace("NAME", f"fill{x}").replace("VALUE", f"{x}.0") for x in (0, 1))
    module = module_for(system, machine, zeros + ones)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    needed = objects.undefined_symbols(bytes(machine.emit_object(module)))
    assert set(needed) <= ALLOWED_SYMBOLS
    assert {"memset", "bzero", "__bzero"} & set(needed)
