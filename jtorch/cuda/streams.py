"""The one stream of a device, and marks in it.

Source: https://docs.pytorch.org/docs/stable/cuda.html#streams-and-events
"""

from __future__ import annotations

import time
from typing import Any

from jtorch.core import devices, higher


def _synchronize() -> None:
    if not devices.cuda_is_available():
        raise devices.DeviceError("Torch not compiled with CUDA enabled")
    assert higher.device is not None
    native = higher.device().current().native
    with native.own():
        native.synchronize()


class Stream:
    """The queue of the device. Raises RuntimeError where a program makes one: there is one, which
    ``current_stream()`` gives."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if devices.cuda_is_available():
            raise RuntimeError("torch.cuda.Stream: jtorch has one stream, that of current_stream()")
        raise RuntimeError("torch.cuda.Stream requires CUDA support")

    def synchronize(self) -> None:
        """Wait until all is done."""
        _synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """A mark behind all that was asked for."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Nothing: all that was before it is before what comes."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing: it is this one."""


_ONLY: Stream = object.__new__(Stream)


def current_stream(device: Any = None) -> Stream:
    """The stream of the device. Raises DeviceError where there is none."""
    devices.check("cuda" if device is None else device)
    return _ONLY


default_stream = current_stream


class Event:
    """A mark in the stream. One that takes the time waits for the device as it is recorded, and reads the
    clock of the host then. Raises RuntimeError where there is no device."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if not devices.cuda_is_available():
            raise RuntimeError("Tried to instantiate dummy base class Event")
        if interprocess:
            raise NotImplementedError("Event(interprocess=True): jtorch shows no event to other processes")
        self._timed = enable_timing
        self._time: float | None = None
        self._recorded = False

    def record(self, stream: Stream | None = None) -> None:
        """Put it behind all that was asked for."""
        self._recorded = True
        if self._timed:
            _synchronize()
            self._time = time.perf_counter()

    def synchronize(self) -> None:
        """Wait until all before it is done."""
        if self._recorded:
            _synchronize()

    wait = synchronize

    def query(self) -> bool:
        """Whether all before it is done, which it is after waiting for it."""
        self.synchronize()
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this to ``end_event``. Raises RuntimeError unless both took the time."""
        if self._time is None or end_event._time is None:
            raise RuntimeError(
                "Both events must be recorded, and created with argument 'enable_timing=True', before "
                "calculating elapsed time."
            )
        return 1000.0 * (end_event._time - self._time)
