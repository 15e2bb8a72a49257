"""A CUDA graph of what is put into the stream, with edges where the caller says so and not by the stream's
order.

It is recorded by capture, since cuBLAS knows no other way. Between two steps the set of nodes is replaced
that the next one waits for (``cuStreamUpdateCaptureDependencies``), so one stream is enough for any graph.
The mode is
*relaxed*: at its first call cuBLAS may load kernels, which the stricter ones forbid.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Iterable, Iterator

from jtorch.core.errors import CudaError
from jtorch.native.cuda.device import Device

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_SET = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES


class Graph:
    """An executable graph; the driver's memory for it is given back some time after nobody has it any
    more."""

    def __init__(self, device: Device, handle: int) -> None:
        self.device, self.handle = device, handle
        weakref.finalize(self, device.dropped.append, handle).atexit = False

    def launch(self) -> None:
        """Put one run of it into the stream."""
        self.device.cuda.cuGraphLaunch(self.handle, self.device.stream)


class Capture:
    """``graph`` is what was captured, once ``recording`` has ended."""

    def __init__(self, device: Device) -> None:
        self.device, self.cuda = device, device.cuda
        self.graph: Graph | None = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """What is put into the device's stream becomes nodes. The caller holds ``device.alone``."""
        while self.device.dropped:
            self.cuda.cuGraphExecDestroy(self.device.dropped.popleft())
        self.cuda.cuStreamBeginCapture_v2(self.device.stream, _RELAXED)
        try:
            yield
        except BaseException:
            with contextlib.suppress(CudaError):  # the capture is over in any case
                self.cuda.cuGraphDestroy(self._end())
            raise
        handle, made = self._end(), ctypes.c_void_p()
        try:
            self.cuda.cuGraphInstantiateWithFlags(ctypes.byref(made), handle, 0)
        finally:
            self.cuda.cuGraphDestroy(handle)
        self.graph = Graph(self.device, made.value or 0)

    def _end(self) -> int:
        handle = ctypes.c_void_p()
        self.cuda.cuStreamEndCapture(self.device.stream, ctypes.byref(handle))
        return handle.value or 0

    def wait_for(self, nodes: Iterable[int]) -> None:
        """The next node runs after these, and after nothing else."""
        given = list(nodes)
        handles = (ctypes.c_void_p * max(len(given), 1))(*given)
        self.cuda.cuStreamUpdateCaptureDependencies_v2(self.device.stream, handles, None, len(given), _SET)

    @property
    def latest(self) -> list[int]:
        """The nodes that the next one waits for: those that were put in last. Their edges' data are taken,
        too, or a library that lets its kernels begin early would make the question an error."""
        status, count = ctypes.c_int(), ctypes.c_size_t()
        found, edges = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.cuStreamGetCaptureInfo_v3(
            self.device.stream,
            ctypes.byref(status),
            None,
            None,
            ctypes.byref(found),
            ctypes.byref(edges),
            ctypes.byref(count),
        )
        if not count.value or not found.value:
            return []
        return list((ctypes.c_uint64 * count.value).from_address(found.value))
