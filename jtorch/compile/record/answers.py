"""What disabled functions gave while a call was recorded: what the replay after it takes, or, where the
program cannot be recorded further on, the eager call in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from jtorch.compile.record.tree import unflatten
from jtorch.core.device_array import DeviceArray, copied
from jtorch.eager.tensor import Tensor, wrap

LOGGED: ContextVar[list[list[Any]] | None] = ContextVar("jtorch_logged", default=None)
READINGS: ContextVar[list[Any] | None] = ContextVar("jtorch_readings", default=None)  # of clocks, likewise


class Answer(NamedTuple):
    """What one gave."""

    function: Callable
    arrays: list[Any]  # the elements of its tensors, where they lay, and its numbers
    result: Any  # the structure around them, with the class of each

    def again(self) -> Any:
        """The same once more."""
        structure, kinds = self.result
        left = iter(self.arrays)
        return unflatten(structure, [_made(kind, left) for kind in kinds])


def _made(kind: type, left: Iterator[Any]) -> Any:
    if kind is type(None):
        return None
    array = next(left)
    return wrap(copied(array)) if kind in (Tensor, DeviceArray) else kind(array.item())


@contextmanager
def one_recording() -> Iterator[None]:
    """What disabled callees give while recording inside is what the replay after it takes."""
    before = LOGGED.get(), READINGS.get()
    try:
        hand_over([], [])
        yield
    finally:
        LOGGED.set(before[0])
        READINGS.set(before[1])


def hand_over(log: list[Answer], readings: list[Any]) -> None:
    """A recording is done: what its callees gave is what they give in the replay after it. Clocks then say
    what they said as the callees ran."""
    LOGGED.set([answer.arrays for answer in log] or None)
    READINGS.set([*readings] if log else None)
