"""What changed is found, and what did not is left alone."""

import math

import numpy as np
import pytest

from benchmarks.compare.changes import SIGNIFICANT, changes, distance_ratios, machine_ratios
from benchmarks.inference import holm, mann_whitney, paired_ratio, ratio_of_medians
from benchmarks.timing import Timing

PROCESSES, SAMPLES, ROWS = 8, 3, 20


def run(generator, factors=(1.0,) * ROWS, between=0.02, within=0.03, processes=PROCESSES):
    """Timings of rows that take ``factors`` ms: processes differ, and samples within them."""
    timings = {}
    for k, factor in enumerate(factors):
        noise = generator.lognormal(0, between, (processes, 1))
        noise = noise * generator.lognormal(0, within, (processes, SAMPLES))
        timings[(f"row {k}", "jtorch compiled")] = Timing(
            tuple(1e-3 * factor * noise.ravel()), 10, (SAMPLES,) * processes
        )
    return timings


def test_two_runs_of_one_state_mark_no_row():
    generator = np.random.default_rng(0)
    marking = [any(c.marked for c in changes(run(generator), run(generator))) for _ in range(5)]
    assert sum(marking) == 0


def test_a_row_that_takes_a_tenth_longer_is_found():
    generator = np.random.default_rng(1)
    factors = [1.0] * ROWS
    factors[7], factors[11] = 1.1, 0.9
    for _ in range(5):
        found = changes(run(generator), run(generator, factors))
        assert [c.key[0] for c in found if c.marked] == ["row 7", "row 11"]
        assert [c.exceeds(0.05) for c in (found[7], found[11])] == [True, False]
        assert not found[7].exceeds(0.3)
        assert found[7].low < found[7].ratio < found[7].high
        assert found[7].verdict.endswith("% slower") and found[11].verdict.endswith("% faster")


def test_a_run_that_drifts_is_no_witness():
    """The machine became a fifth slower in the middle of the second run: no row is to blame."""
    generator = np.random.default_rng(2)
    before, after = run(generator), {}
    for key, timing in run(generator).items():
        samples = np.asarray(timing.samples).reshape(PROCESSES, SAMPLES)
        samples[2:] *= 1.2
        after[key] = Timing(tuple(samples.ravel()), 10, (SAMPLES,) * PROCESSES)
    assert not any(c.marked for c in changes(before, after))


def test_a_machine_that_became_slower_is_no_change():
    """Between the runs, by 4%, and one row by 15% more."""
    generator = np.random.default_rng(5)
    factors = [1.04] * ROWS
    factors[7] = 1.2
    before, after = (
        run(generator, between=0.004, within=0.01),
        run(generator, factors, between=0.004, within=0.01),
    )
    assert sum(c.marked for c in changes(before, after)) > 5
    speeds = machine_ratios(
        {row: timing for (row, _), timing in run(generator, between=0.004, within=0.01).items()},
        {
            row: timing
            for (row, _), timing in run(generator, [1.04] * ROWS, between=0.004, within=0.01).items()
        },
    )
    assert [c.key[0] for c in changes(before, after, speeds) if c.marked] == ["row 7"]


def test_cores_that_were_moved_apart_judge_no_row_of_several_threads():
    """A row of two threads takes a fifth longer, and so does one of one thread, whose machine is the same."""
    generator = np.random.default_rng(6)
    before, after = run(generator), run(generator, [1.2, 1.2] + [1.0] * (ROWS - 2))
    near, far = (
        {f"row {k}": timing for k, (_, timing) in enumerate(run(generator, [way] * ROWS).items())}
        for way in (5e-5, 25e-5)
    )
    shared = {("row 0", "jtorch compiled"), ("row 5", "jtorch compiled"), ("gone", "jtorch compiled")}
    apart = distance_ratios(near, far, shared)
    assert apart.keys() == {("row 0", "jtorch compiled"), ("row 5", "jtorch compiled")}
    found = changes(before, after, apart=apart)
    assert [c.key[0] for c in found if c.marked] == ["row 1"]
    assert "times as far apart" in found[0].verdict and "times as far apart" in found[5].verdict
    again = changes(before, after, apart=distance_ratios(near, near, shared))
    assert [c.key[0] for c in again if c.marked] == ["row 0", "row 1"]


def test_too_few_processes_are_not_judged():
    generator = np.random.default_rng(3)
    (one,) = changes(run(generator, [1.0], processes=1), run(generator, [2.0], processes=1))
    assert one.p is None and not one.marked and "fewer than 5 processes" in one.verdict
    assert one.ratio == pytest.approx(2.0, rel=0.2)


def test_rows_of_one_run_alone_are_left_out():
    generator = np.random.default_rng(4)
    before, after = run(generator, [1.0, 1.0]), run(generator, [1.0, 1.0, 1.0])
    before.pop(("row 0", "jtorch compiled"))
    assert [c.key[0] for c in changes(before, after)] == ["row 1"]


def test_holm_against_its_definition():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_rank_test_of_apart_samples_is_exact():
    p = mann_whitney(range(8), range(10, 18))
    assert p == pytest.approx(2 / math.comb(16, 8))
    assert ROWS * p < SIGNIFICANT < ROWS * 2 / math.comb(10, 5)


def test_intervals_hold_what_they_should():
    generator = np.random.default_rng(5)
    inside = 0
    for _ in range(100):
        first, second = generator.lognormal(0, 0.1, 15), generator.lognormal(math.log(1.5), 0.1, 15)
        _, low, high = ratio_of_medians(first, second)
        inside += low <= 1.5 <= high
    assert 88 <= inside <= 100
    ratio, low, high = paired_ratio([1.0, 2.0, 4.0], [1.1, 2.2, 4.4])
    assert low == pytest.approx(1.1) and high == pytest.approx(1.1) and ratio == pytest.approx(1.1)
