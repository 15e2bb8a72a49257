"""What the PTX machine runs: threads, blocks, tables, arguments, allocations."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.cuda.ptx.errors import BadLaunchError, ConstantWrittenError
from tests.cuda.ptx.machine import LANES, launch
from tests.cuda.ptx.memory import Allocation, Memory
from tests.cuda.ptx.translate import load
from tests.cuda.snippets import HEAD, PLACE, kernel, run, words


def test_each_thread_has_its_place():
    out = words(12)
    run(kernel(PLACE + "st.global.u32 [%rd3], %r4;"), out, grid=3)
    assert out.tolist() == list(range(12))


def test_shapes_of_three_dimensions():
    body = "ld.param.u64 %rd1, [k_param_0];\n"
    axes = [("tid", "x"), ("tid", "y"), ("tid", "z"), ("ctaid", "x"), ("ctaid", "y"), ("ctaid", "z")]
    body += "mov.u32 %r4, 0;\n"
    for what, axis in reversed(axes):
        size = what.replace("tid", "ntid") if what == "tid" else "nctaid"
        body += f"mov.u32 %r1, %{what}.{axis}; mov.u32 %r2, %{size}.{axis};"
        body += "mul.lo.u32 %r4, %r4, %r2; add.u32 %r4, %r4, %r1;\n"
    out = words(720)
    memory = Memory()
    memory.add(Allocation(out.ctypes.data, out.view(np.uint8), "out"))
    found = kernel(body + "mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r4;")
    launch(found, (2, 3, 4), (5, 3, 2), [struct.pack("Q", out.ctypes.data)], memory)
    assert out.tolist() == list(range(720))


TRIANGLE = """mov.u32 %r5, 0; mov.u32 %r6, 0;
L1: setp.ge.u32 %p1, %r6, %r4; @%p1 bra L2;
add.s32 %r5, %r5, %r6; add.s32 %r6, %r6, 1; bra.uni L1;
L2: st.global.u32 [%rd3], %r5;"""


def test_threads_go_apart_and_come_together():
    out = words(12)
    run(kernel(PLACE + TRIANGLE), out, grid=3)
    assert out.tolist() == [n * (n - 1) // 2 for n in range(12)]


def test_more_threads_than_run_side_by_side():
    grid = 2 * LANES // 256 + 3
    out = words(256 * grid)
    run(kernel(PLACE + "st.global.u32 [%rd3], %r4;"), out, grid=grid, block=256)
    assert (out == np.arange(len(out))).all()


def test_registers_begin_as_garbage():
    out = words(4)
    run(kernel(PLACE + "st.global.u32 [%rd3], %r9;"), out)
    assert out.tolist() == [0xCBCBCBCB] * 4


def test_tables_of_the_module():
    table = ".global .align 4 .b8 t[16] = {1, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255};"
    out = words(4)
    body = PLACE + "mov.u64 %rd4, t; add.s64 %rd4, %rd4, %rd2; {} [%rd4]{}; st.global.u32 [%rd3], %r5;"
    run(kernel(body.replace("{} [%rd4]{}", "ld.global.nc.u32 %r5, [%rd4]"), arrays=table), out)
    assert out.tolist() == [1, 2, 0xFFFFFFFF, 0]
    with pytest.raises(ConstantWrittenError, match="t\\+0 is constant"):
        run(kernel(body.replace("{} [%rd4]{}", "st.global.u32 [%rd4], %r4"), arrays=table), out)


def test_arguments_that_the_kernel_does_not_take():
    found = kernel(
        "ld.param.u64 %rd1, [k_param_0]; ld.param.u32 %r1, [k_param_1]; st.global.u32 [%rd1], %r1;", "u64 u32"
    )
    out = words(1)
    run(found, out, block=1, numbers=[struct.pack("I", 7)])
    assert out.tolist() == [7]
    with pytest.raises(BadLaunchError, match=r"k: argument 1 is 8 bytes, and .param .u32 4"):
        run(found, out, block=1, numbers=[struct.pack("Q", 7)])
    with pytest.raises(BadLaunchError, match="k takes 2 arguments, not 1"):
        run(found, out, block=1)


def test_shapes_that_no_device_takes():
    with pytest.raises(BadLaunchError, match=r"a grid of \(0, 1, 1\)"):
        run(kernel(PLACE), words(1), grid=0)
    bounded = load(f"{HEAD}.visible .entry k(.param .u64 p)\n.maxntid 4, 1, 1\n{{ ret; }}")["k"]
    run(bounded, words(1), block=4)
    with pytest.raises(BadLaunchError, match="compiled for 4 threads"):
        run(bounded, words(1), block=5)
    with pytest.raises(BadLaunchError, match="49156 bytes of shared memory"):
        run(kernel("", arrays=".shared .align 4 .b8 s[49156];"), words(1))


def test_memory_does_not_overlap():
    memory = Memory()
    memory.add(Allocation(0x1000, np.zeros(16, np.uint8), "a"))
    memory.add(Allocation(0x1010, np.zeros(16, np.uint8), "b"))
    with pytest.raises(ValueError, match="c and a overlap at 0x1008"):
        memory.add(Allocation(0x1008, np.zeros(2, np.uint8), "c"))
    with pytest.raises(ValueError, match="c and b overlap at 0x1018"):
        memory.add(Allocation(0x1018, np.zeros(2, np.uint8), "c"))
    with pytest.raises(ValueError, match="c and a overlap at 0xff8"):
        memory.add(Allocation(0xFF8, np.zeros(9, np.uint8), "c"))
    with pytest.raises(ValueError, match="c begins at 0x2001, which is no multiple of 8"):
        memory.add(Allocation(0x2001, np.zeros(2, np.uint8), "c"))
    assert memory.at(0x100F).name == "a" and memory.at(0x1010).name == "b" and memory.at(0x1020) is None
    memory.remove(memory.at(0x1000))
    assert memory.at(0x1008) is None
