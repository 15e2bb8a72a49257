import importlib.util

import numpy as np
import pytest

import jtorch
from benchmarks.agree import check, record
from benchmarks.eager import arrays, operations
from benchmarks.eager.cases import ROWS, SECTIONS
from benchmarks.tape import count_nodes
from benchmarks.workloads import transformer

TORCH = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is not installed: nothing to compare with",
)
NEW = [
    r
    for r in ROWS
    if r.startswith(("op-", "chain", "conv-", "transformer")) or r.endswith((" 8x8", " 64x64"))
]


@TORCH
@pytest.mark.parametrize("row", NEW)
def test_pytorch_computes_the_same(row):
    import torch

    ours, theirs = ROWS[row].torch_like(jtorch), ROWS[row].torch_like(torch)
    found, expected = record(ours, ours.step, 2), record(theirs, theirs.step, 2)
    check(found, expected, ROWS[row].tolerance, "jtorch eager")


@pytest.mark.slow
@pytest.mark.parametrize("name", arrays.FORMS)
def test_numpy_computes_the_same(name):
    row = f"array-{name}"
    ours, theirs = ROWS[row].torch_like(jtorch), arrays.NUMPY[row]()
    check(record(ours, ours.step, 1), record(theirs, theirs.step, 1), ROWS[row].tolerance, "jtorch eager")


@pytest.mark.parametrize("workload", operations.WORKLOADS, ids=lambda w: w.name)
def test_every_small_op_hangs_one_node_on_the_tape(workload):
    out = workload.torch_like(jtorch).step()
    assert out.requires_grad and count_nodes(out) == 1


def test_the_chain_is_as_long_as_its_time_is_divided_by():
    program = operations.CHAIN_WORKLOAD.torch_like(jtorch)
    (case,) = SECTIONS["chain"]
    assert count_nodes(program.forward()) == case.ops == operations.CHAIN


def test_every_line_has_a_goal_but_single_ops():
    goals = {case.workload.name: case.goal for group in SECTIONS.values() for case in group}
    assert {name for name, goal in goals.items() if goal is None} == {w.name for w in operations.WORKLOADS}


@pytest.mark.slow
def test_the_transformer_learns_and_starts_over_after_a_reset():
    program = transformer.WORKLOAD.torch_like(jtorch)
    x, y = program.arguments[0]
    losses = [program.step(x, y).item() for _ in range(8)]
    assert losses[-1] < losses[0]
    program.reset()
    assert program.step(x, y).item() == losses[0]


def test_the_key_bias_is_left_out_of_the_comparison_because_its_gradient_is_rounding():
    program = transformer.WORKLOAD.torch_like(jtorch)
    program.step(*program.arguments[0])
    name = "layers.0.self_attn.in_proj_bias"
    gradient = program.gradients()[name].reshape(3, -1)
    assert np.abs(gradient[1]).max() < 1e-6 * np.abs(gradient).max()
    assert program.parameters()[name].shape == (2 * transformer.WIDTH,)
