"""libcuda and cuBLAS on the host's memory, through the C signatures of the real ones.

What is put into a stream runs as late as it may: when somebody waits for it. Kernels are run by a machine for
PTX, the very text that goes to a driver. What a device would punish, or bear in silence, is a ``Fault``: from
then on every call fails, as after an error of a device, and the text of the error says what it was.

    device = cuda_device()          # a jtorch.native.cuda.device.Device
    device.fake.fault               # what went wrong, if anything has
"""

# ruff: noqa: N802 - the names of the driver's functions

from __future__ import annotations

import ctypes
import functools
import random
import re
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jtorch.native.cuda import driver
from jtorch.native.cuda.device import Device
from tests.cuda import graphs, kernels
from tests.cuda.allocations import BASE, Fault, Memory
from tests.cuda.graphs import Node, Nodes
from tests.cuda.ptx.errors import PtxError

NAMES = {
    1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 3: "NOT_INITIALIZED", 101: "INVALID_DEVICE",
    201: "INVALID_CONTEXT", 218: "INVALID_PTX", 222: "UNSUPPORTED_PTX_VERSION", 400: "INVALID_HANDLE",
    401: "ILLEGAL_STATE", 500: "NOT_FOUND", 600: "NOT_READY", 700: "ILLEGAL_ADDRESS", 702: "LAUNCH_TIMEOUT",
    716: "MISALIGNED_ADDRESS", 719: "LAUNCH_FAILED", 900: "STREAM_CAPTURE_UNSUPPORTED",
    901: "STREAM_CAPTURE_INVALIDATED", 999: "UNKNOWN",
}  # fmt: skip
GLOBAL, RELAXED = 0, 2  # capture modes
CUDA, PTX = (
    12030,
    (8, 3),
)  # the driver: the oldest that has all functions, and the version of PTX that it knows


