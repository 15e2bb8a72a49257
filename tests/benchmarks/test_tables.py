"""Tables stay within the width of their console, and lose no cell."""

import pytest
from rich.console import Console

from benchmarks.tables import ERROR, show

HEADINGS = ("workload", "time of a\nstep", "what it is", "verdict")
ROWS = [
    ["lenet", "12.3 ms 4%", "LeNet on images of 28x28, batch 64, Adam", ERROR],
    ["[toy]", "1.2 us 9%", "five neurons, forward and backward", ""],
]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 150])
def test_every_width(width):
    console = Console(width=width)
    with console.capture() as capture:
        show(console, "Time of a step", HEADINGS, ROWS, left=("what it is",), caption="a note")
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).split())
    assert "12.3 ms 4%" in words and "[toy]" in words and "ERROR" in words and "a note" in words
    in_columns = any("lenet" in line and "ERROR" in line for line in lines)
    assert in_columns == (width >= 80)


def test_folded_rows_name_each_cell():
    console = Console(width=50)
    with console.capture() as capture:
        show(console, "Time of a step", HEADINGS, ROWS)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    begin = lines.index("[toy]")
    assert [line.split()[:3] for line in lines[begin + 1 : begin + 3]] == [
        ["time", "of", "a"],
        ["what", "it", "is"],
    ]
    assert not any(line.startswith("  verdict") for line in lines[begin:])  # empty
