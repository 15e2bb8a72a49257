"""Running CUDA kernels without a device, under numba-cuda's simulator.

The simulator is chosen when numba-cuda is imported: the process must have ``NUMBA_ENABLE_CUDASIM=1`` in its
environment before. Each CUDA thread is a Python thread, so blocks are kept small.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.compile.codegen.cuda import CudaKernel
from jtorch.compile.codegen.cuda_launch import Argument, Launch, Phase, Scratch, Status, launches
from jtorch.compile.codegen.elements import Elements
from jtorch.compile.codegen.emitter import Pointer
from jtorch.compile.graph.ir import Var

SIMULATED_THREADS = 8

# Each thread needs an error state of its own: NumPy's does not reach the threads of the simulator.
_LAUNCHER = """
def launch_row(phase):
    row = ROWS[cuda.blockIdx.y]
    with errstate(all="ignore"):
        ENTRY(*[phase if argument is None else argument for argument in row])
"""


Find = Callable[[Pointer], Any]


def run_simulated(
    kernel: CudaKernel, arrays: Mapping[Var, np.ndarray], threads: int = SIMULATED_THREADS
) -> list[str]:
    """Run ``kernel`` on the contiguous ``arrays``, which it writes into; return the errors it met."""

    def find(pointer: Pointer) -> Elements:
        array = arrays[pointer.var]
        if not array.flags.c_contiguous or array.dtype != pointer.var.dtype:
            raise ValueError(
                f"a kernel takes contiguous {pointer.var.dtype}, not {array.dtype} {array.strides}"
            )
        return Elements(array.reshape(-1), pointer.offset, repr(pointer.var))

    return run_batch([kernel], [find], threads)[0]


def run_batch(
    kernels: Sequence[CudaKernel], finds: Sequence[Find], threads: int = SIMULATED_THREADS
) -> list[list[str]]:
    """Run steps whose kernels have one text in one sequence of launches, as ``compile_ptx(table=True)`` does.

    Each of ``finds`` gives what a step's pointer is: anything that is indexed by elements from there.
    Returns the errors of each step. Raises RuntimeError outside of the simulator, ValueError for kernels of
    different texts.
    """
    if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        raise RuntimeError("set NUMBA_ENABLE_CUDASIM=1 before the process starts to simulate CUDA kernels")
    if len({k.source for k in kernels}) != 1:
        raise ValueError(f"one launch needs one text, not {sorted({k.entry for k in kernels})}")
    statuses = [np.zeros(len(k.errors), np.int64) for k in kernels]
    rows = [
        [_value(a, find, status) for a in k.arguments]
        for k, find, status in zip(kernels, finds, statuses, strict=True)
    ]
    run = _launcher(kernels[0], rows)
    for launch in launches([k.work for k in kernels], threads):
        run(launch)
    return [
        [e.sentence for e, s in zip(k.errors, status, strict=True) if s]
        for k, status in zip(kernels, statuses, strict=True)
    ]


def _launcher(kernel: CudaKernel, rows: list[list[Any]]) -> Any:
    from numba import cuda

    namespace: dict[str, Any] = {"__name__": kernel.entry, "ROWS": rows, "errstate": np.errstate}
    exec(compile(kernel.source + _LAUNCHER, f"<{kernel.entry}>", "exec"), namespace)
    namespace["ENTRY"] = namespace[kernel.entry]
    entry = cuda.jit(namespace["launch_row"])

    def run(launch: Launch) -> None:
        entry[launch.grid, launch.block](launch.phase)

    return run


def _value(argument: Argument, find: Find, status: np.ndarray) -> Any:
    """What the kernel's text gets: a flat array for a pointer, a NumPy scalar for a number."""
    if isinstance(argument, Phase):
        return None
    if isinstance(argument, Status):
        return status
    if isinstance(argument, Scratch):
        return np.zeros(argument.items, argument.dtype)
    return find(argument) if isinstance(argument, Pointer) else argument.dtype.type(argument.value)
