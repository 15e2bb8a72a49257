"""How far two cores are from each other, and whether a contestant keeps more than one busy."""

import time

from benchmarks import cores
from benchmarks.timing import Calls
from jtorch.core import threads


def test_a_word_takes_some_time_between_two_threads(monkeypatch):
    monkeypatch.setattr(threads, "at_first", lambda: 2)
    found = cores.distance()
    assert found is not None and len(found.samples) == 5
    assert all(1e-9 < seconds < 1.0 for seconds in found.samples)


def test_one_thread_has_no_distance(monkeypatch):
    monkeypatch.setattr(threads, "at_first", lambda: 1)
    assert cores.distance() is None


def test_cores_that_a_sample_keeps_busy(monkeypatch):
    """Seconds of all its threads for each second: where others keep the cores busy that is fewer."""
    calls = Calls(lambda: None, [()], clock=lambda: lambda: 2.0)
    assert calls.cores_used == 1.0
    of_all_threads = iter([5.0, 8.0, 8.0, 10.0])
    monkeypatch.setattr(time, "process_time", lambda: next(of_all_threads))
    assert calls.run(1) == 2.0 and calls.cores_used == 1.5
    assert calls.run(1) == 2.0 and calls.cores_used == 1.0
