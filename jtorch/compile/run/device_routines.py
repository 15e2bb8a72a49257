"""Ops that no formula says, on arrays of a device: running sums, order, writes at computed places.

Each is a few launches of kernels whose text is below, as generated kernels are: plain Python, compiled by
numba-cuda. Nothing in them depends on which thread comes first, so results are those of the host; a running
sum of floats is added up in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.codegen.cuda import CudaKernel
from jtorch.compile.codegen.cuda_launch import MAX_BLOCKS, THREADS, Work, power_of_two
from jtorch.compile.plan.fuse import Style
from jtorch.compile.run.cuda_texts import plain_text
from jtorch.core.device_array import DeviceArray
from jtorch.core.op import Op

_INT = np.dtype(np.int64)
_LEAST_PART = 64  # elements of a line that one thread adds up

Routine = Callable[..., Any]
ROUTINES: dict[str, Routine] = {}
"""What computes the op of a name: (memory, xp, values, statics) -> the result, None where the host is to."""


def compute(op: Op, memory: Any, xp: Any, values: tuple, statics: dict[str, Any]) -> Any:
    """The result of ``op``, or None where there is no routine for these."""
    routine = ROUTINES.get(op.name)
    if routine is None:
        return None
    with memory.native.own():
        return routine(memory, xp, values, statics)


def _routine(function: Routine) -> Routine:
    ROUTINES[function.__name__.strip("_")] = function
    return function


# -- kernels -----------------------------------------------------------------------------------------------

_HEAD = (
    "from numba import cuda\nfrom numpy import float64, int64\n\nARGUMENTS = ({kinds})\n\n\n"
    "def {name}({names}):\n    j = cuda.grid(1)\n"
)
_LOOP = "    while j < count:\n{body}\n        j += cuda.gridsize(1)\n"


def kernel(name: str, arguments: str, body: str) -> CudaKernel:
    """A thread does ``body`` for each j below ``count``, the first argument; ``arguments`` are names with
    their kinds, "x:f32*"; a name without one is an i64."""
    pairs = [part.split(":") for part in f"count {arguments}".split()]
    kinds = ", ".join(repr(pair[1] if len(pair) > 1 else "i64") for pair in pairs)
    head = _HEAD.format(kinds=kinds, name=name, names=", ".join(pair[0] for pair in pairs))
    lines = "\n".join(f"        {line}" if line else "" for line in body.strip("\n").split("\n"))
    return CudaKernel(name, head + _LOOP.format(body=lines), (), (), Work(Style.MAP, 0))


def launch(memory: Any, kernel: CudaKernel, count: int, *words: Any) -> None:
    """``kernel`` for ``count`` elements; arrays among the ``words`` are their addresses."""
    if not count:
        return
    text, entry = plain_text(kernel)
    given = [w.address if isinstance(w, DeviceArray) else int(w) for w in words]
    grid = (min(-(-count // THREADS), MAX_BLOCKS), 1)
    memory.native.launch(memory.native.kernel(text, entry), grid, (THREADS, 1), [count, *given])


def _kind(dtype: np.dtype) -> str:
    return "bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"


def _truth(x: DeviceArray) -> str:
    """What makes a bool of an element of ``x`` where that is one: the kernel reads a byte."""
    return " != 0" if x.dtype.kind == "b" else ""


def _lines(shape: Sequence[int], axis: int) -> tuple[int, int]:
    """How many lines lie along ``axis``, and how many elements lie between neighbours on one."""
    inner = math.prod(shape[axis + 1 :])
    return math.prod(shape[:axis]) * inner, inner


# -- running sums ------------------------------------------------------------------------------------------

_PARTS = """
line = j // parts
first = (j % parts) * length
begin = (line // inner) * n * inner + line % inner
total = {zero}
for i in range(first, min(first + length, n)):
    total = total + (x[begin + i * inner]{truth})
sums[j] = total
"""
_BEFORE = """
total = {zero}
for k in range(j * parts, (j + 1) * parts):
    part = sums[k]
    sums[k] = total
    total = total + part
"""
_RUNNING = """
line = j // parts
first = (j % parts) * length
begin = (line // inner) * n * inner + line % inner
total = sums[j]
for i in range(first, min(first + length, n)):
    total = total + (x[begin + i * inner]{truth})
    y[begin + i * inner] = total
"""


@_routine
def _cumsum(memory: Any, xp: Any, values: tuple, statics: dict[str, Any]) -> Any:
    """Parts of lines are added up by a thread each, then what is before each part, then the parts again."""
    (x,), axis = values, statics["axis"]
    if not _is_ordered(x):
        return None
    x, n = memory.in_order(x), x.shape[axis]
    own = np.dtype(np.float64 if x.dtype.kind == "f" else np.int64)
    out = memory.empty(x.dtype if x.dtype.kind == "f" else _INT, x.shape)
    lines, inner = _lines(x.shape, axis)
    length = max(_LEAST_PART, math.isqrt(max(n, 1)))
    parts = -(-n // length)
    sums = memory.empty(own, (lines * parts,))
    facts = {"zero": "0.0" if own.kind == "f" else "0", "truth": _truth(x)}
    sizes = (parts, length, n, inner)
    names = f"parts length n inner x:{_kind(x.dtype)}* sums:{_kind(own)}*"
    summed = kernel("sums_of_parts", names, _PARTS.format(**facts))
    launch(memory, summed, lines * parts, *sizes, x, sums)
    before = kernel("sums_before_parts", f"parts sums:{_kind(own)}*", _BEFORE.format(**facts))
    launch(memory, before, lines if parts > 1 else 0, parts, sums)
    if parts <= 1:
        memory.native.clear(sums.address, sums.nbytes)
    running = kernel("running_sums", f"{names} y:{_kind(out.dtype)}*", _RUNNING.format(**facts))
    launch(memory, running, lines * parts, *sizes, x, sums, out)
    return out


# -- order -------------------------------------------------------------------------------------------------

_PLACES = "order[j] = j % padded"
_COMPARED = """
line = j // half
r = j % half
i = (r // step) * 2 * step + r % step
at = line * padded + i
a = order[at]
b = order[at + step]
begin = (line // inner) * n * inner + line % inner
if a < n and b < n:
    p = x[begin + a * inner]{truth}
    q = x[begin + b * inner]{truth}
    same = p == q or (p != p and q != q)
    first = a < b if same else ({first})
else:
    first = a < b
if first != ((i & run) == 0):
    order[at] = b
    order[at + step] = a
"""
_TAKEN = """
line = (j // (m * inner)) * inner + j % inner
y[j] = order[line * padded + (j // inner) % m]
"""
_FIRST = {False: "p < q or (q != q and p == p)", True: "p > q or (p != p and q == q)"}


def _order(memory: Any, x: DeviceArray, axis: int, descending: bool, m: int) -> DeviceArray:
    """The first ``m`` places along ``axis`` in order: a bitonic network over places, of which those behind
    the end are last. Ties are broken by place: no two are equal, and the order is that of a stable sort."""
    x, n = memory.in_order(x), x.shape[axis]
    out = memory.empty(_INT, (*x.shape[:axis], m, *x.shape[axis + 1 :]))
    lines, inner = _lines(x.shape, axis)
    padded = power_of_two(n)
    order = memory.empty(_INT, (lines * padded,))
    launch(memory, kernel("places", "padded order:i64*", _PLACES), lines * padded, padded, order)
    text = _COMPARED.format(truth=_truth(x), first=_FIRST[descending])
    compared = kernel("in_order", f"half step run padded n inner x:{_kind(x.dtype)}* order:i64*", text)
    half, run = padded // 2, 2
    while run <= padded:
        step = run // 2
        while step:
            launch(memory, compared, lines * half, half, step, run, padded, n, inner, x, order)
            step //= 2
        run *= 2
    taken = kernel("first_places", "m inner padded order:i64* y:i64*", _TAKEN)
    launch(memory, taken, out.size, m, inner, padded, order, out)
    return out


def _is_ordered(x: Any) -> bool:
    return x.dtype.kind in "iub" or x.dtype in (np.float32, np.float64)


@_routine
def _sort_order(memory: Any, xp: Any, values: tuple, statics: dict[str, Any]) -> Any:
    (x,), axis = values, statics["axis"]
    if not _is_ordered(x):
        return None
    return _order(memory, x, axis, statics["descending"], x.shape[axis])


@_routine
def _top_order(memory: Any, xp: Any, values: tuple, statics: dict[str, Any]) -> Any:
    (x,) = values
    if not _is_ordered(x):
        return None
    return _order(memory, x, statics["axis"], statics["largest"], statics["k"])


# -- writes at places --------------------------------------------------------------------------------------

_WRITTEN = """
t = j % trail
k = (j // trail) % n
lead = j // (trail * n)
i = order[k]
place = places[i]
last = True
if k + 1 < n:
    last = places[order[k + 1]] != place
if last:
    y[(lead * room + place) * trail + t] = x[(lead * n + i) * trail + t]
"""


@_routine
def _index_put(memory: Any, xp: Any, values: tuple, statics: dict[str, Any]) -> Any:
    """Of values for one place the last stays, as on the host: their places are put in order first."""
    (x, value, *indices), axes = values, statics["axes"]
    if any(index.dtype != _INT for index in indices) or value.dtype != x.dtype or x.itemsize > 8:
        return None
    shape = np.broadcast_shapes(*[index.shape for index in indices])
    if not _all_inside(xp, indices, [x.shape[axis] for axis in axes]):
        return None  # the host says which is not
    places: Any = None
    for index, axis in zip(indices, axes, strict=True):
        places = index if places is None else places * x.shape[axis] + index
    places = memory.in_order(_expanded(memory, places, shape))
    given = (*x.shape[: axes[0]], *shape, *x.shape[axes[-1] + 1 :])
    value = memory.in_order(_expanded(memory, value, given))
    out = memory.copied(x)
    n, room = places.size, math.prod(x.shape[axis] for axis in axes)
    trail = math.prod(x.shape[axes[-1] + 1 :])
    flat = DeviceArray(places.block, _INT, (n,), None, places.offset, places)
    order = _order(memory, flat, 0, False, n)
    word = f"u{8 * x.itemsize}"
    names = f"n trail room places:i64* order:i64* x:{word}* y:{word}*"
    launch(memory, kernel("written", names, _WRITTEN), value.size, n, trail, room, places, order, value, out)
    return out


def _all_inside(xp: Any, indices: Sequence[Any], sizes: Sequence[int]) -> bool:
    """Whether all of the ``indices`` are below their sizes, and none below 0; it waits for the device."""
    for index, size in zip(indices, sizes, strict=True):
        if not index.size:
            continue
        axis = tuple(range(index.ndim))
        low, high = xp.min(index, axis=axis, keepdims=False), xp.max(index, axis=axis, keepdims=False)
        if low.item() < 0 or high.item() >= size:
            return False
    return True


def _expanded(memory: Any, array: DeviceArray, shape: tuple[int, ...]) -> DeviceArray:
    if array.shape == shape:
        return array
    strides = (0,) * (len(shape) - array.ndim) + tuple(
        0 if n == 1 else s for n, s in zip(array.shape, array.element_strides, strict=True)
    )
    return DeviceArray(array.block, array.dtype, shape, strides, array.offset, array)


# -- questions ---------------------------------------------------------------------------------------------


@_routine
def _checked(memory: Any, xp: Any, values: tuple, statics: dict[str, Any]) -> Any:
    """A copy; what is not as it should be the host says."""
    (x,), test = values, statics["test"]
    if x.dtype not in (np.float32, np.float64):
        return None
    if test == "mass":
        right = xp.gt(xp.sum(x, axis=(x.ndim - 1,), keepdims=False), 0.0)
    else:
        right = xp.ge(x, 0.0)
        if test != "deviation":
            most = xp.le(x, 1.0) if test == "probability" else xp.lt(x, math.inf)
            right = xp.logical_and(right, most)
    axes = tuple(range(right.ndim))
    wrong = right.size and not xp.min(xp.cast(right, dtype=_INT), axis=axes, keepdims=False).item()
    return None if wrong else memory.copied(x)


# -- places in sorted sequences ----------------------------------------------------------------------------

_BISECTED = """
begin = (j // m) * n * rows
value = x[j]{truth}
low, high = 0, n
while low < high:
    middle = (low + high) // 2
    element = sequence[begin + middle]{truth}
    if {after}:
        high = middle
    else:
        low = middle + 1
y[j] = low
"""


@_routine
def _searchsorted(memory: Any, xp: Any, values: tuple, statics: dict[str, Any]) -> Any:
    """A thread bisects for each value; what can't be compared with it counts as before it, as on the host."""
    sequence, wanted = values
    if sequence.dtype != wanted.dtype or not _is_ordered(sequence):
        return None
    sequence, wanted = memory.in_order(sequence), memory.in_order(wanted)
    out = memory.empty(_INT, wanted.shape)
    m = wanted.shape[-1] if sequence.ndim > 1 else max(wanted.size, 1)
    after = "element > value" if statics["right"] else "element >= value"
    text = _BISECTED.format(truth=_truth(sequence), after=after)
    kind = _kind(sequence.dtype)
    bisected = kernel("bisected", f"n m rows sequence:{kind}* x:{kind}* y:i64*", text)
    rows = int(sequence.ndim > 1)
    launch(memory, bisected, wanted.size, sequence.shape[-1], m, rows, sequence, wanted, out)
    return out
