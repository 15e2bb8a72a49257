"""The text of CUDA kernels, and the rules by which they are launched."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import jtorch
from jtorch.compile.codegen.cuda import write_cuda_kernel
from jtorch.compile.codegen.cuda_launch import (
    THREADS,
    Footprint,
    Launch,
    Phase,
    Scratch,
    Status,
    Work,
    argument_block,
    batches,
    block_of,
    independent,
    launches,
    splits_for,
)
from jtorch.compile.codegen.emitter import Number, Pointer
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.ir import Type, Var
from tests.compile.chain import optimised, planned, trace


def kernels(function, *leaves, splits=None):
    """The CUDA kernels of a program."""
    plan = planned(finalise(optimised(trace(function, leaves).graph)))
    nests = [t.nest for t in plan.tasks if t.nest is not None]
    return [write_cuda_kernel(n, lambda v: plan.places.get(v, v), splits) for n in nests]


def kernel(function, *leaves, splits=None):
    (found,) = kernels(function, *leaves, splits=splits)
    return found


def test_a_chain_is_one_strided_loop():
    found = kernel(lambda x: [x.exp() * 2.0], jtorch.ones(3, 4))
    assert found.source == (
        "from numba import cuda\n"
        "from jtorch.native.vecmath import exp_f32\n"
        "\n"
        "ARGUMENTS = ('i64', 'f32*', 'f32', 'f32*')\n"
        "\n"
        "\n"
        "def map_exp_mul(n0, x0, c0, y0):\n"
        "    # v1 = exp(v0)\n"
        "    # v3 = mul(v1, v2)\n"
        "    i0 = cuda.grid(1)\n"
        "    while i0 < n0:\n"
        "        t0 = x0[i0]\n"
        "        t1 = exp_f32(t0)\n"
        "        t2 = t1 * c0\n"
        "        y0[i0] = t2\n"
        "        i0 += cuda.gridsize(1)\n"
    )


PROGRAMS = {
    "map": (lambda x: [x.relu() + 1.0], (4, 6), (5, 9)),
    "row": (lambda x: [x.softmax(-1)], (4, 6), (1, 3000)),
    "column": (lambda x: [x.sum(0)], (4, 6), (70000, 8)),
    "all": (lambda x: [(x * x).sum()], (4, 6), (300, 400)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_text_serves_every_size(name):
    function, small, large = PROGRAMS[name]
    assert kernel(function, jtorch.ones(small)).source == kernel(function, jtorch.ones(large)).source


def test_large_sums_are_split_over_blocks():
    found = kernel(lambda x: [x.sum()], jtorch.ones(300, 400))
    splits = found.work.splits
    assert splits == splits_for("row", 1, 120000) > 1
    assert found.launches == (Launch((splits, 1), (THREADS, 1), 1), Launch((1, 1), (THREADS, 1), 2))
    assert [a for a in found.arguments if isinstance(a, Scratch)] == [Scratch(np.dtype(np.float32), splits)]
    small = kernel(lambda x: [x.sum()], jtorch.ones(30, 4))
    assert small.launches == (Launch((1, 1), (128, 2), 0),)


def test_passes_after_a_split_reduction_walk_again():
    found = kernel(lambda x: [x.softmax(0)], jtorch.ones(50000))
    assert found.work.passes == (True, True, True)
    assert [launch.phase for launch in found.launches] == [1, 2, 3]
    assert len({launch.grid for launch in found.launches}) == 1


def test_results_over_what_each_block_reads_are_written_last():
    plan = planned(
        finalise(
            optimised(trace(lambda x, r: [r * 0.9 + x.sum(0)], [jtorch.ones(5, 6), jtorch.ones(6)]).graph)
        )
    )
    running, out = plan.fused.graph.inputs[1], plan.fused.graph.outputs[0]
    (nest,) = [t.nest for t in plan.tasks if t.nest.style == "column"]
    apart = write_cuda_kernel(nest, lambda v: v)
    in_place = write_cuda_kernel(nest, lambda v: running if v is out else v)
    assert "splits" in apart.source
    assert "splits" not in in_place.source and in_place.work.splits == 1
    last_sync = in_place.source.rindex("cuda.syncthreads()")
    assert in_place.source.index("= x0[i1]") < last_sync < in_place.source.index("x0[i1] = ")


def test_errors_have_a_word_each():
    gathers = kernels(lambda x, i: [x[i] + 1.0], jtorch.ones(5, 3), jtorch.tensor([1, 2]))
    found = next(k for k in gathers if k.errors)
    assert [failure.sentence for failure in found.errors] == ["index out of range in self"]
    assert found.arguments[-1] == Status(1)
    assert "status[0] = 1" in found.source


def test_a_scatter_clears_first_and_uses_no_atomics():
    weight = jtorch.zeros(50, 8, requires_grad=True)

    def program(ids, g):
        out = jtorch.nn.functional.embedding(ids, weight)
        return jtorch.autograd.grad([out], [weight], [g])[0].clone()

    found = next(
        k
        for k in kernels(program, jtorch.zeros(20, dtype=jtorch.int64), jtorch.ones(20, 8))
        if k.work.style == "scatter"
    )
    assert "atomic" not in found.source
    assert [launch.phase for launch in found.launches] == [0, 1]
    assert found.work.kept == 8 * 50 and found.work.cleared == 50 * 8


# -- launch rules ------------------------------------------------------------------------------------------


def test_teams_are_powers_of_two_and_fill_a_block():
    assert block_of([Work("row", 32, 10)], 256) == (16, 16)
    assert block_of([Work("row", 4, 5000)], 256) == (256, 1)
    assert block_of([Work("row", 4, 1)], 256) == (1, 256)
    assert block_of([Work("column", 64, 1000)], 256) == (32, 8)
    assert block_of([Work("column", 10, 1000)], 256) == (16, 16)


def test_many_steps_share_a_launch_as_rows_of_the_table():
    works = [Work("map", n) for n in (4096, 64, 640, 10, 1)]
    assert launches(works) == (Launch((16, 5), (THREADS, 1), 0),)
    rows = [Work("row", 100, 8), Work("row", 3, 30)]
    assert launches(rows) == (Launch((13, 2), (32, 8), 0),)


def test_nothing_to_do_is_no_launch():
    assert launches([Work("map", 0)]) == ()
    assert launches([Work("row", 0, 5)]) == ()
    assert launches([Work("scatter", 0, cleared=6)]) == (Launch((1, 1), (THREADS, 1), 0),)
    assert launches([Work("row", 1, 0)]) == (Launch((1, 1), (1, THREADS), 0),)  # a sum of nothing is 0


def test_words_of_an_argument_block():
    var = Var(Type(np.dtype(np.float32), (4,)))
    arguments = [
        Number(3, np.dtype(np.int64)), Pointer(var, 2), Number(0.5, np.dtype(np.float32)), Phase(),
        Number(True, np.dtype(np.bool_)), Number(2**63, np.dtype(np.uint64)), Status(1),
    ]  # fmt: skip
    words = argument_block(arguments, lambda a: 1000 if isinstance(a, Pointer) else 2000)
    half = struct.unpack("q", struct.pack("d", 0.5))[0]
    assert words.tolist() == [3, 1008, half, 0, 1, -(2**63), 2000]


def test_steps_that_touch_the_same_memory_are_not_merged():
    a = Footprint((range(0, 8),), (range(8, 16),))
    reader = Footprint((range(12, 20),), (range(20, 24),))
    writer = Footprint((), (range(4, 6),))
    other = Footprint((range(0, 8),), (range(30, 40),))
    assert not independent(a, reader) and not independent(a, writer) and independent(a, other)
    steps = [("k", a), ("k", other), ("k", reader), ("k", other), ("m", other)]
    assert batches(steps) == [[0, 1], [2, 3], [4]]
