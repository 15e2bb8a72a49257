"""Object code in, callable addresses out; LLVM only where something is compiled.

LLVM is needed to *make* a kernel. To *load* one on Linux on x86-64 it is not: `elf` links the common case
by itself in about 0.1 ms. What it refuses, objects of other systems and processors included, goes to
llvmlite's MCJIT, chosen over LLJIT by measurement: adding one small object costs 52 us against 270-370 us.
`JTORCH_JIT=llvm` sends everything there.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import threading
from collections.abc import Mapping
from enum import Enum
from typing import Any

from jtorch.core import config
from jtorch.native import elf, objects
from jtorch.native.immortal import live_forever

_log = logging.getLogger("jtorch.cache")
_lock = threading.RLock()
_offered: dict[str, int] = {}


def _fresh_lock() -> None:
    # A fork may come while another thread of the parent holds the lock; that thread does not exist
    # in the child.
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock)


@functools.cache
def binding() -> Any:
    """llvmlite's binding layer, initialised for this CPU (about 20 ms the first time)."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def chosen_features() -> str:
    """Those of the processor that kernels are made for, where the user names them as Numba's settings do:
    "+avx2,+fma", and "-avx2" for what this one has and kernels may not use; empty: those of this one.
    """
    return os.environ.get("NUMBA_CPU_FEATURES", "")


def _target_machine(speed: int) -> Any:
    llvm = binding()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name(),
        features=chosen_features() or llvm.get_host_cpu_features().flatten(),
        opt=speed,
        reloc="pic",
        codemodel="small",
    )


class Effort(Enum):
    """How much of LLVM a text is worth."""

    WHOLE = "its standard pipeline"
    REGISTERS = "values leave the stack: for loops that are written as they shall run"
    # all of eager mode takes 0.3 s so, where REGISTERS takes 2.4 and gains 0.05 us a call
    QUICK = "the same, registers given out the quick way: for code that mostly calls"


def compile_ir(text: str, effort: Effort = Effort.WHOLE) -> bytes:
    """Compile LLVM IR for this processor to object code; several threads may at the same time.

    Raises RuntimeError, in LLVM's words, where it does not parse.
    """
    from llvmlite.binding import ffi

    machine, module = optimised(text, effort)
    with ffi.OutputString() as error:
        buffer = _without_turns("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def optimised(text: str, effort: Effort = Effort.WHOLE) -> tuple[Any, Any]:
    """The target machine, and the module of LLVM IR `text` as it is before machine code is made of it."""
    llvm = binding()
    machine = _target_machine({Effort.WHOLE: 3, Effort.REGISTERS: 2, Effort.QUICK: 0}[effort])
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    module.triple, module.data_layout = llvm.get_process_triple(), str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3 if effort is Effort.WHOLE else 1)
    if effort is Effort.WHOLE:
        options.loop_vectorization = options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    if effort is Effort.WHOLE:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
    _without_turns("LLVMPY_RunNewModulePassManager")(passes, module, builder)
    return machine, module


def _without_turns(name: str) -> Any:
    """llvmlite lets one thread at a time into LLVM, which asks for that within a context alone: the two
    long calls for a module with a context of its own need not take turns.
    """
    from llvmlite.binding import ffi

    function = getattr(ffi.lib, name)
    return getattr(function, "_cfn", function)


def load(code: bytes, symbol: str) -> int:
    """Load object code for the rest of the process and return the address of `symbol`.

    Raises RuntimeError where the object does not define it.
    """
    (addresses,) = load_many([code])
    if symbol not in addresses:
        raise RuntimeError(f"the object code defines {', '.join(addresses) or 'nothing'}, not {symbol}")
    return addresses[symbol]


def load_many(codes: list[bytes]) -> list[dict[str, int]]:
    """Load several objects at once: for each, the addresses of the global symbols it defines."""
    if not codes:
        return []
    with _lock:
        if config.get("JIT") == "llvm":
            return load_with_llvm(codes)
        try:
            return elf.load(codes, _outside_symbol)
        except (elf.UnsupportedError, OSError) as why:
            _log.info("LLVM loads %d objects: %s", len(codes), why)
            return load_with_llvm(codes)


def offer(addresses: Mapping[str, int]) -> None:
    """What is loaded after this finds these by name."""
    _offered.update(addresses)


def load_with_llvm(codes: list[bytes]) -> list[dict[str, int]]:
    """`load_many` by MCJIT."""
    llvm, engine = binding(), _engine()
    for name, address in _offered.items():
        llvm.add_symbol(name, address)
    for code in codes:
        reference = llvm.ObjectFileRef.from_data(live_forever(code))
        engine.add_object_file(live_forever(reference))
    engine.finalize_object()
    return [{s: engine.get_function_address(s) for s in objects.defined_symbols(code)} for code in codes]


@functools.cache
def _engine() -> Any:
    llvm = binding()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return live_forever(llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine))


def _outside_symbol(name: str) -> int:
    if name in _offered:
        return _offered[name]
    # The process itself: CPython is linked to libm (ctypes.util.find_library would start a
    # subprocess).
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0
    except (AttributeError, TypeError):
        raise elf.UnsupportedError(f"no function {name!r} in this process") from None
