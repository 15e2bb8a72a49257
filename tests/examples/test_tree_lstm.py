"""The tree LSTM computes the same by recursion and by levels, in both modes, and learns."""

from __future__ import annotations

import random

import pytest

import jtorch
from benchmarks.dynamic import example_of


@pytest.mark.slow
def test_all_ways_give_the_same_losses(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    first, *others = in_all_modes("--steps 4 --every 2", ["", "--compile", "--batch", "--batch --compile"])
    assert len(first[0]) == 4 and len(first[1]) == 2
    for losses, lines in others:
        assert lines == first[1]
        assert losses == pytest.approx(first[0], rel=1e-11)


@pytest.mark.slow
def test_it_learns(example, capsys):
    losses = example.main(["--batch"])
    assert losses[0] > 0.6 and sum(losses[-10:]) / 10 < 0.1
    assert "99.1% of 212 nodes right" in capsys.readouterr().out


def test_the_values_of_formulas(example):
    def text(tree):
        inner = ", ".join(map(text, tree.children))
        return f"{'f_' if tree.children else ''}{example.WORDS[tree.word]}" + (f"({inner})" if inner else "")

    meaning = {
        "f_not": lambda a: 1 - a,
        "f_and": lambda *v: min(v),
        "f_or": lambda *v: max(v),
        "f_xor": lambda *v: sum(v) % 2,
    }
    r = random.Random(1)
    for tree in (example.formula(r, 4) for _ in range(50)):
        assert tree.height <= 4
        assert all(node.value == eval(text(node), meaning) for node in example.nodes(tree))


def test_levels_of_any_size_share_their_recordings(example):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    model, r = example.ChildSumLSTM(8), random.Random(0)
    cell = jtorch.compile(model, dynamic=True)
    for _ in range(20):
        example.by_height(cell, [example.formula(r, 4) for _ in range(10)], jtorch.zeros(0, 8))
    assert sum(len(plans) for plans in cell.plans.values()) <= 4


def test_pytorch_gives_the_same_states(example):
    torch = pytest.importorskip("torch")
    trees = [example.formula(random.Random(2), 4) for _ in range(8)]
    jtorch.set_default_dtype(jtorch.float64)
    model, other = example.ChildSumLSTM(8), example_of("tree_lstm", torch)
    theirs = other.ChildSumLSTM(8).double()
    state = {name: torch.tensor(p.tolist(), dtype=torch.float64) for name, p in model.state_dict().items()}
    theirs.load_state_dict(state)
    found, order = example.by_height(model, trees, jtorch.zeros(0, 8))
    expected, _ = other.by_height(theirs, trees, torch.zeros(0, 8, dtype=torch.float64))
    assert found.shape == (len(order), 8)
    assert found.flatten().tolist() == pytest.approx(expected.flatten().tolist(), rel=1e-11)
