import importlib.util
import math
import subprocess
import sys

import pytest

from benchmarks.first_call import FirstCall
from benchmarks.measure import COMPILED, EAGER, Row, measure, measure_all
from benchmarks.peers import Peer, PeerError
from benchmarks.progress import Progress
from benchmarks.timing import Effort, Timing
from benchmarks.workloads import ROWS

SHORT = Effort(rounds=2, seconds=1e-4)
TORCH = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is not installed: there is no peer to run",
)


def unchanged(step):
    """A compiler that compiles nothing: right results."""
    return step


def wrong(step):
    """A compiler whose code skips the gradients' contribution."""

    def compiled(*arguments):
        return step(*arguments) * 1.001

    return compiled


def test_modes_that_agree_get_figures():
    row = measure(ROWS["toy"], SHORT, {}, unchanged, own_process=False)
    assert not row.errors
    assert set(row.timings) == {EAGER, COMPILED}
    assert row.speedup > 0
    assert row.tape.nodes == 6


def test_modes_that_differ_get_an_error_and_no_figure():
    row = measure(ROWS["toy"], SHORT, {}, wrong, own_process=False)
    assert "the result of step 0 differs" in row.errors[COMPILED]
    assert set(row.timings) == {EAGER}
    assert row.speedup is None and row.pays_after is None


def test_a_compiler_that_fails_leaves_the_other_figures():
    def failing(step):
        raise NotImplementedError("no kernel for this")

    row = measure(ROWS["rnn_cell"], SHORT, {}, failing, own_process=False)
    assert row.errors == {COMPILED: "NotImplementedError: no kernel for this"}
    assert set(row.timings) == {EAGER}


@pytest.mark.parametrize(("eager", "compiled", "calls"), [(3.0, 1.0, 50), (1.0, 1.0, math.inf)])
def test_after_how_many_calls_compiling_has_paid(eager, compiled, calls):
    row = Row(ROWS["toy"])
    row.timings = {EAGER: Timing((eager,), 1), COMPILED: Timing((compiled,), 1)}
    row.first_call = FirstCall(100.0, {})
    assert row.pays_after == calls
    assert row.as_dict()["pays_after_calls"] == (None if calls == math.inf else calls)


@pytest.mark.slow
@TORCH
def test_a_peer_runs_in_its_own_process_and_takes_part():
    with Peer("torch", threads=1) as peer:
        row = measure(ROWS["toy"], SHORT, {"torch": peer}, unchanged, own_process=False)
        assert set(row.timings) == {EAGER, COMPILED, "torch"} and not row.errors
        with pytest.raises(PeerError, match="KeyError: 'nothing'"):
            peer.prepare("nothing", 1)


@pytest.mark.slow
def test_several_processes_give_their_samples_to_one_row():
    row = Row(ROWS["toy"])
    effort = Effort(rounds=2, seconds=1e-3, processes=2)
    measure_all([row], lambda workload: (EAGER, COMPILED), 1, effort, Progress())
    assert not row.errors
    assert all(timing.per_process == (2, 2) for timing in row.timings.values())
    assert set(row.timings) == {EAGER, COMPILED}


def test_a_peers_process_does_not_import_jtorch():
    """Two libraries' threads would be in its way."""
    program = "import sys, benchmarks.peers; print('jtorch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
