"""One native call that walks a table of kernels.

A plan's table is an int64 array with one row per call: (kernel address, argument block address,
repeat, stride in bytes, pool). The row's kernel runs `repeat` times, its block moving on by `stride`
each time: one after the other where `pool` is 0, else in any order on the threads of that pool (see
`workers`). The first nonzero status stops the walk.

The way in from Python is a builtin function made by `PyCFunction_NewEx` whose C function is our own
machine code: measured 14 ns for an empty table against 264 ns through ctypes, and 25 against 3,900
ns with three array arguments to patch. Its `self` is the record, an int64 ndarray (which the
builtin keeps alive) laid out as

    patch count | row count | argument count | PyLong_FromLongLong | SaveThread or 0 | RestoreThread |
    runs that ended with status 0
    patches: (argument index, destination word's address, byte offset) ...
    rows:    (kernel, block, repeat, stride, pool) ...

Before the rows run, each patch stores `*(int64*)(argument + 16) + offset` at its destination. At
byte 16 of an ndarray is its data pointer and of a float its value, so one rule serves both: arrays
with their view's offset, runtime scalars with offset 0. `layout_is_known()` checks this against
real objects; where it fails (another Python), patches run in Python.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jtorch.native import cache, llvm_files, workers
from jtorch.native.builtin import DATA_OFFSET, api, make_builtin


class Row(NamedTuple):
    """One call of a table: the kernel runs ``repeat`` times, its block moving on by ``stride`` bytes each
    time, one after the other where ``pool`` is 0, else on the threads of that pool."""

    kernel: int
    block: int
    repeat: int
    stride: int
    pool: int = 0

    def goes_on_with(self, other: Row) -> bool:
        """Whether ``other``, of as many words, may be one more time of this."""
        return self.kernel == other.kernel and not self.pool and not other.pool


ROW_WORDS = len(Row._fields)

_HEADER_WORDS = 7
_ENDED = 6  # a word that runs write: Ctrl-C may come before Python has their status
_CODE_BITS = 16

_WRONG_ARGUMENT_COUNT = -1


class Patch(NamedTuple):
    """Before each run: store argument `argument`'s data address (plus `offset` bytes) or float
    value at `destination`.
    """

    argument: int
    destination: int
    offset: int = 0


PATCH_WORDS = len(Patch._fields)


class _Native(NamedTuple):
    call: int
    walk: int
    scan: int
    run_rows: Any
    make_int: int
    save_thread: int
    restore_thread: int


@functools.cache
def _native() -> _Native:
    """The machine code and the addresses it needs, made once per process."""
    gaps = {"DATA_OFFSET": DATA_OFFSET, "CODE_BITS": _CODE_BITS, "CODE_MASK": (1 << _CODE_BITS) - 1}
    text = llvm_files.read("rows", gaps) + workers.text()
    addresses = cache.get_or_build_ir(text, "executor")
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    return _Native(
        addresses["jtorch_call"],
        addresses["jtorch_walk"],
        addresses["jtorch_scan"],
        prototype(addresses["jtorch_run_rows"]),
        api("PyLong_FromLongLong"),
        api("PyEval_SaveThread"),
        api("PyEval_RestoreThread"),
    )


def walk_kernel() -> int:
    """The address of a kernel that runs several ones, one after the other. Its block has their number, then a
    row of ROW_WORDS for each, as a table has; its status is the code of the one that failed."""
    return _native().walk


def scan_kernel() -> int:
    """The address of a kernel that runs a record (see the top) once for each step of a loop.

    Its block has the record's address, the number of steps, that of the record's arguments, the address of
    the number of steps that are left out at the beginning (0: none are), and the number of the argument, from
    1 on, at which an int64 below 0 ends the loop (0: none does). Then SCAN_WORDS for each argument: a word of
    its own; its address at the first step that is taken, or 0; else at step k it is the next word plus
    ``((k - late) & mask) * stride``, of the three words after that.
    """
    return _native().scan


SCAN_WORDS = 6


@functools.cache
def layout_is_known() -> bool:
    """Whether ndarrays and floats hold their word where the machine code reads it, tried on real
    objects.
    """
    if sys.implementation.name != "cpython":
        return False

    def word(thing: object) -> int:
        return ctypes.c_int64.from_address(id(thing) + DATA_OFFSET).value

    base = np.arange(24.0).reshape(4, 6)
    arrays = [
        base,
        base[1:, ::2],
        np.empty((0, 3), np.float32),
        np.array(2.5),
        np.zeros(3, np.int8),
    ]
    floats = [0.0, -0.0, 1.5, float("inf"), float("nan"), 5e-324]
    return all(word(a) == a.__array_interface__["data"][0] for a in arrays) and all(
        word(f) == int(np.float64(f).view(np.int64)) for f in floats
    )


class _Record(np.ndarray):
    """What the machine code reads, and whose memory it points to: ``run`` is kept without its Executor."""

    owners: tuple[object, ...] = ()


class Executor:
    """A plan's instruction table made callable.

    table: int64 array of shape (rows, 5): kernel address, block address, repeat, stride in bytes, and 0 or
    the pool whose threads share the repeats.
    patches: what to store from the call's arguments before each run; several may name one of them.
    keepalive: objects that own the memory the table and the patches point to; ``run`` keeps them, too.
    argument_count: how many arguments `run` takes (default: up to the highest index in `patches`).
    release_gil: let other Python threads run meanwhile (26 ns more; for tables that take long).

    `run(*arguments)` is the fast way in: positional arguments, each an ndarray (dtype, layout and
    writability are the caller's business) or an exact `float`, as its patches expect. **Their
    classes are not checked**; their number is, and a wrong one returns -1 with nothing run. The
    result is 0, or a status that `decode` splits. Two threads may run two executors, or one whose
    blocks no run changes; otherwise the caller holds a lock.
    """

    __slots__ = ("__weakref__", "record", "run")

    run: Callable[..., int]

    def __init__(
        self,
        table: np.ndarray,
        patches: Sequence[Patch | tuple[int, int, int]] = (),
        keepalive: Sequence[object] = (),
        *,
        argument_count: int | None = None,
        release_gil: bool = False,
    ) -> None:
        rows = np.ascontiguousarray(table, np.int64)
        if rows.size and (rows.ndim != 2 or rows.shape[1] != ROW_WORDS):
            raise ValueError(
                "an instruction table has shape (rows, 5): kernel, block, repeat, stride, pool; "
                f"got {rows.shape}"
            )
        places = np.array([tuple(p) for p in patches], np.int64).reshape(-1, 3)
        needed = int(places[:, 0].max()) + 1 if len(places) else 0
        count = needed if argument_count is None else argument_count
        if count < needed or (len(places) and places[:, 0].min() < 0):
            raise ValueError(f"patches name argument {needed - 1}, but the table takes {count} arguments")
        self._begin(record_of(rows, places, count, release_gil), keepalive)

    @classmethod
    def of_record(cls, record: np.ndarray, keepalive: Sequence[object]) -> Executor:
        """That of a record, see ``record_of``, which may have more behind it."""
        made = cls.__new__(cls)
        made._begin(record, keepalive)
        return made

    def _begin(self, record: np.ndarray, keepalive: Sequence[object]) -> None:
        self.record = record.view(_Record)
        self.record.flags.writeable = False
        self.record.owners = tuple(keepalive)
        known = layout_is_known()
        self.run = make_builtin("run", _native().call, self.record) if known else _python_entry(self.record)

    def __call__(self, *arguments: object) -> int:
        return self.run(*arguments)

    _ended_at = _ENDED  # for those that are asked when this module has been taken down

    @property
    def ended(self) -> int:
        """How many runs ended with status 0."""
        return int(self.record[self._ended_at])

    @staticmethod
    def decode(status: int) -> tuple[int, int]:
        """(row, code) of a nonzero status. Raises TypeError for the status of a wrong argument
        count.
        """
        if status == _WRONG_ARGUMENT_COUNT:
            raise TypeError("the executor was called with a number of arguments its table does not take")
        return status >> _CODE_BITS, status & ((1 << _CODE_BITS) - 1)

    @staticmethod
    def of_later_row(status: int, rows: int) -> int:
        """A nonzero status, of a table that follows so many rows, as one of the whole."""
        return status + (rows << _CODE_BITS) if status > 0 else status


def record_of(rows: np.ndarray, patches: np.ndarray, argument_count: int, release_gil: bool) -> np.ndarray:
    """What the machine code reads: a header, then ``patches`` (n, 3), then ``rows`` (n, 5)."""
    native = _native()
    save = native.save_thread if release_gil else 0
    header = [len(patches), len(rows), argument_count, native.make_int, save, native.restore_thread, 0]
    return np.concatenate([np.array(header, np.int64), patches.ravel(), rows.ravel()])


def offsets_in_record(patches: int) -> tuple[int, int]:
    """Where patches and rows begin in a record of so many patches, in words."""
    return _HEADER_WORDS, _HEADER_WORDS + PATCH_WORDS * patches


def _python_entry(record: np.ndarray) -> Callable[..., int]:
    """The same entry for a Python whose object layout is unknown: patches by Python, rows by one
    ctypes call.
    """
    patch_count, row_count, argument_count = (int(word) for word in record[:3])
    rows_start = _HEADER_WORDS + 3 * patch_count
    patches = record[_HEADER_WORDS:rows_start].reshape(-1, 3).tolist()
    words = (ctypes.c_int64 * _HEADER_WORDS).from_address(record.ctypes.data)
    run_rows = _native().run_rows

    def run(*arguments: Any) -> int:
        if len(arguments) != argument_count:
            return _WRONG_ARGUMENT_COUNT
        for position, destination, offset in patches:
            argument = arguments[position]
            if isinstance(argument, float):
                ctypes.c_double.from_address(destination).value = argument
            else:
                ctypes.c_int64.from_address(destination).value = argument.ctypes.data + offset
        status = int(run_rows(record.ctypes.data + 8 * rows_start, row_count))
        words[_ENDED] += not status
        return status

    return run
