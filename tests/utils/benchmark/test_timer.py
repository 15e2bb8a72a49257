"""Timers call the statement as often as they say, on a clock of the test's own, and measurements print."""

from __future__ import annotations

import re

import pytest

import jtorch
from jtorch.utils.benchmark import Measurement, TaskSpec, Timer, select_unit


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("torch.utils.benchmark")


class Clock:
    """Time passes when the statement says so."""

    def __init__(self):
        self.now, self.calls = 0.0, 0

    def __call__(self):
        return self.now

    def work(self, seconds=0.5):
        self.now += seconds
        self.calls += 1


def test_one_time_of_many_calls():
    clock = Clock()
    m = Timer("clock.work()", timer=clock, globals={"clock": clock}).timeit(200)
    assert clock.calls == 202 and m.raw_times == [100.0] and m.times == [0.5]
    assert m.mean == m.median == 0.5 and m.iqr == 0 and m.number_per_run == 200


def test_blocks_until_the_time_is_over():
    clock, heard = Clock(), []
    timer = Timer("clock.work(0.01)", timer=clock, globals={"clock": clock})
    m = timer.blocked_autorange(callback=lambda *a: heard.append(a), min_run_time=0.055)
    assert m.number_per_run == 1 and len(m.times) == 6 and heard == [(1, pytest.approx(0.01))] * 6
    clock = Clock()
    m = Timer("clock.work(1e-6)", timer=clock, globals={"clock": clock}).blocked_autorange()
    assert m.number_per_run == 1000 and m.median == pytest.approx(1e-6) and len(m.times) in (200, 201)


def test_blocks_until_the_times_agree():
    clock = Clock()
    waits = iter([1.0, 1.0, 3.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    seen = {"clock": clock, "waits": waits}
    m = Timer("clock.work(next(waits))", timer=clock, globals=seen).adaptive_autorange(max_run_time=100)
    assert m.meets_confidence(0.1) and len(m.times) == 9
    clock = Clock()
    m = Timer("clock.work(clock.now + 1)", timer=clock, globals={"clock": clock}).adaptive_autorange()
    assert sum(m.raw_times) > 10 and not m.meets_confidence()


def test_the_code_sees_its_globals_its_setup_and_torch():
    seen = {"x": 3, "out": []}
    Timer("\n  out.append(y + x)\n", setup="\n  y = torch.ones(2).sum().item()\n", globals=seen).timeit(1)
    assert seen["out"] == [5.0] * 3 and "torch" not in seen


def test_threads_are_put_back():
    before, seen = jtorch.get_num_threads(), []
    Timer("seen.append(torch.get_num_threads())", globals={"seen": seen}, num_threads=3).timeit(1)
    assert set(seen) == {3} and jtorch.get_num_threads() == before


SPECS = {
    "plain": {"stmt": "f(x)", "setup": "pass"},
    "label": {"stmt": "f(x)", "setup": "x = 1", "label": "call", "sub_label": "(4, 8)", "description": "new"},
    "lines": {"stmt": "x = 1\nf(x)", "setup": "a = 1\nb = 2", "sub_label": "two", "num_threads": 4},
}
TIMES = {
    "one": (100, [1.5e-3]),
    "three": (10, [1.5, 2.0, 2.25]),
    "calm": (1, [1.0e-6, 1.01e-6, 1.02e-6, 1.0e-6]),
    "noisy": (1, [1.0, 1.1, 1.2, 1.3, 1.1]),
    "wild": (2, [1.0, 4.0, 2.0, 9.0, 3.0, 1.0, 8.0]),
    "nanoseconds": (1000, [1e-6, 2e-6]),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_measurements_are_those_of_pytorch(theirs, spec, times):
    ours = Measurement(*times, TaskSpec(**spec))
    import torch.utils.benchmark.utils.common as common

    expected = theirs.Measurement(*times, common.TaskSpec(**spec))

    def lines(m):
        joined = re.sub(r"0x[0-9a-f]+", "0x", repr(m)).replace(" \n           ", " ")
        return [line.strip() for line in joined.splitlines()]

    assert lines(ours) == lines(expected)
    for name in ("median", "mean", "iqr", "times", "significant_figures"):
        assert getattr(ours, name) == pytest.approx(getattr(expected, name), rel=1e-9)
    for name in ("title", "as_row_name", "has_warnings", "stmt", "num_threads", "label"):
        assert getattr(ours, name) == getattr(expected, name)


def test_measurements_of_one_task_are_merged():
    spec, other = TaskSpec("f()", "pass"), TaskSpec("g()", "pass")
    found = Measurement.merge(
        [Measurement(2, [1.0, 3.0], spec), Measurement(1, [5.0], other), Measurement(1, [0.25], spec)]
    )
    assert [(m.task_spec, m.times) for m in found] == [(spec, [0.5, 1.5, 0.25]), (other, [5.0])]


@pytest.mark.parametrize("seconds, unit", [(3e-9, "ns"), (2e-6, "us"), (0.5, "ms"), (2.0, "s"), (5e3, "s")])
def test_units(theirs, seconds, unit):
    from torch.utils.benchmark.utils.common import select_unit as expected

    assert select_unit(seconds)[0] == unit and select_unit(seconds) == expected(seconds)


def test_what_is_refused(theirs):
    for kind in (Timer, theirs.Timer):
        with pytest.raises(ValueError, match="Currently only a `str` stmt"):
            kind(lambda: 1)
        with pytest.raises(ValueError, match="global_setup is C"):
            kind("f()", global_setup="#include")
        with pytest.raises(ValueError, match="Invalid language `rust`"):
            kind("f()", language="rust")
        with pytest.raises(NotImplementedError, match="blocked_autorange"):
            kind("f()").repeat()
        with pytest.raises(NotImplementedError, match="blocked_autorange"):
            kind("f()").autorange()
    with pytest.raises(NotImplementedError, match="Python code only"):
        Timer("f();", language="c++")
    with pytest.raises(AttributeError, match="has no attribute 'speed'"):
        _ = Measurement(1, [1.0], TaskSpec("f()", "pass")).speed
