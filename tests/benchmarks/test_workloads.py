import importlib.util

import numpy as np
import pytest

import jtorch
from benchmarks.agree import check, record
from benchmarks.commands import NAMES
from benchmarks.data import digits, enlarged
from benchmarks.tape import count_nodes
from benchmarks.workloads import ROWS, WORKLOADS

BIG = {"lenet", "rnn", "width-1024"}


def needs(library):
    missing = importlib.util.find_spec(library) is None
    return pytest.mark.skipif(missing, reason=f"{library} is not installed: nothing to compare with")


def test_the_command_line_names_every_workload():
    assert tuple(WORKLOADS) == NAMES


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    images, labels = digits()
    bunch = load_digits()
    assert images.dtype == np.float32 and labels.dtype == np.int64
    np.testing.assert_array_equal(images, bunch.images / 16)
    np.testing.assert_array_equal(labels, bunch.target)


def test_enlarged_digits_have_mnists_shape():
    images, labels = enlarged(4)[0]
    assert images.shape == (4, 1, 28, 28) and labels.shape == (4,)
    np.testing.assert_array_equal(images[:, 0, 2:-2:3, 2:-2:3], digits()[0][:4])


@pytest.mark.parametrize("row", ROWS)
def test_a_reset_program_computes_the_same_again(row):
    program = ROWS[row].torch_like(jtorch)
    first, second = (record(program, program.step, 3) for _ in range(2))
    for a, b in zip(first.losses, second.losses, strict=True):
        np.testing.assert_array_equal(a, b)
    for name, value in first.parameters.items():
        np.testing.assert_array_equal(value, second.parameters[name])
    assert sorted(first.gradients) == sorted(first.parameters)


@pytest.mark.parametrize("row", [r for r in ROWS if r not in ("call", "toy", "rnn_cell")])
def test_training_learns(row):
    program = ROWS[row].torch_like(jtorch)
    x, y = program.arguments[0]
    losses = [program.step(x, y).item() for _ in range(8)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("row", "nodes"), [("call", 1), ("toy", 6), ("rnn_cell", 5), ("mlp", 4)])
def test_nodes_on_the_tape(row, nodes):
    program = ROWS[row].torch_like(jtorch)
    assert count_nodes(program.forward(*program.arguments[0])) == nodes


@needs("torch")
@pytest.mark.parametrize("row", ROWS)
def test_pytorch_computes_the_same(row):
    import torch

    ours, theirs = ROWS[row].torch_like(jtorch), ROWS[row].torch_like(torch)
    found, expected = record(ours, ours.step, 5), record(theirs, theirs.step, 5)
    check(found, expected, ROWS[row].tolerance, "jtorch eager")


@needs("jax")
@pytest.mark.parametrize("row", [r for r in ROWS if r not in BIG])
def test_jax_computes_the_same(row):
    ours, theirs = ROWS[row].torch_like(jtorch), ROWS[row].jax()
    found, expected = record(theirs, theirs.step, 5), record(ours, ours.step, 5)
    check(found, expected, ROWS[row].tolerance, "jax", gradients=False)
