"""What the PTX machine refuses: launches of kernels with one thing wrong each."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.ptx.errors import (
    BarrierDivergenceError,
    ConstantWrittenError,
    EndlessError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    UnwrittenError,
)
from tests.cuda.snippets import PLACE, kernel, run, words

# -- addresses ---------------------------------------------------------------------------------------------


def test_out_of_bounds():
    message = (
        r"k, line \d+ `st.global.u32 \[%rd3\], %r4`, block \(1, 0, 0\), thread \(3, 0, 0\): "
        r"4 bytes at 0x\w+ are in no allocation; array 0 has 28 bytes, and this is 28"
    )
    with pytest.raises(OutOfBoundsError, match=message):
        run(kernel(PLACE + "st.global.u32 [%rd3], %r4;"), words(7), grid=2)
    with pytest.raises(OutOfBoundsError, match=r"thread \(0, 0, 0\): 4 bytes"):
        run(kernel(PLACE + "ld.global.u32 %r5, [%rd3+-4]; st.global.u32 [%rd3], %r5;"), words(4))


def test_over_the_end_by_a_part():
    with pytest.raises(OutOfBoundsError, match=r"8 bytes at .* array 0 has 12 bytes, and this is 8"):
        run(kernel("ld.param.u64 %rd1, [k_param_0]; st.global.u64 [%rd1+8], %rd1;"), words(3), block=1)


def test_shared_memory_out_of_bounds():
    """An array's end is one, though another array follows."""
    arrays = ".shared .align 4 .b8 s[16]; .shared .align 4 .b8 t[16];"
    body = PLACE + "mov.u64 %rd4, s; add.s64 %rd4, %rd4, %rd2; st.shared.u32 [%rd4], %r1;"
    with pytest.raises(
        OutOfBoundsError, match=r"thread \(4, 0, 0\): .* shared memory s has 16 bytes, and this is 16"
    ):
        run(kernel(body, arrays=arrays), words(8), block=8)


def test_misaligned():
    with pytest.raises(MisalignedError, match=r"thread \(1, 0, 0\): 8 bytes at 0x\w+ are not aligned"):
        run(kernel(PLACE + "st.global.u64 [%rd3], %rd1;"), np.zeros(4, np.uint64))


def test_threads_of_one_access_in_several_allocations():
    a, b = words(2), words(2)
    body = (
        PLACE
        + """ld.param.u64 %rd4, [k_param_1]; setp.lt.u32 %p1, %r4, 2; mul.wide.u32 %rd5, %r4, 4;
add.s64 %rd6, %rd4, %rd5; add.s64 %rd6, %rd6, -8; selp.b64 %rd7, %rd3, %rd6, %p1;
ld.global.u32 %r5, [%rd7]; add.s32 %r5, %r5, %r4; st.global.u32 [%rd7], %r5;"""
    )
    a[:], b[:] = 10, 20
    run(kernel(body, "u64 u64"), a, b)
    assert a.tolist() == [10, 11] and b.tolist() == [22, 23]
    with pytest.raises(OutOfBoundsError, match=r"block \(0, 0, 0\), thread \(4, 0, 0\)"):
        run(kernel(body, "u64 u64"), a, b, block=5)


# -- what was never written --------------------------------------------------------------------------------


def test_memory_that_nobody_wrote():
    body = PLACE + "ld.global.u32 %r5, [%rd3]; st.global.u32 [%rd3], %r5;"
    written = np.repeat([True, True, False, True], 4)
    with pytest.raises(
        UnwrittenError, match=r"ld.global.*thread \(2, 0, 0\): array 0\+8 is read, and nobody has written"
    ):
        run(kernel(body), words(4), written=written)
    written[:] = False
    run(kernel(PLACE + "st.global.u32 [%rd3], %r1;"), words(4), written=written)
    run(kernel(body), words(4), written=written)


def test_a_part_of_a_word_that_nobody_wrote():
    body = (
        PLACE
        + "mov.u16 %rs1, 1; st.global.u8 [%rd3], %rs1; ld.global.u32 %r5, [%rd3]; st.global.u32 [%rd3], %r5;"
    )
    with pytest.raises(UnwrittenError, match=r"array 0\+0 is read"):
        run(kernel(body), words(4), written=np.zeros(16, bool))


