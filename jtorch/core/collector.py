"""Python's collector of cycles, asked for less often where nearly all that is made is kept.

It looks through young objects whenever some hundreds more were made than went, and now and then through all
that there are: a quarter of planning a graph of 16,000 equations, and 40 ms of 370 of recording 1,400. Where
much is kept it goes among the old ones unseen: looking through it once was a sixth of recording 16,000.

Python looks through all once it has moved a quarter as many again among the old ones. It does not count what
goes there unseen, so that is counted here: else a program that compiles one model after the other, each of
which holds itself, would keep them all. What is little stays young, to go soon and at little cost.
"""

from __future__ import annotations

import gc
import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 1_000_000  # objects; what a user's function leaves in cycles meanwhile is no more than of these
_MANY = 20_000  # objects, as 400 equations make; below, to look through them is some hundredths of the time
_MORE = 100_000  # objects, before which all are not looked through for them: some tens of milliseconds

_lock = threading.RLock()  # a finalizer may come in between
_inside = 0  # threads, and calls in each
_before: tuple[int, ...] = ()
_unseen = 0  # objects that went among the old ones since all were looked through, at most
_all = 0  # objects that were left then; 0: not known
_times = 0  # how often all were looked through


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Objects are looked through every ``_SELDOM`` that are made, if the program has it happen at all; as
    before when the last of several threads leaves, unless the program has set another number since.

    Those that are young before are looked through first: they may be large, and what is young at the end
    waits, where it is much, for the next time that all are looked through.
    """
    global _inside, _before
    if not _inside and gc.isenabled() and 0 < gc.get_threshold()[0] < _SELDOM:
        _look_through()  # without the lock: a finalizer may wait for another thread
    with _lock:
        if not _inside:
            _before = gc.get_threshold()
            if 0 < _before[0] < _SELDOM:
                gc.set_threshold(_SELDOM, *_before[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and gc.get_threshold()[0] == _SELDOM:
                if gc.isenabled() and gc.get_count()[0] >= _MANY:
                    _put_among_the_old()
                gc.set_threshold(*_before)


def _look_through() -> None:
    """The young objects, or all where many more are there."""
    global _unseen, _all
    _forget_if_seen()
    _unseen += gc.get_count()[0]  # Python asks itself for all only while some are made outside of recordings
    if not _are_many_more():
        gc.collect(1)
        return
    gc.collect()
    _forget_if_seen()
    _all = len(gc.get_objects())


def _are_many_more() -> bool:
    """Whether a quarter as many again went among the old ones, and stayed, since all were looked through."""
    global _unseen, _all
    if _unseen <= max(_MORE, _all // 4):
        return False
    there = len(gc.get_objects())
    _all = _all or max(there - _unseen, 0)
    _unseen = there - _all
    return _unseen > max(_MORE, _all // 4)


def _put_among_the_old() -> None:
    """All objects, unseen."""
    global _unseen
    if gc.get_freeze_count():  # the program's own would thaw, too
        return
    _forget_if_seen()
    _unseen += gc.get_count()[0]
    # from C, so that nothing comes in between: no signal that would leave all frozen, nor a thread that asks
    # who holds a tensor, which is not told of what is frozen
    list(map(operator.call, (gc.freeze, gc.unfreeze)))


def _forget_if_seen() -> None:
    """Begin to count anew where all were looked through since it was asked."""
    global _unseen, _all, _times
    times = gc.get_stats()[2]["collections"]
    if times != _times:
        _unseen, _all, _times = 0, 0, times
