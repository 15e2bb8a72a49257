"""Flags among the arguments: one that changes is a mode, several that change at once are data of the call."""

from __future__ import annotations

import collections
import random

import numpy as np
import pytest

import jtorch
from tests.each import each

Step = collections.namedtuple("Step", "state reward done")


def batch(k, n=6):
    draw = random.Random(k)
    return [Step(jtorch.full((2,), draw.random()), draw.random(), draw.random() < 0.5) for _ in range(n)]


def masked(steps):
    done = jtorch.tensor([s.done for s in steps], dtype=jtorch.float32)
    return (1 - done) * jtorch.stack([s.state.sum() for s in steps])


def returns(steps):
    total, found = 0.0, []
    for s in reversed(steps):
        total = s.reward + 0.9 * total * (1 - s.done)
        found.append(total)
    return jtorch.tensor(found)


DATA = {
    "a mask": masked,
    "of bools": lambda steps: jtorch.tensor([s.done for s in steps]) | (steps[0].state[0] > 2),
    "arithmetic": returns,
    "a choice": lambda steps: jtorch.tensor([0.0 if s.done else 1.0 for s in steps]) * steps[0].state[0],
    "beside tensors": lambda steps: sum(s.state * (1 - s.done) + s.state * s.done * 2 for s in steps),
    "integers": lambda steps: jtorch.tensor([s.done + 1 for s in steps]) * 2,
    "a list": lambda steps: jtorch.stack([s.state for s in steps]) * steps[0].reward,
}

DIGITS = {
    "branches": lambda steps: sum(s.state if s.done else s.state * 3 for s in steps),
    "identity": lambda steps: sum(s.state * 2 if s.done is True else s.state for s in steps),
    "equality": lambda steps: sum(s.state * 2 if s.done == True else s.state for s in steps),  # noqa: E712
    "truth": lambda steps: steps[0].state * len([s for s in steps if not s.done]),
    "a key": lambda steps: sum(s.state * {True: 2.0, False: 3.0}[s.done] for s in steps),
    "an index": lambda steps: sum(s.state * (4.0, 5.0)[s.done] for s in steps),
    "a text": lambda steps: steps[0].state * len("".join(f"{s.done}" for s in steps)),
    "numpy": lambda steps: jtorch.from_numpy(np.array([s.done for s in steps]) * 1.5),
    "their class": lambda steps: steps[0].state * sum(isinstance(s.done, bool) for s in steps),
    "any and all": lambda steps: (
        steps[0].state * (1 + any(s.done for s in steps) + all(s.done for s in steps))
    ),
    "int": lambda steps: jtorch.tensor([int(s.done) for s in steps]) * 2,
    "negation": lambda steps: steps[0].state * sum(not s.done for s in steps),
}


@each("name", DATA)
def test_flags_that_are_data_are_recorded_once_more(name):
    function = DATA[name]
    compiled = jtorch.compile(function, fullgraph=True)
    for k in range(10):
        found, expected = compiled(batch(k)), function(batch(k))
        assert found.dtype == expected.dtype
        jtorch.testing.assert_close(found, expected)
    assert len(compiled.retraces) <= 1, str(compiled.retraces)


@pytest.mark.filterwarnings("ignore::jtorch.errors.RetraceWarning")
@each("name", DIGITS)
def test_flags_that_decide_count_by_their_values(name):
    function = DIGITS[name]
    compiled = jtorch.compile(function, fullgraph=True)
    for k in (0, 1, 2, 0, 3, 1):
        jtorch.testing.assert_close(compiled(batch(k, 3)), function(batch(k, 3)))


def test_flags_that_are_returned_are_bools():
    compiled = jtorch.compile(lambda x, flags: (x * 2, flags, flags[0], [not flags[1]]), fullgraph=True)
    for flags in ([True, False], [False, True], [True, True], [False, False], [True, False]):
        _, found, first, other = compiled(jtorch.ones(1), list(flags))
        assert found == flags and first is flags[0] and other == [not flags[1]]
        assert all(type(flag) is bool for flag in (*found, first, *other))


def test_one_flag_is_a_mode():
    def step(x, train=True, log=False):
        return x * (2 if train else 3), log

    compiled = jtorch.compile(step, fullgraph=True)
    x = jtorch.ones(2)
    for train in (True, False, True, False):
        assert compiled(x, train)[0].tolist() == [2.0 if train else 3.0] * 2
    assert sum(map(len, compiled.plans.values())) == 2
    for both in (True, False, True, False):
        assert compiled(x, both, not both)[1] is (not both)
