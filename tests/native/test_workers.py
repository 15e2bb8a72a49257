"""Rows that threads share: every piece runs once, and nothing depends on how many threads there are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from jtorch.core import threads
from jtorch.native import cache, workers
from jtorch.native.executor import Executor

pytestmark = pytest.mark.skipif(not workers.pool(), reason="there is no pool on this system")

# block: (address of an int64, what to add to it, turns to waste, status to give)
_IR = r"""
define i64 @add_slowly(ptr %args) {
entry:
  %to = load ptr, ptr %args
  %what_at = getelementptr i64, ptr %args, i64 1
  %turns_at = getelementptr i64, ptr %args, i64 2
  %status_at = getelementptr i64, ptr %args, i64 3
  %what = load i64, ptr %what_at
  %turns = load i64, ptr %turns_at
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %turns_at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %loop, label %done
done:
  store i64 %turns, ptr %turns_at
  %old = load i64, ptr %to
  %new = add i64 %old, %what
  store i64 %new, ptr %to
  %status = load i64, ptr %status_at
  ret i64 %status
}
"""


@pytest.fixture(params=[1, 2, 3, 7])
def n_threads(request):
    before = threads.count()
    threads.set_count(request.param)
    yield request.param
    threads.set_count(before)


class _Round:
    """One row over ``pieces`` blocks; ``counts`` says how often each ran."""

    def __init__(self, pieces: int, turns: int = 50, failing: dict[int, int] | None = None) -> None:
        kernel = cache.get_or_build_ir(_IR, "add_slowly")["add_slowly"]
        self.counts = np.zeros(pieces, np.int64)
        base = self.counts.ctypes.data
        statuses = failing or {}
        blocks = [[base + 8 * k, 1, turns, statuses.get(k, 0)] for k in range(pieces)]
        self.blocks = np.array(blocks, np.int64)
        self.row = [kernel, self.blocks.ctypes.data, pieces, 32, workers.pool()]
        self.executor = Executor(np.array([self.row], np.int64), keepalive=[self.blocks], release_gil=True)


def test_each_piece_runs_once(n_threads):
    rng = np.random.default_rng(0)
    for pieces in (2, 3, 8, 31):
        round_ = _Round(pieces)
        for times in range(1, 200):
            round_.blocks[:, 2] = rng.integers(1, 300)
            assert round_.executor.run() == 0
            assert (round_.counts == times).all()


def test_more_pieces_than_a_claim_can_count(n_threads):
    some = _Round(70_000, turns=1)
    for k in range(2):
        assert some.executor.run() == 0
        assert (some.counts == k + 1).all()


def test_sleeping_workers_are_woken(n_threads):
    round_ = _Round(8, turns=2000)
    for times in range(1, 20):
        time.sleep(0.003)
        assert round_.executor.run() == 0
        assert (round_.counts == times).all()


def test_rows_wait_for_each_other(n_threads):
    """The second row finds what all pieces of the first wrote."""
    first, second = _Round(16, turns=300), _Round(16, turns=1)
    total = np.zeros(1, np.int64)
    second.blocks[:, 0] = total.ctypes.data
    second.row[4] = 0  # one after the other: all add to one word
    both = Executor(np.array([first.row, second.row], np.int64), keepalive=[first, second, total])
    for times in range(1, 300):
        second.blocks[:, 1] = first.counts  # as it was before this run
        assert both.run() == 0
        assert (first.counts == times).all()
    assert total[0] == 16 * sum(range(299))


@pytest.mark.parametrize("failing", [{0: 7}, {5: 3}, {2: 9, 6: 4}, {7: 65535}])
def test_the_status_is_that_of_the_first_piece_that_fails(n_threads, failing):
    round_ = _Round(8, turns=500, failing=failing)
    for _ in range(50):
        assert Executor.decode(round_.executor.run()) == (0, failing[min(failing)])


def test_several_python_threads(n_threads):
    """Who finds the pool in use runs its pieces alone."""
    rounds = [_Round(8, turns=200) for _ in range(4)]
    wrong = []

    def use(round_):
        for times in range(1, 400):
            if round_.executor.run() or not (round_.counts == times).all():
                wrong.append(times)

    users = [threading.Thread(target=use, args=(r,)) for r in rounds]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not wrong


def test_the_number_of_threads_changes_between_rounds():
    round_, before = _Round(8, turns=200), threads.count()
    try:
        for times in range(1, 200):
            threads.set_count(times % 5 + 1)
            assert round_.executor.run() == 0
            assert (round_.counts == times).all()
    finally:
        threads.set_count(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_workers_of_its_own(n_threads):
    round_ = _Round(8, turns=500)
    round_.executor.run()
    child = os.fork()
    if not child:
        good = all(round_.executor.run() == 0 for _ in range(50)) and (round_.counts == 51).all()
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert round_.executor.run() == 0 and (round_.counts == 2).all()


def test_signals_go_to_the_main_thread(n_threads):
    caught = []
    before = signal.signal(signal.SIGUSR1, lambda *_: caught.append(threading.current_thread()))
    try:
        round_ = _Round(8, turns=2000)
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
            round_.executor.run()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert caught and set(caught) == {threading.main_thread()}


@pytest.mark.slow
def test_a_process_ends_while_workers_sleep_or_spin():
    program = (
        "import jtorch, time, sys; jtorch.set_num_threads(3)\n"
        "step = jtorch.compile(lambda x: (x.exp() + 1).log())\n"
        "x = jtorch.ones(1000, 1000); step(x); step(x); time.sleep(float(sys.argv[1]))"
    )
    for pause in ("0", "0.05"):
        subprocess.run([sys.executable, "-c", program, pause], check=True, timeout=120)


@pytest.fixture
def words():
    """Those of the pool by name; nothing is known of what earlier rounds saved or cost."""
    before = threads.count()
    found = {name: workers._POOL[at : at + 1] for name, at in workers._PLACES.items()}
    for name in ("SKIPPED", "PENALTY", "BALANCE"):
        found[name][0] = 0
    yield found
    threads.set_count(before)
    for name in ("SKIPPED", "PENALTY", "BALANCE"):
        found[name][0] = 0


def test_who_is_allowed_is_woken_after_the_number_fell(words):
    """All sleep at one place: to wake one alone may wake one that is not allowed to work any more."""
    threads.set_count(8)
    _Round(8, turns=100_000).executor.run()
    assert words["STARTED"][0] >= 7
    time.sleep(0.05)  # all are asleep
    threads.set_count(2)
    words["SKIPPED"][0] = 0
    _Round(2, turns=100_000).executor.run()
    time.sleep(0.05)
    assert words["SLEEPERS"][0] == 1  # the others wait for the number to rise


def test_what_workers_save_is_set_off_against_what_they_cost(words):
    """One that comes late keeps nobody from the next round, but where they cost more than they save."""
    even, late = _Round(2, turns=1_000), _Round(2, turns=1_000)
    late.blocks[1, 2] = 1_200_000  # the caller waits for the second piece
    threads.set_count(2)
    words["BALANCE"][0] = 10**9  # nanoseconds
    late.executor.run()
    assert words["SKIPPED"][0] == words["PENALTY"][0] == 0 < words["BALANCE"][0] < 10**9
    words["BALANCE"][0] = -(10**9)
    for before in (0, 16):
        even.executor.run()
        assert words["SKIPPED"][0] == words["PENALTY"][0] == (2 * before or 16)
        assert words["BALANCE"][0] == 0
        for _ in range(words["SKIPPED"][0]):
            even.executor.run()
        assert words["SKIPPED"][0] == 0
        words["BALANCE"][0] = -(10**9)
    words["BALANCE"][0] = 10**9
    even.executor.run()
    assert words["PENALTY"][0] == 16  # half