SHARED = ".shared .align 4 .b8 s[16];"
PLACE_SHARED = PLACE + "mov.u64 %rd4, s; mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, %rd4, %rd5;"


def test_shared_memory_that_nobody_wrote():
    body = PLACE_SHARED + "ld.shared.u32 %r5, [%rd6]; st.global.u32 [%rd3], %r5;"
    with pytest.raises(UnwrittenError, match=r"shared memory s\+0 is read"):
        run(kernel(body, arrays=SHARED), words(4))


def test_shared_memory_of_another_block_is_another():
    """The first block writes, and the second finds nothing."""
    body = (
        PLACE_SHARED
        + """setp.ne.u32 %p1, %r2, 0; @%p1 bra L1; st.shared.u32 [%rd6], %r1;
L1: ld.shared.u32 %r5, [%rd6]; st.global.u32 [%rd3], %r5;"""
    )
    with pytest.raises(UnwrittenError, match=r"block \(1, 0, 0\)"):
        run(kernel(body, arrays=SHARED), words(8), grid=2)


# -- races -------------------------------------------------------------------------------------------------

EXCHANGE = (
    PLACE_SHARED
    + """st.shared.u32 [%rd6], %r1;
BARRIER
sub.s64 %rd7, 12, %rd5; add.s64 %rd8, %rd4, %rd7;
ld.shared.u32 %r10, [%rd8]; st.global.u32 [%rd3], %r10;"""
)


def test_a_barrier_orders_threads_of_a_block():
    out = words(8)
    run(kernel(EXCHANGE.replace("BARRIER", "bar.sync 0;"), arrays=SHARED), out, grid=2)
    assert out.tolist() == [3, 2, 1, 0] * 2


def test_a_missing_barrier():
    message = r"ld.shared.*s\+12 is read here and written by another thread, and no barrier is between"
    with pytest.raises(RaceError, match=message):
        run(kernel(EXCHANGE.replace("BARRIER", ""), arrays=SHARED), words(8), grid=2)


def test_a_missing_barrier_before_memory_is_written_again():
    body = EXCHANGE.replace("BARRIER", "bar.sync 0;") + "\nst.shared.u32 [%rd6], %r10;"
    with pytest.raises(RaceError, match=r"st.shared.*is written here and read by another thread"):
        run(kernel(body, arrays=SHARED), words(4))
    fixed = body.replace("\nst.shared", "\nbar.sync 0; st.shared")
    run(kernel(fixed, arrays=SHARED), words(4))


def test_what_one_thread_alone_reads_and_writes_is_no_race():
    body = PLACE_SHARED + "st.shared.u32 [%rd6], %r1; ld.shared.u32 %r5, [%rd6]; st.shared.u32 [%rd6], %r5;"
    run(kernel(body, arrays=SHARED), words(4))


ONE_WORD = "ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;"


def test_races_between_blocks():
    body = ONE_WORD + "st.global.u32 [%rd1], %r1;"
    with pytest.raises(RaceError, match=r"block \(0, 0, 0\).*is written here and written by another thread"):
        run(kernel(body), words(1), grid=2, block=1)
    read = (
        ONE_WORD
        + """setp.eq.u32 %p1, %r1, 0; @%p1 bra L1;
ld.global.u32 %r3, [%rd1]; bra.uni L2;
L1: st.global.u32 [%rd1], %r1; L2:"""
    )
    with pytest.raises(RaceError, match=r"read by another thread|written by another thread"):
        run(kernel(read), words(1), grid=2, block=1)


def test_no_barrier_orders_blocks():
    body = ONE_WORD + "setp.ne.u32 %p1, %r1, 0; @%p1 bra L1; st.global.u32 [%rd1], %r1; L1: bar.sync 0;"
    body += "ld.global.u32 %r3, [%rd1];"
    with pytest.raises(RaceError, match=r"block \(1, 0, 0\).*is read here and written by another thread"):
        run(kernel(body), words(1), grid=2, block=1)


