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

from jtorch.native import cache, workers
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

# The walk keeps no state outside its registers: threads may run different tables, or the same one
# over different memory.
_IR = r"""
define i64 @jtorch_run_rows(ptr %rows, i64 %count) {
entry:
  %none = icmp slt i64 %count, 1
  br i1 %none, label %done, label %row

row:
  %index = phi i64 [ 0, %entry ], [ %next_index, %row_end ]
  %kernel_slot = getelementptr [5 x i64], ptr %rows, i64 %index
  %block_slot = getelementptr i64, ptr %kernel_slot, i64 1
  %repeat_slot = getelementptr i64, ptr %kernel_slot, i64 2
  %stride_slot = getelementptr i64, ptr %kernel_slot, i64 3
  %pool_slot = getelementptr i64, ptr %kernel_slot, i64 4
  %kernel = load ptr, ptr %kernel_slot
  %block = load ptr, ptr %block_slot
  %repeat = load i64, ptr %repeat_slot
  %stride = load i64, ptr %stride_slot
  %pool = load ptr, ptr %pool_slot
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %how_often, label %spread

spread:
  %kernel_word = ptrtoint ptr %kernel to i64
  %block_word = ptrtoint ptr %block to i64
  %spread_code = call i64 @jtorch_parallel(
    ptr %pool, i64 %kernel_word, i64 %block_word, i64 %repeat, i64 %stride)
  %spread_failed = icmp ne i64 %spread_code, 0
  br i1 %spread_failed, label %fail, label %row_end

how_often:
  %skip = icmp slt i64 %repeat, 1
  br i1 %skip, label %row_end, label %call

call:
  %round = phi i64 [ 0, %how_often ], [ %next_round, %call_ok ]
  %here = phi ptr [ %block, %how_often ], [ %next_here, %call_ok ]
  %code = call i64 %kernel(ptr %here)
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %fail, label %call_ok

call_ok:
  %next_round = add i64 %round, 1
  %next_here = getelementptr i8, ptr %here, i64 %stride
  %more_rounds = icmp slt i64 %next_round, %repeat
  br i1 %more_rounds, label %call, label %row_end

row_end:
  %next_index = add i64 %index, 1
  %more_rows = icmp slt i64 %next_index, %count
  br i1 %more_rows, label %row, label %done

fail:
  %wrong = phi i64 [ %code, %call ], [ %spread_code, %spread ]
  %small = and i64 %wrong, CODE_MASK
  %shifted = shl i64 %index, CODE_BITS
  %status = or i64 %shifted, %small
  ret i64 %status

done:
  ret i64 0
}

define i64 @jtorch_walk(ptr %block) {
  %count = load i64, ptr %block
  %rows = getelementptr i64, ptr %block, i64 1
  %status = call i64 @jtorch_run_rows(ptr %rows, i64 %count)
  %code = and i64 %status, CODE_MASK
  ret i64 %code
}

define ptr @jtorch_call(ptr %self, ptr %arguments, i64 %argument_count) {
entry:
  %record_slot = getelementptr i8, ptr %self, i64 DATA_OFFSET
  %record = load ptr, ptr %record_slot
  %row_count_slot = getelementptr i64, ptr %record, i64 1
  %expected_slot = getelementptr i64, ptr %record, i64 2
  %make_int_slot = getelementptr i64, ptr %record, i64 3
  %save_slot = getelementptr i64, ptr %record, i64 4
  %restore_slot = getelementptr i64, ptr %record, i64 5
  %ended_slot = getelementptr i64, ptr %record, i64 6
  %patches = getelementptr i64, ptr %record, i64 7
  %patch_count = load i64, ptr %record
  %row_count = load i64, ptr %row_count_slot
  %expected = load i64, ptr %expected_slot
  %make_int = load ptr, ptr %make_int_slot
  %save = load ptr, ptr %save_slot
  %patch_words = mul i64 %patch_count, 3
  %rows = getelementptr i64, ptr %patches, i64 %patch_words
  %counts_agree = icmp eq i64 %expected, %argument_count
  br i1 %counts_agree, label %any_patches, label %wrong_count

wrong_count:
  %refusal = call ptr %make_int(i64 -1)
  ret ptr %refusal

any_patches:
  %no_patches = icmp slt i64 %patch_count, 1
  br i1 %no_patches, label %patched, label %patch

patch:
  %index = phi i64 [ 0, %any_patches ], [ %next_index, %patch ]
  %position_slot = getelementptr [3 x i64], ptr %patches, i64 %index
  %destination_slot = getelementptr i64, ptr %position_slot, i64 1
  %offset_slot = getelementptr i64, ptr %position_slot, i64 2
  %position = load i64, ptr %position_slot
  %destination = load ptr, ptr %destination_slot
  %offset = load i64, ptr %offset_slot
  %argument_slot = getelementptr ptr, ptr %arguments, i64 %position
  %argument = load ptr, ptr %argument_slot
  %word_slot = getelementptr i8, ptr %argument, i64 DATA_OFFSET
  %word = load i64, ptr %word_slot
  %moved = add i64 %word, %offset
  store i64 %moved, ptr %destination
  %next_index = add i64 %index, 1
  %more = icmp slt i64 %next_index, %patch_count
  br i1 %more, label %patch, label %patched

patched:
  %keep_gil = icmp eq ptr %save, null
  br i1 %keep_gil, label %run, label %run_released

run:
  %short_status = call i64 @jtorch_run_rows(ptr %rows, i64 %row_count)
  br label %ended

run_released:
  %restore = load ptr, ptr %restore_slot
  %thread = call ptr %save()
  %long_status = call i64 @jtorch_run_rows(ptr %rows, i64 %row_count)
  call void %restore(ptr %thread)
  br label %ended

ended:
  %status = phi i64 [ %short_status, %run ], [ %long_status, %run_released ]
  %well = icmp eq i64 %status, 0
  %one = zext i1 %well to i64
  %before = load i64, ptr %ended_slot
  %count = add i64 %before, %one
  store i64 %count, ptr %ended_slot
  %result = call ptr %make_int(i64 %status)
  ret ptr %result
}
"""


