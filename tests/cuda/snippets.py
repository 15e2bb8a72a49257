"""Kernels written by hand, for the tests of the machine."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.cuda.ptx.machine import STEPS, launch
from tests.cuda.ptx.memory import Allocation, Memory
from tests.cuda.ptx.translate import Kernel, load

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = """.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
.reg .f32 %f<9>; .reg .f64 %fd<9>;"""
# %r4 is the number of the thread in the grid, %rd2 the bytes of so many words, %rd3 its place in array 0
PLACE = """
ld.param.u64 %rd1, [k_param_0];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
mul.lo.s32 %r4, %r2, %r3; add.s32 %r4, %r4, %r1;
mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
"""


def words(n: int) -> np.ndarray:
    return np.zeros(n, np.uint32)


def kernel(body: str, parameters: str = "u64", arrays: str = "") -> Kernel:
    """The kernel ``k`` with this body and parameters of these types."""
    listed = ", ".join(f".param .{kind} k_param_{n}" for n, kind in enumerate(parameters.split()))
    return load(f"{HEAD}{arrays}\n.visible .entry k({listed})\n{{\n{REGISTERS}\n{body}\nret;\n}}\n")["k"]


def run(
    found: Kernel, *arrays: np.ndarray, grid: int = 1, block: int = 4, numbers: Sequence[bytes] = (),
    steps: int = STEPS, **options: Any,
) -> None:  # fmt: skip
    """Launch over ``arrays``, whose addresses are the first arguments; ``options`` of their allocations."""
    memory = Memory()
    for k, array in enumerate(arrays):
        memory.add(Allocation(array.ctypes.data, array.view(np.uint8), f"array {k}", **options))
    places = [struct.pack("Q", array.ctypes.data) for array in arrays]
    launch(found, (grid, 1, 1), (block, 1, 1), [*places, *numbers], memory, steps)