def test_races_between_blocks_that_do_not_run_side_by_side():
    body = PLACE + "rem.u32 %r5, %r2, 200; mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd1, %rd4;"
    body += "setp.ne.u32 %p1, %r1, 0; @%p1 bra L1; st.global.u32 [%rd5], %r2; L1:"
    with pytest.raises(RaceError, match=r"block \(200, 0, 0\).*written by another thread"):
        run(kernel(body), words(200), grid=201, block=256)


def test_many_readers_of_one_word_and_one_writer():
    """The writer of a block that is not the last reader's."""
    body = (
        ONE_WORD
        + """ld.global.u32 %r3, [%rd1]; bar.sync 0;
setp.ne.u32 %p1, %r1, 0; @%p1 bra L1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L1; st.global.u32 [%rd1], %r1; L1:"""
    )
    run(kernel(body), words(1), block=4)
    with pytest.raises(RaceError, match=r"is written here and read by another thread"):
        run(kernel(body), words(1), grid=3, block=4)


def test_words_next_to_each_other_are_apart():
    body = "ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, %tid.x; cvt.u64.u32 %rd2, %r1;"
    body += "add.s64 %rd1, %rd1, %rd2;"
    out = np.zeros(8, np.uint8)
    run(kernel(body + "cvt.u16.u32 %rs1, %r1; st.global.u8 [%rd1], %rs1;"), out, block=8)
    assert out.tolist() == list(range(8))


def test_flags_that_several_threads_write():
    """One value at one place has no order; two values have one."""
    same = kernel(ONE_WORD + "st.global.u32 [%rd1], 1;")
    with pytest.raises(RaceError):
        run(same, words(1), grid=2)
    out = words(1)
    run(same, out, grid=2, flags=True)
    assert out.tolist() == [1]
    for differing in ("%r1", "%r2"):
        with pytest.raises(RaceError, match="written by another thread"):
            run(kernel(ONE_WORD + f"st.global.u32 [%rd1], {differing};"), words(1), grid=2, flags=True)


# -- promises, barriers, ends ------------------------------------------------------------------------------


def test_constant_memory_that_is_written():
    written = PLACE + "ld.global.nc.u32 %r5, [%rd3]; st.global.u32 [%rd3], %r5;"
    with pytest.raises(
        ConstantWrittenError, match=r"st.global.*array 0\+0 is written here, and this launch reads it"
    ):
        run(kernel(written), words(4))
    read = PLACE + "st.global.u32 [%rd3], %r4; ld.global.nc.u32 %r5, [%rd3];"
    with pytest.raises(
        ConstantWrittenError, match=r"array 0\+0 is read as constant, and this launch has written it"
    ):
        run(kernel(read), words(4))
    with pytest.raises(ConstantWrittenError, match=r"array 0\+0 is constant, and written here"):
        run(kernel(PLACE + "st.global.u32 [%rd3], %r4;"), words(4), constant=True)


def test_barriers_that_not_all_threads_reach():
    apart = PLACE + "setp.lt.u32 %p1, %r1, 1; @%p1 bra L1;\nbar.sync 0; bra.uni L2;\nL1: bar.sync 0;\nL2:"
    with pytest.raises(
        BarrierDivergenceError, match=r"4 threads do not meet: 3 wait at line \d+, 1 wait at line \d+"
    ):
        run(kernel(apart), words(4))
    gone = PLACE + "setp.ge.u32 %p1, %r1, 3; @%p1 bra L1; bar.sync 0;\nL1:"
    with pytest.raises(BarrierDivergenceError, match=r"bar.sync.*3 wait at line \d+, 1 have ended"):
        run(kernel(gone), words(4))


def test_blocks_that_skip_a_barrier_as_a_whole():
    body = PLACE + "setp.lt.u32 %p1, %r2, 1; @%p1 bra L1; bar.sync 0;\nL1: st.global.u32 [%rd3], %r4;"
    out = words(12)
    run(kernel(body), out, grid=3)
    assert out.tolist() == list(range(12))


def test_a_loop_without_end():
    with pytest.raises(EndlessError, match=r"k, line \d+ `bra.uni L1`, .* does not end"):
        run(kernel("L1: bra.uni L1;"), words(1), steps=50)
