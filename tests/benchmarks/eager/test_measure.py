import importlib.util
from dataclasses import replace

import pytest

from benchmarks.eager.cases import SECTIONS, Case
from benchmarks.eager.measure import Line, mean_of, measure
from benchmarks.peers import Peer
from benchmarks.program import Program
from benchmarks.timing import Effort, Timing

SHORT = Effort(rounds=2, seconds=1e-4)
TORCH = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is not installed: there is no peer to run",
)


def timing(*samples):
    return Timing(samples, 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "goal", "verdict"),
    [
        ((0.5,), (1.0,), 0.7, "met"),
        ((0.7,), (1.0,), 0.7, "met"),
        ((0.8,), (1.0,), 0.7, "missed"),
        ((0.6, 0.72, 0.9), (1.0, 1.0, 1.0), 0.7, "within noise"),
        ((0.72, 0.72, 0.72), (0.9, 1.0, 1.2), 0.7, "within noise"),
        ((0.9, 0.9, 0.9), (0.9, 1.0, 1.2), 0.7, "missed"),
        ((0.5,), (1.0,), None, ""),
    ],
)
def test_verdict_of_a_ratio(ours, theirs, goal, verdict):
    assert Line("a", "a", goal, ours=timing(*ours), theirs=timing(*theirs)).verdict == verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(0.2, "met"), (0.3, "missed")])
def test_verdict_of_seconds_needs_no_peer(seconds, verdict):
    line = Line("import", "", 0.25, ours=timing(seconds), absolute=True)
    assert (line.ratio, line.verdict) == (None, verdict)


def test_without_a_peer_there_is_no_verdict():
    assert Line("a", "a", 0.7, ours=timing(1.0)).verdict == ""
    assert Line("a", "a", 0.7, error="no").verdict == "ERROR"


def test_the_mean_is_of_all_lines_or_none():
    lines = [Line("a", "", None, ours=timing(r), theirs=timing(1.0)) for r in (0.5, 0.7)]
    mean = mean_of("mean", "", lines, 0.7)
    assert mean.ratio == pytest.approx(0.6) and mean.verdict == "met"
    assert mean_of("mean", "", [*lines, Line("b", "", None, error="no")], 0.7).ratio is None


def test_numpy_is_the_peer_of_arrays():
    case = next(c for c in SECTIONS["arrays"] if c.workload.name == "array-max")
    line = measure(case, SHORT, None)
    assert line.peer == "NumPy" and line.ratio > 0 and line.error is None
    assert line.as_dict()["theirs"]["median_s"] == line.theirs.median


def test_another_number_is_an_error_and_has_no_figure():
    case = next(c for c in SECTIONS["arrays"] if c.workload.name == "array-max")
    wrong = Program(lambda x, y: x.max() + 1, case.numpy().arguments, lambda: None, dict)
    line = measure(replace(case, numpy=lambda: wrong), SHORT, None)
    assert "NumPy: the result of step 0 differs" in line.error
    assert line.verdict == "ERROR" and line.ours is None


def test_a_program_that_fails_is_an_error_of_its_line():
    def failing(torch):
        raise NotImplementedError("not here")

    case = SECTIONS["chain"][0]
    line = measure(Case(replace(case.workload, torch_like=failing), 1.0), SHORT, None)
    assert line.error == "NotImplementedError: not here"


@pytest.mark.slow
@TORCH
def test_pytorch_takes_turns_in_its_own_process():
    with Peer("torch", threads=1) as peer:
        for case in (*SECTIONS["chain"], SECTIONS["ops"][0]):
            line = measure(case, SHORT, peer)
            assert line.error is None and line.peer == "PyTorch eager" and line.ratio > 0
