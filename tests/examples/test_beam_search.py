"""The beams of both modes are the same, and they are the best ones."""

from __future__ import annotations

import itertools
import math

import pytest

import jtorch
from benchmarks.dynamic import example_of
from tests.examples.conftest import EXAMPLES

SHAKESPEARE = EXAMPLES / "../../shared/data/tinyshakespeare.txt"
END = 0


@pytest.mark.slow
def test_both_modes_find_the_same_beams(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    options = "--steps 25 --length 24 --beams 4 --start This --start the"
    (beams, lines), (others, their_lines) = in_all_modes(options, ["", "--compile"])
    assert [line for _, line in others] == [line for _, line in beams]
    assert [score for score, _ in others] == pytest.approx([score for score, _ in beams], rel=1e-11)
    assert lines == their_lines and len(lines) == 4 and len(beams) == 8


@pytest.mark.slow
@pytest.mark.skipif(not SHAKESPEARE.is_file(), reason="tinyshakespeare.txt is not in shared/data")
def test_of_a_play(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    options = f"--text {SHAKESPEARE} --steps 25 --length 24 --start First"
    (beams, lines), (others, their_lines) = in_all_modes(options, ["", "--compile"])
    assert lines == their_lines and [line for _, line in others] == [line for _, line in beams]


@pytest.mark.slow
def test_it_learns_the_rhyme(example, capsys):
    pytest.importorskip("numba", reason="Numba is not installed: eager mode takes longer")
    found = example.main(["--compile", "--start", "This is the house ", "--start", "This is the malt "])
    best = [max(found[:6])[1], max(found[6:])[1]]
    assert best[0] == "This is the house that Jack built.\n"
    assert best[1] == "This is the malt that lay in the house that Jack built.\n"


def logarithms(beams, width):
    """A language of three characters in which the next one depends on the last, and how likely it is."""
    table = jtorch.tensor([[1.0, 1.0, 1.0], [0.1, 0.3, 0.6], [0.2, 0.45, 0.35]])
    return table.log()[beams[:, -1]].topk(width)


def test_beams_that_are_wide_enough_find_the_best_of_all(example):
    found = example.beam_search(lambda beams: logarithms(beams, 3), [1], END, width=40, length=5)
    table = {1: [0.1, 0.3, 0.6], 2: [0.2, 0.45, 0.35]}
    every = set()
    for rest in itertools.product(range(3), repeat=4):
        until = rest.index(END) + 1 if END in rest else 4
        line = (1, *rest[:until])
        every.add((round(math.prod(table[a][b] for a, b in itertools.pairwise(line)), 6), line))
    assert len(every) == len(found) == 31
    assert [round(math.exp(score), 6) for score, _ in found] == sorted((p for p, _ in every), reverse=True)
    assert {tuple(beam) for _, beam in found} == {line for _, line in every}


def test_one_beam_is_greedy_and_the_search_ends_with_its_beams(example):
    ((score, beam),) = example.beam_search(lambda beams: logarithms(beams, 1), [1], END, width=1, length=4)
    assert beam == [1, 2, 1, 2] and score == pytest.approx(math.log(0.6 * 0.45 * 0.6), rel=1e-6)
    asked = []

    def ends(beams):
        asked.append(len(beams))
        return jtorch.zeros(len(beams), 1), jtorch.zeros(len(beams), 1, dtype=jtorch.int64)

    assert example.beam_search(ends, [1], END, width=3, length=9) == [(0.0, [1, END])] and asked == [1]


def test_pytorch_gives_the_same_scores(example):
    torch = pytest.importorskip("torch")
    jtorch.set_default_dtype(jtorch.float64)
    model, theirs = example.GPT(11, 8).eval(), example_of("beam_search", torch).GPT(11, 8).double().eval()
    state = {name: torch.tensor(p.tolist(), dtype=torch.float64) for name, p in model.state_dict().items()}
    theirs.load_state_dict(state)
    x = jtorch.randint(0, 11, (2, 6))
    expected = theirs(torch.tensor(x.tolist())).flatten().tolist()
    assert model(x).flatten().tolist() == pytest.approx(expected, rel=1e-10)
