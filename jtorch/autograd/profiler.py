"""``jtorch.autograd.profiler``: how long each op, gradient and named block took on the CPU.

Ops have jtorch's names ("mul", where PyTorch says "aten::mul"), gradients their nodes' ("MulBackward0").
Source: https://docs.pytorch.org/docs/stable/autograd.html#profiler
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from jtorch.autograd.profiler_util import EventList, FunctionEventAvg
from jtorch.eager import profiling

__all__ = ["EventList", "profile", "record_function"]


class record_function:  # noqa: N801 - PyTorch's name
    """A block, or decorated function, that shows by ``name`` in the profile of what runs it.

    >>> import jtorch
    >>> with jtorch.autograd.profiler.profile() as prof:
    ...     with jtorch.autograd.profiler.record_function("my block"):
    ...         _ = jtorch.ones(3) + 1
    >>> "my block" in [event.key for event in prof.key_averages()]
    True

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.profiler.record_function.html
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._recording: profiling.Recording | None = None
        self._event: Any = None

    def __enter__(self) -> record_function:
        self._recording = profiling.current()
        if self._recording is not None:
            self._event = self._recording.begin(self.name)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._recording is not None and self._recording is profiling.current():
            self._recording.finish(self._event)
        self._recording = None

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named


def check_options(**options: Any) -> None:
    """Raises NotImplementedError for what a profile does not record here."""
    for name, value in options.items():
        if value:
            raise NotImplementedError(f"profile: {name}={value!r}: jtorch records times and shapes only")


def warn_of_cuda() -> None:
    warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=3)


class profile:  # noqa: N801 - PyTorch's name
    """Context manager that records the times of its block; with ``record_shapes`` also the ops' shapes.

    Raises NotImplementedError for memory, flops, stacks and modules, RuntimeError inside another profile.

    >>> import jtorch
    >>> with jtorch.autograd.profiler.profile() as prof:
    ...     _ = jtorch.ones(3).exp()
    >>> "exp" in " ".join(event.key for event in prof.key_averages())
    True

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.profiler.profile.html
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
    ) -> None:
        check_options(
            with_flops=with_flops, profile_memory=profile_memory, with_stack=with_stack,
            with_modules=with_modules, experimental_config=experimental_config, acc_events=acc_events,
        )  # fmt: skip
        if use_cuda or use_device == "cuda":
            warn_of_cuda()
        elif use_device not in (None, "cpu"):
            raise NotImplementedError(f"profile: use_device={use_device!r}: jtorch times the CPU")
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False
        self._recording: profiling.Recording | None = None
        self._events: EventList | None = None

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._recording = profiling.Recording(self.record_shapes)
        self._recording.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._recording is not None:
            self._recording.stop()
            self._events = EventList.of(self._recording.events)
            self._recording = None

    @property
    def function_events(self) -> EventList:
        """The recorded events. Raises RuntimeError before the block has ended."""
        if self._events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self._events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The sums of each name, see ``EventList.key_averages``."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        return self.function_events.self_cpu_time_total

    def table(self, sort_by: str | None = None, **options: Any) -> str:
        """The events as text, see ``EventList.table``."""
        return self.function_events.table(sort_by, **options)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as JSON for chrome://tracing and Perfetto."""
        self.function_events.export_chrome_trace(path)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._events is None else str(self._events)
