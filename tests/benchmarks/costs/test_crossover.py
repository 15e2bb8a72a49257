import json
import sys

import pytest

from benchmarks.cli import main
from benchmarks.contestant import COMPILED, EAGER
from benchmarks.costs import picture
from benchmarks.costs.crossover import Cell, Grid, crossing, curves
from benchmarks.timing import Timing
from benchmarks.workloads import ROWS

GIVEN = ["crossover", "--quick", "--widths", "8,4", "--batches", "2", "--depths", "1"]


@pytest.mark.parametrize(
    ("ratios", "width"),
    [
        ({16: 5.0, 64: 1.05, 256: 1.0}, 64),
        ({16: 1.0, 64: 2.0, 256: 1.09}, 256),
        ({256: 1.0, 16: 0.9}, 16),
        ({16: 1.0, 64: 1.1}, None),
    ],
)
def test_where_overhead_stops_to_matter(ratios, width):
    assert crossing(ratios) == width


def test_the_cells_of_a_grid_and_their_curves():
    cells = []
    for depth, batch, width in Grid((64, 16), (8,), (2, 1)).cells():
        timings = {EAGER: Timing((width * 1.0,), 1), COMPILED: Timing((8.0,), 1)}
        cells.append(Cell(ROWS["toy"], timings, depth=depth, batch=batch, width=width))
    assert curves(cells) == {1: {8: {16: 2.0, 64: 8.0}}, 2: {8: {16: 2.0, 64: 8.0}}}


def test_the_command(tmp_path, capsys):
    file = tmp_path / "figures.json"
    assert main([*GIVEN, "--json", str(file)], compiler=lambda step: step) == 0
    printed = capsys.readouterr().out
    assert "eager / compiled" in printed and "1 layer, batch 2" in printed
    rows = json.loads(file.read_text())["rows"]
    assert [(row["depth"], row["batch"], row["width"]) for row in rows] == [(1, 2, 4), (1, 2, 8)]
    assert set(rows[0]["timings"]) == {EAGER, COMPILED}


def test_modes_that_differ_are_an_error(capsys):
    assert main(GIVEN, compiler=lambda step: lambda *given: step(*given) + 1) == 1
    assert (
        "ERROR mlp-4x1-b2: jtorch compiled: jtorch compiled: the result of step 0" in capsys.readouterr().out
    )


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_the_picture(suffix, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: no charts are drawn")
    file = tmp_path / f"picture{suffix}"
    picture.write(file, {1: {8: {16: 5.0, 64: 1.05}}, 2: {8: {16: 4.0}}}, 1.1)
    content = file.read_bytes()
    begins = {".svg": b"<?xml", ".png": b"\x89PNG", ".html": b"<!doctype html>"}[suffix]
    assert content.startswith(begins)
    if suffix == ".html":
        assert b"2 hidden layers" in content and content.count(b"<svg") == 2


def test_without_matplotlib_a_picture_is_refused_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as stopped:
        main(["crossover", "-o", str(tmp_path / "a.svg")])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith('the charts need matplotlib: python -m pip install -e ".[report]"')