class Patch(NamedTuple):
    """Before each run: store argument `argument`'s data address (plus `offset` bytes) or float
    value at `destination`.
    """

    argument: int
    destination: int
    offset: int = 0


class _Native(NamedTuple):
    call: int
    walk: int
    run_rows: Any
    make_int: int
    save_thread: int
    restore_thread: int


@functools.cache
def _native() -> _Native:
    """The machine code and the addresses it needs, made once per process."""
    text = (
        (_IR + workers.text())
        .replace("DATA_OFFSET", str(DATA_OFFSET))
        .replace("CODE_BITS", str(_CODE_BITS))
        .replace("CODE_MASK", str((1 << _CODE_BITS) - 1))
    )
    addresses = cache.get_or_build_ir(text, "executor")
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    return _Native(
        addresses["jtorch_call"],
        addresses["jtorch_walk"],
        prototype(addresses["jtorch_run_rows"]),
        api("PyLong_FromLongLong"),
        api("PyEval_SaveThread"),
        api("PyEval_RestoreThread"),
    )


def walk_kernel() -> int:
    """The address of a kernel that runs several ones, one after the other. Its block has their number, then a
    row of ROW_WORDS for each, as a table has; its status is the code of the one that failed."""
    return _native().walk


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
        native = _native()
        save = native.save_thread if release_gil else 0
        header = [len(places), len(rows), count, native.make_int, save, native.restore_thread, 0]
        self.record = np.concatenate([np.array(header, np.int64), places.ravel(), rows.ravel()]).view(_Record)
        self.record.flags.writeable = False
        self.record.owners = tuple(keepalive)
        known = layout_is_known()
        self.run = make_builtin("run", native.call, self.record) if known else _python_entry(self.record)

    def __call__(self, *arguments: object) -> int:
        return self.run(*arguments)

    @property
    def ended(self) -> int:
        """How many runs ended with status 0."""
        return int(self.record[_ENDED])

    @staticmethod
    def decode(status: int) -> tuple[int, int]:
        """(row, code) of a nonzero status. Raises TypeError for the status of a wrong argument
        count.
        """
        if status == _WRONG_ARGUMENT_COUNT:
            raise TypeError("the executor was called with a number of arguments its table does not take")
        return status >> _CODE_BITS, status & ((1 << _CODE_BITS) - 1)


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
