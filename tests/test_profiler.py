"""Schedules say what PyTorch's say, and profiles follow them step by step."""

from __future__ import annotations

import json

import pytest

import jtorch
from jtorch.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

SCHEDULES = [
    {"wait": 1, "warmup": 1, "active": 2},
    {"wait": 1, "warmup": 1, "active": 2, "repeat": 2},
    {"wait": 0, "warmup": 1, "active": 1, "repeat": 1, "skip_first": 3},
    {"wait": 5, "warmup": 1, "active": 3, "repeat": 2, "skip_first": 10},
    {"wait": 4, "warmup": 1, "active": 2, "skip_first": 2, "skip_first_wait": 1},
    {"wait": 4, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 2, "skip_first_wait": 1},
]


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("torch.profiler")


@pytest.mark.parametrize("facts", SCHEDULES)
def test_schedules_are_those_of_pytorch(theirs, facts):
    ours, expected = schedule(**facts), theirs.schedule(**facts)
    assert [ours(k).name for k in range(60)] == [expected(k).name for k in range(60)]


def run(lib, module, facts, steps):
    """(step, names of the steps seen) at each call of ``on_trace_ready``."""
    seen = []

    def ready(prof):
        found = {event.name for event in prof.events() if event.name.startswith("ProfilerStep")}
        seen.append((prof.step_num, sorted(found)))

    with module.profile(
        activities=[module.ProfilerActivity.CPU],
        schedule=module.schedule(**facts),
        on_trace_ready=ready,
    ) as prof:
        for _ in range(steps):
            lib.ones(2).exp()
            prof.step()
    return seen


@pytest.mark.parametrize("steps", [0, 3, 4, 9])
@pytest.mark.parametrize("facts", SCHEDULES[:3])
def test_cycles_are_those_of_pytorch(theirs, facts, steps):
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, that each cycle clears the events
        expected = run(torch, theirs, facts, steps)
    assert run(jtorch, jtorch.profiler, facts, steps) == expected


def test_without_a_schedule_all_is_recorded():
    called = []
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=called.append, record_shapes=True) as prof:
        with record_function("block"):
            jtorch.ones(2, 3).exp()
        prof.step()
        jtorch.ones(2).log()
    assert called == [prof] and prof.step_num == 1
    assert {"block", "exp", "log"} <= {event.name for event in prof.events()}
    table = prof.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=10)
    assert "[[2, 3]]" in table and "Input Shapes" in table


def test_start_and_stop():
    prof = profile()
    with pytest.raises(RuntimeError, match="didn't finish"):
        prof.events()
    prof.start()
    jtorch.ones(2).exp()
    prof.stop()
    jtorch.ones(2).log()
    assert {row.key for row in prof.key_averages()} >= {"exp"} and "log" not in str(prof.key_averages())


def test_steps_share_a_row():
    with profile(schedule=schedule(wait=0, warmup=1, active=2)) as prof:
        for _ in range(3):
            prof.step()
    assert {row.key: row.count for row in prof.key_averages()} == {"ProfilerStep*": 2}


def test_traces_in_a_folder(tmp_path):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "log"), "worker")):
        jtorch.ones(2).exp()
    (path,) = (tmp_path / "log").iterdir()
    assert path.name.startswith("worker.") and path.name.endswith(".pt.trace.json")
    assert "exp" in {event["name"] for event in json.loads(path.read_text())["traceEvents"]}


def test_what_is_refused():
    with pytest.raises(AssertionError, match="need > 0"):
        schedule(wait=1, warmup=1, active=0)
    with pytest.raises(AssertionError, match="non-negative"):
        schedule(wait=1, warmup=1, active=1)(-1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=1, warmup=0, active=1)
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])
    with pytest.warns(UserWarning, match="disabling CUDA profiling"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    for option in ("profile_memory", "with_stack", "with_flops", "with_modules", "acc_events"):
        with pytest.raises(NotImplementedError, match=f"{option}=True"):
            profile(**{option: True})
    with pytest.raises(NotImplementedError, match="use_gzip"):
        tensorboard_trace_handler("log", use_gzip=True)
    assert supported_activities() == {ProfilerActivity.CPU}
