import pytest
from rich.console import Console

from benchmarks import markdown
from benchmarks.first_call import STAGES, FirstCall
from benchmarks.measure import COMPILED, EAGER, Row
from benchmarks.report import duration, one_line, show, size
from benchmarks.tape import TapeCost
from benchmarks.timing import Timing
from benchmarks.workloads import ROWS

MACHINE = {"cpu": "a CPU", "cores": 2, "threads": 1, "python": "3.11", "versions": {"numpy": "2.4"}}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.234, "1.23 s"),
        (0.0456789, "45.7 ms"),
        (123.4e-6, "123 us"),
        (1.239e-6, "1.24 us"),
        (0.9996e-3, "1.00 ms"),
        (12e-9, "0.0120 us"),
        (-3.21e-6, "-3.21 us"),
        (0.0, "0.00 us"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (36_864, "36.9 kB"),
        (999_600, "1.00 MB"),
        (2.5e9, "2.50 GB"),
    ],
)
def test_sizes(nbytes, text):
    assert size(nbytes) == text


def shown(row, peers=()):
    console = Console(width=150)
    with console.capture() as capture:
        show(console, MACHINE, [row], list(peers))
    return capture.get()


def test_a_row_with_all_figures():
    row = Row(ROWS["toy"], kernels=3)
    row.timings = {
        EAGER: Timing((40e-6,), 1),
        COMPILED: Timing((4e-6,), 1),
        "torch": Timing((60e-6,), 1),
    }
    row.tape = TapeCost(6, Timing((12e-6,), 1), Timing((9e-6,), 1))
    row.first_call = FirstCall(0.36, dict.fromkeys(STAGES, 0.01), second_process=0.02)
    text = shown(row, ["torch"])
    for part in (
        "40.0 us",
        "4.00 us",
        "10.0x",
        "60.0 us",
        "360 ms",
        "20.0 ms",
        "10,000",
        "PyTorch eager",
    ):
        assert part in text
    assert "ERROR" not in text


def test_markdown_says_the_same():
    row = Row(ROWS["toy"], errors={"torch": "no"})
    row.timings = {EAGER: Timing((40e-6,), 1), COMPILED: Timing((4e-6,), 1)}
    row.first_call = FirstCall(0.36, dict.fromkeys(STAGES, 0.01), second_process=0.02)
    assert markdown.table([row], ["torch"]).splitlines() == [
        "| step | eager | compiled | speed-up | PyTorch eager | first call | second process | pays after |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| 5 neurons, forward and backward | 40.0 us | 4.00 us | 10.0x | ERROR "
        "| 360 ms | 20.0 ms | 10,000 calls |",
    ]
    row.timings[COMPILED] = Timing((50e-6,), 1)
    assert markdown.table([row], []).endswith("| 0.8x | 360 ms | 20.0 ms | never |")


def test_an_error_takes_the_figures_place_and_is_told_in_full():
    row = Row(ROWS["toy"], errors={COMPILED: "[w1] differs by 0.5"})
    row.timings = {EAGER: Timing((40e-6,), 1)}
    text = shown(row)
    assert "ERROR toy, jtorch compiled: [w1] differs by 0.5" in text
    assert "x\n" not in text.split("ERROR toy")[0]


def test_progress_line():
    row = Row(ROWS["toy"], errors={COMPILED: "no"})
    row.timings = {EAGER: Timing((40e-6,), 1)}
    words = " ".join(one_line(row, 1.25).split())
    assert words == "toy jtorch eager 40.0 us, jtorch compiled ERROR [1.2 s]"
