import gc
import math

import pytest

from benchmarks.timing import Calls, Effort, Timing, calibrate, interleave


class Fake:
    """A contestant whose calls take a known time; writes down who ran."""

    def __init__(self, name, seconds, log):
        self.name, self.seconds, self.log = name, seconds, log

    def run(self, calls):
        self.log.append((self.name, calls))
        return self.seconds * calls


def test_statistics_of_known_samples():
    timing = Timing((5.0, 1.0, 2.0, 3.0, 4.0), calls=7)
    assert timing.median == 3.0
    assert timing.minimum == 1.0
    assert timing.spread == 2.0  # between 2 and 4
    assert timing.as_dict()["calls_per_sample"] == 7


def test_a_single_sample_has_no_spread():
    assert Timing((1.0,), calls=1).spread == 0.0


@pytest.mark.parametrize("seconds", [1e-7, 1e-4, 0.3])
def test_calibration_finds_the_calls_that_take_the_time_asked_for(seconds):
    calls = calibrate(Fake("a", seconds, []), 0.05)
    exact = 0.05 / seconds
    assert calls == max(1, 2 ** round(math.log2(exact)))


def test_samples_take_turns():
    log = []
    contestants = {"a": Fake("a", 1e-3, log), "b": Fake("b", 2e-3, log)}
    timings = interleave(contestants, Effort(rounds=4, seconds=0.01))
    assert log[-8:] == [("a", 8), ("b", 4)] * 4
    assert timings["a"].samples == pytest.approx((1e-3,) * 4)
    assert timings["b"].median == pytest.approx(2e-3)


def test_calls_go_through_the_arguments_in_turn_and_reset_before_each_sample():
    seen, resets = [], []
    calls = Calls(seen.append, [(1,), (2,), (3,)], reset=lambda: resets.append(len(seen)))
    calls.run(5)
    calls.run(2)
    assert seen == [1, *(1, 2, 3, 1, 2), 1, *(1, 2)]  # with one to warm up before those that are timed
    assert resets == [0, 6]


def test_a_result_still_being_computed_is_waited_for():
    settled = []
    Calls(lambda x: x + 1, [(1,), (5,)], settle=settled.append).run(2)
    assert settled == [2, 6]


def test_the_garbage_collector_waits_for_the_end_of_a_sample():
    states = []
    assert gc.isenabled()
    Calls(lambda: states.append(gc.isenabled()), [()]).run(2)
    assert states == [True, False, False] and gc.isenabled()


def test_samples_of_several_processes_stay_apart():
    timing = Timing((1.0, 2.0), 7).joined(Timing((3.0, 4.0, 5.0), 7)).joined(Timing((6.0,), 7))
    assert timing.processes == ((1.0, 2.0), (3.0, 4.0, 5.0), (6.0,))
    assert timing.as_dict()["samples_per_process"] == [2, 3, 1]
    assert Timing((1.0, 2.0), 7).processes == ((1.0, 2.0),)


def test_a_wide_middle_half_is_unstable():
    assert Timing((1.0, 1.1, 1.2, 1.3), 1).unstable
    assert not Timing((1.0, 1.01, 1.02, 1.03, 9.0), 1).unstable  # one that is far off says nothing


def test_what_a_process_before_calibrated_is_used_again_after_a_sample_to_warm_up():
    log = []
    timings = interleave({"a": Fake("a", 1e-3, log)}, Effort(rounds=2, seconds=0.01), {"a": 33})
    assert log == [("a", 33)] * 3
    assert len(timings["a"].samples) == 2


def test_calibration_is_not_misled_by_a_busy_moment():
    class Busy(Fake):
        def run(self, calls):
            return super().run(calls) * (9 if len(self.log) % 3 == 1 else 1)

    assert calibrate(Busy("a", 1e-4, []), 0.0032) == 32


def test_a_difference_is_of_samples_that_took_turns():
    slow_for_a_while = Timing((1.0, 1.0, 9.0, 9.0, 9.0), 1)
    more = Timing((1.5, 1.5, 9.5, 9.5, 2.0), 1)
    assert more.beyond(slow_for_a_while) == 0.5
