"""Whether compiling pays, in sentences; every number in them was measured in the same run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.contestant import COMPILED, EAGER
from benchmarks.inference import paired_ratio
from benchmarks.measure import Row
from benchmarks.peers import PEERS
from benchmarks.program import Epoch
from benchmarks.report import duration

_A_TENTH = 0.1  # of the steps after which it pays: the run that is given as one too short


def sentences(row: Row, peers: Sequence[str] = ()) -> list[str]:
    """What compiling this row costs, saves, and when it pays; none where a mode has no figures."""
    if row.speedup is None or row.first_call is None:
        return []
    return [_main(row), *_too_short(row), *_second_process(row), *_beside(row, peers)]


def saves(row: Row) -> bool | None:
    """Whether a compiled step is faster than an eager one; None where noise hides it."""
    _, low, high = paired_ratio(row.timings[COMPILED].samples, row.timings[EAGER].samples)
    return None if low <= 1 <= high else low > 1


def _main(row: Row) -> str:
    assert row.first_call is not None and row.pays_after is not None
    eager, compiled = (row.timings[mode].median for mode in (EAGER, COMPILED))
    costs = f"{row.workload.what}: compiling costs {duration(row.first_call.seconds)} once"
    faster = saves(row)
    if faster:
        return (
            f"{costs} and saves {duration(eager - compiled)} a step ({duration(compiled)} instead of "
            f"{duration(eager)}), so it pays after {_steps(row.pays_after, row.workload.epoch)}."
        )
    takes = f"{costs}; a step then takes {duration(compiled)} instead of {duration(eager)}"
    if faster is None:
        return f"{takes}, and the samples differ too much to tell which is less: no saving is seen."
    return f"{takes}: it does not pay."


def _steps(count: float, epoch: Epoch | None) -> str:
    """In steps, rounded to two digits, and in epochs where the workload has them."""
    rounded = _two_digits(count)
    text = f"{rounded:,} step" + "s" * (rounded != 1)
    if epoch is None:
        return text
    passes = count / epoch.steps
    number = f"{passes:,.0f}" if passes >= 9.5 else f"{passes:.1g}"
    return f"{text} ({number} epoch{'s' * (number != '1')} of {epoch.data})"


def _two_digits(count: float) -> int:
    return int(round(count, 1 - math.floor(math.log10(max(count, 1)))))


def _too_short(row: Row) -> list[str]:
    assert row.first_call is not None and row.pays_after is not None
    if not saves(row):
        return []
    steps = _two_digits(row.pays_after * _A_TENTH)
    if steps < 2:
        return []
    eager, compiled = (row.timings[mode].median for mode in (EAGER, COMPILED))
    first = row.first_call.seconds
    return [
        f"It does not pay for fewer: {_steps(steps, row.workload.epoch)} take "
        f"{duration(first + (steps - 1) * compiled)} compiled and {duration(steps * eager)} eager."
    ]


def _second_process(row: Row) -> list[str]:
    assert row.first_call is not None
    seconds = row.first_call.second_process
    if seconds is None or not saves(row):
        return []
    after = row.calls_to_earn(seconds)
    assert after is not None
    return [
        f"From the second process on the kernels are on disk: then the first call takes {duration(seconds)}, "
        f"and pays after {_steps(after, row.workload.epoch)}."
    ]


def _beside(row: Row, peers: Sequence[str]) -> list[str]:
    compiled = row.timings[COMPILED].median
    return [
        f"{PEERS[name]} takes {duration(row.timings[name].median)} a step, "
        f"{_times(row.timings[name].median / compiled)} times the compiled one's."
        for name in peers
        if name in row.timings
    ]


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"
