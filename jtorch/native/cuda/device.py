"""A CUDA device: its context, one stream, memory, kernels by their PTX, and graphs.

Whoever calls it from several threads holds ``alone``: the stream is one, and what any thread puts into it
while it is captured would become a part of the graph.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import itertools
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from jtorch.core.errors import CudaError
from jtorch.native.cuda import driver
from jtorch.native.cuda.driver import Library
from jtorch.native.cuda.events import Event
from jtorch.native.cuda.memory import Allocator, Buffer, Statistics
from jtorch.native.cuda.pinned import Pinned

if TYPE_CHECKING:
    from jtorch.native.cuda.blas import Blas

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: nothing waits for the default stream of other libraries
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_LEAST_CAPABILITY = (8, 0)  # what kernels are compiled for
_ERROR_LOG, _ERROR_LOG_SIZE = 5, 6  # CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
_LOG_BYTES = 4096
MOST_PARAMETERS = 512
"""Of a kernel, each of 8 bytes: what CUDA takes for any device."""


class Kernel(NamedTuple):
    """A kernel that can be launched: all its parameters are words of 8 bytes."""

    name: str
    handle: int
    n_parameters: int


class Device:
    """``cuda`` and ``cublas`` are the libraries, of this machine if not given."""

    def __init__(
        self,
        cuda: Library | None = None,
        cublas: Library | None = None,
        ordinal: int = 0,
        caching: bool = True,
    ) -> None:
        self.cuda = cuda = driver.load_driver() if cuda is None else cuda
        self._cublas = cublas
        self._blas: Blas | None = None
        cuda.cuInit(0)
        found = ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(found), ordinal)
        self._ordinal = found.value
        self.capability = self.attribute(_MAJOR), self.attribute(_MINOR)
        if self.capability < _LEAST_CAPABILITY:
            has, needed = (".".join(map(str, c)) for c in (self.capability, _LEAST_CAPABILITY))
            raise CudaError(
                f"{self.name} has compute capability {has}: jtorch's kernels need {needed} or newer"
            )
        self._context = self._new("cuDevicePrimaryCtxRetain", self._ordinal)
        self.alone = threading.RLock()
        self.enter()
        self.stream = self._new("cuStreamCreate", _NON_BLOCKING)
        self.memory = Allocator(cuda, caching)
        self.pinned = Pinned(self)
        self._kernels: dict[tuple[str, str], Kernel] = {}
        self.dropped: collections.deque[int] = collections.deque()  # graphs that nobody has any more
        self.dropped_events: collections.deque[int] = collections.deque()  # the same of events
        _DEVICES.add(self)

    def enter(self) -> None:
        """Make this the device that the calling thread's calls are about: another library may have its
        own."""
        self.cuda.cuCtxSetCurrent(self._context)

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.cuda.cuDeviceGetName(text, len(text), self._ordinal)
        return text.value.decode()

    @property
    def statistics(self) -> Statistics:
        """Of memory, as it is now."""
        self.memory.collect()
        return self.memory.statistics

    @property
    def cublas(self) -> Library:
        if self._cublas is None:
            self._cublas = driver.load_cublas()
        return self._cublas

    @property
    def blas(self) -> Blas:
        """cuBLAS over the stream, from the first product on: it takes memory and a moment to load."""
        if self._blas is None:
            from jtorch.native.cuda.blas import Blas

            self._blas = Blas(self)
        return self._blas

    def attribute(self, which: int) -> int:
        """What the driver says: ``which`` is a number of CUdevice_attribute."""
        value = ctypes.c_int()
        self.cuda.cuDeviceGetAttribute(ctypes.byref(value), which, self._ordinal)
        return value.value

    def _new(self, function: str, *arguments: object) -> int:
        """The handle that a function makes."""
        handle = ctypes.c_void_p()
        getattr(self.cuda, function)(ctypes.byref(handle), *arguments)
        return handle.value or 0

    # -- memory ----------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Buffer:
        """Memory of undefined content."""
        return self.memory.allocate(nbytes)

    def upload(self, address: int, host: int, nbytes: int, later: bool = False) -> None:
        """Copy from the host's memory, which has been read when this returns; but where it is pinned and
        that may be ``later``."""
        if not nbytes:
            return
        self.cuda.cuMemcpyHtoDAsync_v2(address, host, nbytes, self.stream)
        if self.pinned.holds(host):
            self.pinned.is_read = True
            if not later:
                self.synchronize()

    def download(self, host: int, address: int, nbytes: int) -> None:
        """Copy to the host's memory. That is pageable, so it has been written when this returns."""
        if nbytes:
            self.cuda.cuMemcpyDtoHAsync_v2(host, address, nbytes, self.stream)

    def finish(
        self, graphs: Sequence[int], copies: Sequence[tuple[int, int, int]],
        downloads: Sequence[tuple[int, int, int]], end: Callable[[], None],
    ) -> None:  # fmt: skip
        """Launch graphs, copy on the device and to the host's memory, as (to, from, bytes), and call ``end``.
        To Python all that is one instruction, if ``end`` is none of its functions: Ctrl-C comes before it or
        after."""
        raw, stream = self.cuda.raw, itertools.repeat(self.stream)
        launched = map(raw["cuGraphLaunch"], graphs, stream)
        copied = map(raw["cuMemcpyDtoDAsync_v2"], *_columns(copies), stream)
        downloaded = map(raw["cuMemcpyDtoHAsync_v2"], *_columns(downloads), stream)
        steps = itertools.chain(launched, copied, downloaded, itertools.starmap(end, [()]))
        if status := next(filter(None, steps), 0):
            self.synchronize()  # which knows more, perhaps
            raise self.cuda.error("a graph's launch, or a copy of what it gave", status)

    def copy(self, to: int, address: int, nbytes: int) -> None:
        """From one place on the device to another."""
        if nbytes:
            self.cuda.cuMemcpyDtoDAsync_v2(to, address, nbytes, self.stream)

    def clear(self, address: int, nbytes: int) -> None:
        """Zeros."""
        if nbytes:
            self.cuda.cuMemsetD8Async(address, 0, nbytes, self.stream)

    def synchronize(self) -> None:
        """Wait until all is done. Raises CudaError where something went wrong since the last time."""
        self.cuda.cuStreamSynchronize(self.stream)
        self.pinned.is_read = False

    def event(self, timed: bool, blocking: bool) -> Event:
        """A mark for the stream, which takes the time if ``timed``."""
        return Event(self, timed, blocking)

    def wait_for(self, stream: int) -> None:
        """Wait until all is done in a stream of another library's: 1 and 2 are those that CUDA has itself."""
        self.cuda.cuStreamSynchronize(stream)

    # -- kernels ---------------------------------------------------------------------------------------------

    def kernel(self, ptx: str, entry: str) -> Kernel:
        """The kernel ``entry`` of a module. Raises CudaError where the driver cannot compile it, or where it
        takes anything but words of 8 bytes."""
        known = self._kernels.get((ptx, entry))
        if known is None:
            n_parameters = _parameters(ptx, entry)
            module = self._module(ptx, entry)
            handle = self._new("cuModuleGetFunction", module, entry.encode())
            known = self._kernels[ptx, entry] = Kernel(entry, handle, n_parameters)
        return known

    def _module(self, ptx: str, entry: str) -> int:
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        try:
            return self._new("cuModuleLoadDataEx", ptx.encode() + b"\0", 2, options, values)
        except CudaError as error:
            text = f"{error} The module is that of {entry}. {log.value.decode(errors='replace')}".rstrip()
            raise CudaError(text, error.function, error.status) from None

    def launch(
        self, kernel: Kernel, grid: tuple[int, int], block: tuple[int, int], words: Sequence[int]
    ) -> None:
        """Run a kernel with these parameters, which have been read when this returns."""
        if len(words) != kernel.n_parameters:
            raise CudaError(f"{kernel.name} takes {kernel.n_parameters} parameters, not {len(words)}")
        given = (ctypes.c_int64 * len(words))(*words)
        begin = ctypes.addressof(given)
        pointers = (ctypes.c_void_p * len(words))(*range(begin, begin + 8 * len(words), 8))
        self.cuda.cuLaunchKernel(kernel.handle, *grid, 1, *block, 1, 0, self.stream, pointers, None)

    @contextlib.contextmanager
    def own(self) -> Iterator[None]:
        """The device belongs to this thread meanwhile."""
        with self.alone:
            self.enter()
            yield


def _columns(copies: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(zip(*[copy for copy in copies if copy[2]], strict=True)) or ((), (), ())


_DEVICES: weakref.WeakSet[Device] = weakref.WeakSet()


def _fresh_locks() -> None:
    # Another thread of the parent may have been inside; the child is to be refused, not to wait for it.
    for device in list(_DEVICES):
        device.alone = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_locks)


def _parameters(ptx: str, entry: str) -> int:
    """How many parameters the entry has. Raises CudaError for one that is not of 8 bytes."""
    found = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", ptx)
    if found is None:
        raise CudaError(f"no entry {entry} in the PTX that should have it")
    parameters = [line.strip() for line in found[1].split(",") if line.strip()]
    for k, parameter in enumerate(parameters):
        if not re.match(r"\.param\s+\.[bsu]64\b", parameter) or parameter.endswith("]"):
            raise CudaError(f"parameter {k} of {entry} is '{parameter}'; each must be a word of 8 bytes")
    if len(parameters) > MOST_PARAMETERS:
        raise CudaError(f"{entry} has {len(parameters)} parameters; at most {MOST_PARAMETERS} fit a launch")
    return len(parameters)
