"""How far two cores are from each other: how long a word that one writes takes to the other.

In a virtual machine that changes: 50 ns between cores that share a cache, 250 where the host has moved one of
them. Steps that threads share then take half as long again, and no change of jtorch can be the cause.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable

from benchmarks.timing import Timing
from jtorch.core import threads
from jtorch.native import loader

_TRIPS, _SAMPLES = 300, 5  # few: a thread that has no core keeps the other waiting for milliseconds

# One of two players: waits until the word is `first`, makes it one more, waits for two more than that.
_TEXT = """
define i64 @play(ptr %word, i64 %first, i64 %end) {
entry:
  br label %wait
wait:
  %turn = phi i64 [ %first, %entry ], [ %turn, %wait ], [ %next_turn, %answer ]
  %seen = load atomic i64, ptr %word seq_cst, align 8
  %mine = icmp eq i64 %seen, %turn
  br i1 %mine, label %answer, label %wait
answer:
  %next = add i64 %turn, 1
  store atomic i64 %next, ptr %word seq_cst, align 8
  %next_turn = add i64 %turn, 2
  %more = icmp slt i64 %next_turn, %end
  br i1 %more, label %wait, label %end_of_game
end_of_game:
  ret i64 0
}
"""


def distance() -> Timing | None:
    """Seconds that a word takes from one thread of this process to another; None where it has one."""
    if threads.at_first() < 2:
        return None
    return Timing(tuple(_trip() for _ in range(_SAMPLES)), 2 * _TRIPS)


def _trip() -> float:
    word = (ctypes.c_int64 * 16)()  # a cache line of its own, and its neighbour
    play, end = _play(), 2 * _TRIPS
    there = threading.Thread(target=play, args=(ctypes.addressof(word), 1, end))
    there.start()
    play(ctypes.addressof(word), 0, 2)  # the other thread runs by now
    start = time.perf_counter()
    play(ctypes.addressof(word), 2, end)
    took = time.perf_counter() - start
    there.join()
    return took / (end - 2)


@functools.cache
def _play() -> Callable[[int, int, int], int]:
    address = loader.load(loader.compile_ir(_TEXT), "play")
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
