"""Threads of our own that run the pieces of a kernel beside the thread that calls it.

One pool per process. A *round* is one kernel over a number of argument blocks that lie side by side: its
pieces, which may run in any order. Whoever is free takes the next one, the calling thread too; it waits
only for pieces that somebody has begun. How often a worker comes too late changes nothing: pieces are the
same for any number of threads, and so is every bit they compute.

    post:   write the round, open it (`claim` = round number, 0, 0), raise `round`, wake who sleeps
    take:   read the round, then swap (round, front, back) for one with a piece more taken from the front (the
            caller) or from the back (workers): who succeeds runs the piece
    end:    the caller waits until `done` is the number of pieces

Rounds over the same arrays, one after the other, so find most of each in the cache of the core that wrote
it. `claim` has 32 bits for the round and 16 each for front and back: more pieces run on one thread.

A worker that read half of another round fails to swap, as `claim` has its number in it, and is closed
while the next round is written. A worker spins for some microseconds after a round, as the next row of a
plan comes soon, then sleeps in a futex: waking it takes 5 to 17 us. The threads are made by the first round
that wants them (also after a fork, where the child has none), take no signals, and end with the process.

Where cores are busy with other programs a worker may lose its core in the middle of a piece, for
milliseconds. So there is a balance of what workers save the caller and what it waits for them, of the last
sixteen rounds or so; where they cost more than 0.1 ms, rounds on one thread follow: 16 at first, twice as
many each time. A worker that wakes late now and then, as those of virtual machines do, keeps nobody from the
next round: on 16 cores a product of 1024 x 1024 x 1024 took 18 ms where it did, and 4.4 where none did.

Linux on x86-64 and aarch64. Elsewhere `pool()` is 0 and pieces run one after the other.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys

import numpy as np

from jtorch.core import threads
from jtorch.native import llvm_files
from jtorch.native.immortal import live_forever

MOST = 255
"""Workers of a pool."""

_SPINS = 4_000  # pauses before a worker sleeps: 40 ns each on Xeons of today
_WORKER_WORDS = 4  # for each: the pool, its number from 1 on, the round that was last when it was made

# Words of the pool, those that different threads write in cache lines of their own.
_PLACES = {
    "ROUND": 0, "SLEEPERS": 8, "CLAIM": 16, "DONE": 24, "STATUS": 25,
    "KERNEL": 32, "BLOCK": 33, "COUNT": 34, "STRIDE": 35, "FLOATS": 36,
    "BUSY": 40, "STARTED": 41, "SKIPPED": 42, "PENALTY": 43, "ALLOWED": 44, "BALANCE": 45,
    "CELL": 48, "SYSCALL": 49, "CREATE": 50, "DETACH": 51, "MASK": 52, "YIELD": 53, "CLOCK": 54,
    "SIGNALS": 56,
    "WORKERS": 72,
}  # fmt: skip
_WORDS = _PLACES["WORKERS"] + _WORKER_WORDS * (MOST + 1)

# machine -> futex's system call, what loops that wait call
_MACHINES = {"x86_64": (202, "@llvm.x86.sse2.pause()"), "aarch64": (98, "@llvm.aarch64.hint(i32 1)")}


def text() -> str:
    """LLVM text of `jtorch_parallel(pool, kernel, block, count, stride)`, for code that has rounds to run."""
    if not _is_known():
        return llvm_files.read("no_pool")
    machine = platform.machine()
    futex, pause = _MACHINES[machine]
    gaps = {
        **_PLACES, "WORKER_WORDS": _WORKER_WORDS, "MOST": MOST, "SPINS": _SPINS, "FUTEX": futex,
        "PAUSE": pause, "DECLARED": pause.replace("i32 1", "i32"),
        "MODE_FUNCTIONS": llvm_files.read(f"mode_{machine}"),
    }  # fmt: skip
    return llvm_files.read("pool", gaps)


def _is_known() -> bool:
    return sys.platform == "linux" and platform.machine() in _MACHINES


def pool() -> int:
    """The address of this process's pool, for rows of an executor; 0 where there is none."""
    return _ADDRESS


def _record() -> np.ndarray:
    memory = live_forever(np.zeros(_WORDS + 8, np.int64))
    start = -memory.__array_interface__["data"][0] % 64 // 8
    record = memory[start : start + _WORDS]
    libc = ctypes.CDLL(None)
    threads.count()  # the cell holds it from now on
    record[_PLACES["CELL"]] = ctypes.addressof(live_forever(threads.count_cell))
    functions = {
        "SYSCALL": "syscall", "CREATE": "pthread_create", "DETACH": "pthread_detach",
        "MASK": "pthread_sigmask", "YIELD": "sched_yield", "CLOCK": "clock_gettime",
    }  # fmt: skip
    for place, name in functions.items():
        record[_PLACES[place]] = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0
    record[_PLACES["SIGNALS"] : _PLACES["SIGNALS"] + 16] = -1
    for own in (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV):
        record[_PLACES["SIGNALS"]] &= ~(1 << (own - 1))  # what a piece itself raises: faulthandler's
    return record


_POOL = _record() if _is_known() else None  # with this module: two threads that ask first get one
_ADDRESS: int = 0 if _POOL is None else _POOL.__array_interface__["data"][0]


def _forget() -> None:
    """The threads of a parent do not exist in the child of a fork."""
    if _POOL is not None:
        for name in ("SLEEPERS", "BUSY", "STARTED", "SKIPPED", "PENALTY", "BALANCE"):
            _POOL[_PLACES[name]] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