class Refusal(Exception):  # noqa: N818 - a status
    """A call that the driver refuses; nothing else has happened."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(eq=False)
class Module:
    functions: dict[str, Any]


@dataclass(eq=False)
class Function:
    name: str
    kernel: Any


@dataclass(eq=False)
class Event:
    timed: bool
    is_recorded: bool = False
    time: float | None = None  # when it was reached


class Stream:
    def __init__(self) -> None:
        self.queue: list[Node] = []
        self.capture: Capturing | None = None


class Capturing:
    """What a stream records, and what the next node waits for."""

    def __init__(self, mode: int) -> None:
        self.mode, self.nodes, self.after = mode, Nodes(), []
        self.invalid = ""  # why it has come to nothing
        self.shown: Any = None  # the array of handles that a caller was shown last


def c_function(method: Callable) -> Callable:
    """A method as a function of the driver: it returns a status and raises nothing."""

    @functools.wraps(method)
    def called(self: FakeDevice, *arguments: Any) -> int:
        self.calls.append(method.__name__)
        try:
            if method.__name__.startswith("cuGetError"):
                return method(self, *arguments) or 0
            if self.fault is not None:
                return self.fault.status
            self.check(method.__name__)
            return method(self, *arguments) or 0
        except Refusal as refusal:
            self.texts[refusal.status] = str(refusal)
            return refusal.status
        except Fault as fault:
            return self.break_down(fault)
        except Exception as error:
            text = "".join(traceback.format_exception(error, limit=-4))
            return self.break_down(Fault(f"the fake device itself failed. {text}", 999))

    return called


_BEFORE_INIT = {"cuInit", "cuDriverGetVersion"}
_WITHOUT_CONTEXT = _BEFORE_INIT | {
    "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
}  # fmt: skip


class FakeDevice:
    """The functions of ``driver.LIBCUDA`` and ``driver.CUBLAS`` as methods. ``total`` is the size of its
    memory."""

    def __init__(self, seed: int = 0, total: int = 1 << 30, capability: tuple[int, int] = (9, 0)) -> None:
        self.chance = random.Random(seed)
        self.memory = Memory()
        self.waited: list[int] = []  # for which streams of other libraries somebody has waited
        self.clock = 0.0  # milliseconds: each operation takes one
        self.pinned: dict[int, Any] = {}  # address -> what the host has there
        self.total, self.capability = total, capability
        self.calls: list[str] = []  # the names of the functions that were called
        self.ran: list[str] = []  # the names of the operations that have run
        self.texts: dict[int, str] = {}  # what a status meant the last time
        self.fault: Fault | None = None
        self.initialised = False
        self._current = threading.local()
        self._things: dict[int, Any] = {}
        self._next = 0x1000
        self._kept: list[Any] = []

    def check(self, function: str) -> None:
        """What holds for all functions."""
        if not self.initialised and function not in _BEFORE_INIT:
            raise Refusal(3, f"{function} before cuInit")
        current = getattr(self._current, "context", None)
        if function not in _WITHOUT_CONTEXT and not function.startswith("cublas") and not current:
            raise Refusal(201, f"{function} in a thread that no context is current in")

    def break_down(self, fault: Fault) -> int:
        self.fault = fault
        self.texts[fault.status] = str(fault)
        return fault.status

    def put(self, out: int, thing: Any) -> int:
        """Give a caller the handle of ``thing``."""
        self._next += 16
        self._things[self._next] = thing
        ctypes.c_uint64.from_address(out).value = self._next
        return self._next

    def thing(self, handle: int | None, kind: type) -> Any:
        found = self._things.get(handle or 0)
        if not isinstance(found, kind):
            what = type(found).__name__ if found is not None else "nothing, or destroyed"
            raise Refusal(400, f"handle {handle or 0:#x} is {what}, not a {kind.__name__}")
        return found

    # -- about it --------------------------------------------------------------------------------------------

    @c_function
    def cuInit(self, flags: int) -> None:
        self.initialised = True

    @c_function
    def cuDriverGetVersion(self, out: int) -> None:
        ctypes.c_int.from_address(out).value = CUDA

    def _text(self, out: int, text: str) -> int:
        self._kept.append(ctypes.create_string_buffer(text.encode()))
        ctypes.c_uint64.from_address(out).value = ctypes.addressof(self._kept[-1])
        return 0

    @c_function
    def cuGetErrorName(self, status: int, out: int) -> int:
        return self._text(out, f"CUDA_ERROR_{NAMES[status]}") if status in NAMES else 1

    @c_function
    def cuGetErrorString(self, status: int, out: int) -> int:
        return self._text(out, self.texts.get(status, "no more is known"))

    @c_function
    def cuDeviceGet(self, out: int, ordinal: int) -> None:
        if ordinal:
            raise Refusal(101, f"device {ordinal} of one")
        ctypes.c_int.from_address(out).value = 0

    @c_function
    def cuDeviceGetName(self, name: int, length: int, device: int) -> None:
        ctypes.memmove(name, b"fake device\0", 12)

    @c_function
    def cuDeviceGetAttribute(self, out: int, attribute: int, device: int) -> None:
        known = {75: self.capability[0], 76: self.capability[1], 10: 32, 16: 2}
        ctypes.c_int.from_address(out).value = known.get(attribute, 1)

    @c_function
    def cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        self.put(out, "context")

    @c_function
    def cuCtxSetCurrent(self, context: int) -> None:
        self._current.context = self.thing(context, str)

    # -- memory ----------------------------------------------------------------------------------------------

    @property
    def in_use(self) -> int:
        return sum(a.size for a in self.memory.allocations if not a.freed)

    @c_function
    def cuMemGetInfo_v2(self, free: int, total: int) -> None:
        ctypes.c_size_t.from_address(free).value = self.total - self.in_use
        ctypes.c_size_t.from_address(total).value = self.total

    @c_function
    def cuMemAlloc_v2(self, out: int, nbytes: int) -> None:
        self._unsafe("cuMemAlloc_v2")
        if not nbytes:
            raise Refusal(1, "0 bytes")
        if self.in_use + nbytes > self.total:
            raise Refusal(2, f"{nbytes} bytes")
        ctypes.c_uint64.from_address(out).value = self.memory.allocate(nbytes)

    @c_function
    def cuMemFree_v2(self, address: int) -> None:
        self._unsafe("cuMemFree_v2")
        for stream in self._streams():
            if stream.capture is None:
                self._run_all(stream)
        self.memory.free(address)

    @c_function
    def cuMemHostAlloc(self, out: int, nbytes: int, flags: int) -> None:
        self._unsafe("cuMemHostAlloc")
        if not nbytes:
            raise Refusal(1, "0 bytes")
        made = (ctypes.c_ubyte * nbytes)(*[0xA5] * nbytes)
        self.pinned[ctypes.addressof(made)] = made
        ctypes.c_uint64.from_address(out).value = ctypes.addressof(made)

    @c_function
    def cuMemFreeHost(self, address: int) -> None:
        if address not in self.pinned:
            raise Refusal(1, f"{address:#x} is no pinned memory")
        del self.pinned[address]

    def _is_pinned(self, address: int, nbytes: int) -> bool:
        return any(a <= address and address + nbytes <= a + len(m) for a, m in self.pinned.items())

    def _fill_from_pinned(self, to: int, source: int, nbytes: int) -> None:
        if not self._is_pinned(source, nbytes):
            raise Fault(f"a copy from pinned memory at {source:#x}, which has been freed meanwhile")
        self._fill(to, np.frombuffer(ctypes.string_at(source, nbytes), np.uint8))

    @c_function
    def cuMemcpyHtoDAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """The host's memory is read before the call returns where it is pageable, and as late as may be where
        it is pinned."""
        if self._is_pinned(source, nbytes):
            self.memory.find(to, nbytes)
            run = functools.partial(self._fill_from_pinned, to, source, nbytes)
            self._enqueue(stream, f"copy of {nbytes} pinned bytes to the device", run)
            return
        self._outside("cuMemcpyHtoDAsync_v2 from pageable memory", self.thing(stream, Stream))
        if source >= BASE:
            raise Fault(f"cuMemcpyHtoDAsync_v2 from {source:#x}, which is an address of the device")
        staged = np.frombuffer(ctypes.string_at(source, nbytes), np.uint8)
        self.memory.find(to, nbytes)
        self._enqueue(stream, f"copy of {nbytes} bytes to the device", lambda: self._fill(to, staged))

    def _fill(self, to: int, values: Any) -> None:
        self.memory.write(to, len(values))[...] = values

    @c_function
    def cuMemcpyDtoHAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """The host's memory is pageable: it has been written when the call returns."""
        self._outside("cuMemcpyDtoHAsync_v2 to pageable memory", self.thing(stream, Stream))
        if to >= BASE:
            raise Fault(f"cuMemcpyDtoHAsync_v2 to {to:#x}, which is an address of the device")
        self._run_all(self.thing(stream, Stream))
        ctypes.memmove(to, self.memory.read(source, nbytes).ctypes.data, nbytes)

    @c_function
    def cuMemcpyDtoDAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._enqueue(
            stream, f"copy of {nbytes} bytes", lambda: self._fill(to, self.memory.read(source, nbytes).copy())
        )

    @c_function
    def cuMemsetD8Async(self, to: int, value: int, nbytes: int, stream: int) -> None:
        self._enqueue(
            stream, f"fill of {nbytes} bytes", lambda: self._fill(to, np.full(nbytes, value, np.uint8))
        )

    # -- streams ---------------------------------------------------------------------------------------------

    def _streams(self) -> list[Stream]:
        return [thing for thing in self._things.values() if isinstance(thing, Stream)]

    def _unsafe(self, function: str) -> None:
        """What may not be called while anything is captured, unless that is relaxed."""
        for stream in self._streams():
            if stream.capture is not None and stream.capture.mode != RELAXED:
                stream.capture.invalid = function
                raise Refusal(900, f"{function} while a stream is captured, whose mode is not relaxed")

    def _outside(self, what: str, stream: Stream) -> None:
        """What may not be asked of a stream that is captured."""
        if stream.capture is not None:
            stream.capture.invalid = what
            raise Refusal(900, f"{what} of a stream that is captured")

    def _enqueue(self, stream: int, name: str, run: Callable[[], None]) -> None:
        found = self.thing(stream, Stream)
        if found.capture is None:
            found.queue.append(Node(name, run))
            return
        capture = found.capture
        if capture.invalid:
            raise Refusal(901, f"the capture has come to nothing by {capture.invalid}")
        self._next += 16
        self._things[self._next] = node = Node(name, run, list(capture.after))
        capture.nodes[self._next] = node
        capture.after = [self._next]

    def _run_all(self, stream: Stream) -> None:
        while stream.queue:
            self._run_one(stream)
        self.memory.check_guards()

    def _run_one(self, stream: Stream) -> None:
        """The next operation of the stream, if there is one."""
        if not stream.queue:
            return
        node = stream.queue.pop(0)
        self.ran.append(node.name)
        self.clock += 1.0
        try:
            node.run()
        except Fault as fault:
            stream.queue.clear()
            raise Fault(f"{node.name}: {fault}", fault.status) from None

    @c_function
    def cuStreamCreate(self, out: int, flags: int) -> None:
        self.put(out, Stream())

    @c_function
    def cuStreamSynchronize(self, stream: int) -> None:
        if stream in (1, 2):  # the legacy default stream, and the thread's: other libraries' work
            self.waited.append(stream)
            return
        self._outside("cuStreamSynchronize", self.thing(stream, Stream))
        self._run_all(self.thing(stream, Stream))

    # -- events ----------------------------------------------------------------------------------------------

    @c_function
    def cuEventCreate(self, out: int, flags: int) -> None:
        self.put(out, Event(timed=not flags & 2))

    @c_function
    def cuEventRecord(self, event: int, stream: int) -> None:
        self._outside("cuEventRecord", self.thing(stream, Stream))
        found = self.thing(event, Event)
        found.is_recorded, found.time = True, None
        self._enqueue(stream, "event", lambda: setattr(found, "time", self.clock))

    def _is_reached(self, event: Event) -> bool:
        return not event.is_recorded or event.time is not None

    @c_function
    def cuEventQuery(self, event: int) -> int:
        """Each question lets the device do one thing more."""
        if self._is_reached(self.thing(event, Event)):
            return 0
        for stream in self._streams():
            self._run_one(stream)
        return 600

    @c_function
    def cuEventSynchronize(self, event: int) -> None:
        found = self.thing(event, Event)
        for stream in self._streams():
            while stream.queue and not self._is_reached(found):
                self._run_one(stream)

    @c_function
    def cuEventElapsedTime(self, out: int, start: int, end: int) -> None:
        both = [self.thing(event, Event) for event in (start, end)]
        if not all(event.timed and event.is_recorded for event in both):
            raise Refusal(400, "an event that takes no time, or was not recorded")
        if not all(self._is_reached(event) for event in both):
            raise Refusal(600, "an event that was not reached yet")
        ctypes.c_float.from_address(out).value = both[1].time - both[0].time

    @c_function
    def cuEventDestroy_v2(self, event: int) -> None:
        self.thing(event, Event)
        del self._things[event]

    # -- graphs ----------------------------------------------------------------------------------------------

    @c_function
    def cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        found = self.thing(stream, Stream)
        if found.capture is not None:
            raise Refusal(401, "the stream is captured already")
        found.capture = Capturing(mode)

    def _capture(self, stream: int) -> Capturing:
        found = self.thing(stream, Stream).capture
        if found is None:
            raise Refusal(401, "the stream is not captured")
        return found

    @c_function
    def cuStreamGetCaptureInfo_v3(
        self, stream: int, status: int, number: int, graph: int, after: int, edges: int, count: int
    ) -> None:
        capture = self._capture(stream)
        capture.shown = (ctypes.c_uint64 * max(len(capture.after), 1))(*capture.after)
        ctypes.c_int.from_address(status).value = 2 if capture.invalid else 1
        ctypes.c_uint64.from_address(after).value = ctypes.addressof(capture.shown)
        ctypes.c_size_t.from_address(count).value = len(capture.after)

    @c_function
    def cuStreamUpdateCaptureDependencies_v2(
        self, stream: int, nodes: int, edges: int | None, count: int, flags: int
    ) -> None:
        capture = self._capture(stream)
        given = list((ctypes.c_uint64 * count).from_address(nodes)) if count else []
        for handle in given:
            if handle not in capture.nodes:
                raise Refusal(1, f"{handle:#x} is no node of what is captured")
        capture.after = given if flags == 1 else [*capture.after, *given]

    @c_function
    def cuStreamEndCapture(self, stream: int, out: int) -> None:
        capture = self._capture(stream)
        self.thing(stream, Stream).capture = None
        if capture.invalid:
            ctypes.c_uint64.from_address(out).value = 0
            raise Refusal(901, f"the capture has come to nothing by {capture.invalid}")
        self.put(out, capture.nodes)

    @c_function
    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> None:
        self.put(out, tuple(self.thing(graph, dict).items()))

    @c_function
    def cuGraphDestroy(self, graph: int) -> None:
        self.thing(graph, dict)
        del self._things[graph]

    @c_function
    def cuGraphLaunch(self, graph: int, stream: int) -> None:
        nodes = dict(self.thing(graph, tuple))
        self._outside("cuGraphLaunch", self.thing(stream, Stream))
        self._enqueue(stream, "graph", lambda: self._run_graph(nodes))

    def _run_graph(self, nodes: Nodes) -> None:
        graphs.run(nodes, self.memory, self.chance)
        self.ran += [node.name for node in nodes.values()]

    @c_function
    def cuGraphExecDestroy(self, graph: int) -> None:
        self.thing(graph, tuple)
        del self._things[graph]

    # -- kernels ---------------------------------------------------------------------------------------------

    @c_function
    def cuModuleLoadDataEx(self, out: int, image: int, count: int, options: int, values: int) -> None:
        self._unsafe("cuModuleLoadDataEx")
        text = ctypes.string_at(image).decode()
        version = re.search(r"^\.version (\d+)\.(\d+)", text, re.M)
        try:
            if version and (int(version[1]), int(version[2])) > PTX:
                raise Refusal(222, f"this driver knows {PTX[0]}.{PTX[1]}, and the text is {version[0]}")
            self.put(out, Module(kernels.load(text)))
        except PtxError as error:
            message = f"ptxas fatal: {error}".encode() + b"\0"
            ctypes.memmove(ctypes.c_uint64.from_address(values).value, message, len(message))
            raise Refusal(218, "the text cannot be compiled") from None

    @c_function
    def cuModuleGetFunction(self, out: int, module: int, name: bytes) -> None:
        found = self.thing(module, Module).functions.get(name.decode())
        if found is None:
            raise Refusal(500, f"the module has no function {name.decode()}")
        self.put(out, Function(name.decode(), found))

    @c_function
    def cuLaunchKernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int,
        params: int, extra: int | None,
    ) -> None:  # fmt: skip
        found = self.thing(function, Function)
        if not 0 < bx * by * bz <= found.kernel.max_threads or (gz, bz) != (1, 1):
            raise Refusal(1, f"{found.name} in blocks of {bx} x {by} x {bz} threads")
        if not 0 < gx < 1 << 31 or not 0 < gy < 1 << 16:
            raise Refusal(1, f"{found.name} in a grid of {gx} x {gy} blocks")
        sizes = [parameter.size for parameter in found.kernel.parameters]
        pointers = (ctypes.c_uint64 * len(sizes)).from_address(params)
        given = [ctypes.string_at(*both) for both in zip(pointers, sizes, strict=True)]
        run = functools.partial(kernels.launch, found.kernel, (gx, gy), (bx, by), given, self.memory)
        self._enqueue(stream, found.name, run)


def cuda_device(fake: FakeDevice | None = None, caching: bool = True) -> Device:
    """A device over a fake one, which is ``device.fake``."""
    from tests.cuda.cublas import FakeBlas

    fake = fake or FakeDevice()
    device = Device(driver.bind(fake), driver.bind_cublas(FakeBlas(fake)), caching=caching)
    device.fake = fake  # type: ignore[attr-defined]
    return device
