"""``jtorch.profiler``: profiles of some steps of a long run.

Source: https://docs.pytorch.org/docs/stable/profiler.html
"""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from jtorch.autograd import profiler as autograd_profiler
from jtorch.autograd.profiler import record_function
from jtorch.autograd.profiler_util import EventList

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(Enum):
    """What to time. Only the CPU is."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3


class ProfilerAction(Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """After ``skip_first`` steps, cycles of ``wait`` idle steps, ``warmup`` and ``active`` recorded ones.

    ``repeat`` cycles, or without end for 0. ``skip_first_wait`` leaves out the wait of the first. Returns the
    function from a step's number to its ProfilerAction. Raises AssertionError for negative numbers.
    Source: https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.schedule
    """
    assert wait >= 0 and warmup >= 0 and active > 0 and repeat >= 0 and skip_first >= 0, (
        f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
        f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
    )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        assert step >= 0, f"Step must be non-negative. Got {step}."
        step += (wait if skip_first_wait else 0) - skip_first
        if step < (wait if skip_first_wait else 0) or (repeat and step >= repeat * cycle):
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


class profile:  # noqa: N801 - PyTorch's name
    """Records all of its block, or the steps that ``schedule`` names; ``step()`` ends a step.

    ``on_trace_ready(profile)`` is called after each recorded cycle. What is asked for beyond times and shapes
    raises NotImplementedError.
    Source: https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.profile
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
    ) -> None:
        autograd_profiler.check_options(
            profile_memory=profile_memory, with_stack=with_stack, with_flops=with_flops,
            with_modules=with_modules, experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer, acc_events=acc_events,
        )  # fmt: skip
        self.activities = set(activities) if activities is not None else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        if ProfilerActivity.CUDA in self.activities or use_cuda:
            autograd_profiler.warn_of_cuda()
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: autograd_profiler.profile | None = None
        self._step: record_function | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.stop()

    def start(self) -> None:
        self._move(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        self._end_step()
        self._move(self.current_action, None)

    def step(self) -> None:
        """Tell the profile that the next step begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._move(before, self.current_action)
        self._begin_step()

    def _begin_step(self) -> None:
        if self.record_steps:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _move(self, before: ProfilerAction, now: ProfilerAction | None) -> None:
        cycle_ends = before is ProfilerAction.RECORD_AND_SAVE
        if before in _RECORDS and (cycle_ends or now not in _RECORDS):
            assert self.profiler is not None
            self.profiler.__exit__(None, None, None)
            if self.on_trace_ready is not None and (cycle_ends or now is None):
                self.on_trace_ready(self)
        if now in _RECORDS and (cycle_ends or before not in _RECORDS):
            self.profiler = autograd_profiler.profile(record_shapes=self.record_shapes)
            self.profiler.__enter__()

    def events(self) -> EventList:
        """The events of the last cycle. Raises RuntimeError before it has ended."""
        if self.profiler is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.profiler.function_events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The sums of each name, see ``EventList.key_averages``."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as JSON for chrome://tracing and Perfetto."""
        self.events().export_chrome_trace(path)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An ``on_trace_ready`` that writes ``<worker>.<nanoseconds>.pt.trace.json`` files into a folder."""
    if use_gzip:
        raise NotImplementedError("tensorboard_trace_handler: use_gzip=True: traces are plain JSON here")

    def write(prof: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(str(folder / f"{worker}.{time.time_ns()}.pt.trace.json"))

    return write
