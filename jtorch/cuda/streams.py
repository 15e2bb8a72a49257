"""Streams, all of which are the one queue of a device, and marks in it.

A program may make as many as it likes, and put work into any: what it puts in first is done first, which is
all that waiting for one another could ask for.
Source: https://docs.pytorch.org/docs/stable/cuda.html#streams-and-events
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from jtorch.core import devices, higher


def _native() -> Any:
    if not devices.cuda_is_available():
        raise devices.DeviceError("Torch not compiled with CUDA enabled")
    assert higher.device is not None
    return higher.device().current().native


class Stream:
    """A name of the device's queue. Raises RuntimeError where there is no device."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        if not devices.cuda_is_available():
            raise RuntimeError("torch.cuda.Stream requires CUDA support")
        self.device = devices.check("cuda" if device is None else device)
        self.priority = priority

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return int(_native().stream)

    def query(self) -> bool:
        """Whether all that was asked for is done."""
        return self.record_event().query()

    def synchronize(self) -> None:
        """Wait until all is done."""
        native = _native()
        with native.own():
            native.synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """A mark behind all that was asked for."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Nothing: all that was before it is done before what comes."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing: what was asked of it is done before what comes."""

    def __enter__(self) -> Stream:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *exception: object) -> None:
        _entered.set(_entered.get()[:-1])

    def __repr__(self) -> str:
        return f"<jtorch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


_entered: ContextVar[tuple[Stream, ...]] = ContextVar("jtorch_streams", default=())
_default: list[Stream] = []


def default_stream(device: Any = None) -> Stream:
    """The stream that there is without asking. Raises DeviceError where there is no device."""
    devices.check("cuda" if device is None else device)
    if not _default:
        _default.append(Stream())
    return _default[0]


def current_stream(device: Any = None) -> Stream:
    """The stream that was chosen last. Raises DeviceError where there is no device."""
    found = default_stream(device)
    entered = _entered.get()
    return entered[-1] if entered else found


def set_stream(stream: Stream | None) -> None:
    """Choose a stream from now on; None changes nothing."""
    if stream is not None:
        _entered.set((*_entered.get()[:-1], stream))


class StreamContext:
    """``with torch.cuda.stream(s)``: chooses a stream meanwhile; None chooses none."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            self.stream.__exit__()


def stream(stream: Stream | None) -> StreamContext:
    """A context in which ``stream`` is the current one. Work goes where it did: there is one queue."""
    return StreamContext(stream)


class Event:
    """A mark in the stream; one with ``enable_timing`` takes the time on the device as it is reached. Raises
    RuntimeError where there is no device."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if not devices.cuda_is_available():
            raise RuntimeError("Tried to instantiate dummy base class Event")
        if interprocess:
            raise NotImplementedError("Event(interprocess=True): jtorch shows no event to other processes")
        self._timed, self._blocking = enable_timing, blocking
        self._mark: Any = None  # of the driver, from the first record() on

    def record(self, stream: Stream | None = None) -> None:
        """Put it behind all that was asked for."""
        native = _native()
        with native.own():
            if self._mark is None:
                self._mark = native.event(self._timed, self._blocking)
            self._mark.record()

    def synchronize(self) -> None:
        """Wait until all before it is done."""
        if self._mark is not None:
            with _native().own():
                self._mark.synchronize()

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing: all that was before it is done before what comes."""

    def query(self) -> bool:
        """Whether all before it is done; it is where nothing was recorded."""
        if self._mark is None:
            return True
        with _native().own():
            return bool(self._mark.is_done())

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this to ``end_event``, by the device's clock. Raises RuntimeError unless both
        took the time, and all before them is done."""
        if not (self._timed and end_event._timed):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._mark is None or end_event._mark is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        with _native().own():
            return float(self._mark.milliseconds_to(end_event._mark))
