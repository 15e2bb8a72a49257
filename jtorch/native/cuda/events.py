"""Marks in a device's stream, which take the time there."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING

from jtorch.core.errors import CudaError

if TYPE_CHECKING:
    from jtorch.native.cuda.device import Device

_BLOCKING_SYNC, _DISABLE_TIMING = 1, 2  # CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING
_NOT_READY = 600  # CUDA_ERROR_NOT_READY


class Event:
    """A mark that can be put into the stream, again and again. Whoever calls it holds ``device.alone``."""

    def __init__(self, device: Device, timed: bool, blocking: bool) -> None:
        while device.dropped_events:
            device.cuda.cuEventDestroy_v2(device.dropped_events.popleft())
        flags = (0 if timed else _DISABLE_TIMING) | (_BLOCKING_SYNC if blocking else 0)
        handle = ctypes.c_void_p()
        device.cuda.cuEventCreate(ctypes.byref(handle), flags)
        self.handle = handle.value or 0
        self._device = device
        # Python may let go of it at any moment, in the middle of a capture, too
        weakref.finalize(self, device.dropped_events.append, self.handle).atexit = False

    def record(self) -> None:
        """Put it behind all that was asked of the device."""
        self._device.cuda.cuEventRecord(self.handle, self._device.stream)

    def is_done(self) -> bool:
        """Whether all before it is done. Raises CudaError where something went wrong."""
        status = self._device.cuda.raw["cuEventQuery"](self.handle)
        if status in (0, _NOT_READY):
            return status == 0
        self._device.cuda.cuEventQuery(self.handle)
        raise CudaError("cuEventQuery has failed", "cuEventQuery", status)

    def synchronize(self) -> None:
        """Wait until all before it is done."""
        self._device.cuda.cuEventSynchronize(self.handle)

    def milliseconds_to(self, other: Event) -> float:
        """The time from this to ``other``, as the device took it; both are done."""
        found = ctypes.c_float()
        self._device.cuda.cuEventElapsedTime(ctypes.byref(found), self.handle, other.handle)
        return found.value
