"""Both modes learn alike and write the same text; all lengths of the context are one recording."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jtorch
from benchmarks.dynamic import example_of

SMALL = "--steps 12 --every 4 --context 12 --width 16 --layers 1 --count 30"


@pytest.mark.slow
def test_both_modes_write_the_same_text(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    with warnings.catch_warnings():
        warnings.simplefilter("error", jtorch.errors.RetraceWarning)
        (losses, lines), (others, their_lines) = in_all_modes(SMALL, ["", "--compile"])
    assert others == pytest.approx(losses, rel=1e-9) and len(losses) == 12
    assert lines == their_lines and len("\n".join(lines[3:])) == 30


@pytest.mark.slow
def test_it_learns_the_verses(example, capsys):
    pytest.importorskip("numba", reason="Numba is not installed: eager mode takes longer")
    losses = example.main(["--compile"])
    assert losses[0] > 2.5 and losses[-1] < 0.4


def test_what_follows_does_not_reach_what_is_before(example):
    model, x = example.GPT(7, 9, 16, 2), jtorch.randint(0, 7, (2, 9))
    other = x.clone()
    other[:, 5:] = (x[:, 5:] + 1) % 7
    before, after = model(x), model(other)
    assert jtorch.allclose(before[:, :5], after[:, :5], atol=1e-6)
    assert not jtorch.allclose(before[:, 5:], after[:, 5:], atol=1e-3)


def test_characters_are_drawn_with_their_shares(example):
    shares = np.array([0.1, 0.6, 0.3])
    seen = []

    def given(x):
        seen.append(x.shape[1])
        return jtorch.tensor(shares)

    found = example.sample(given, [2], 4000, 5, seed=0)
    assert seen[:6] == [1, 2, 3, 4, 5, 5] and len(found) == 4001
    assert np.bincount(found[1:], minlength=3) / 4000 == pytest.approx(shares, abs=0.03)


def test_pytorch_gives_the_same_scores(example):
    torch = pytest.importorskip("torch")
    jtorch.set_default_dtype(jtorch.float64)
    model, theirs = example.GPT(7, 9, 16, 2), example_of("char_gpt", torch).GPT(7, 9, 16, 2).double()
    state = {name: torch.tensor(p.tolist(), dtype=torch.float64) for name, p in model.state_dict().items()}
    theirs.load_state_dict(state)
    x = jtorch.randint(0, 7, (2, 9))
    expected = theirs(torch.tensor(x.tolist())).flatten().tolist()
    assert model(x).flatten().tolist() == pytest.approx(expected, rel=1e-10)
