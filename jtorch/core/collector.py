"""Python's collector of cycles, asked for less often where nearly all that is made is kept.

It looks through young objects whenever some hundreds more were made than went, and now and then through all
that there are: a quarter of planning a graph of 16,000 equations, and 40 ms of 370 of recording 1,400. What
is kept goes among the old ones unseen: looking through it once was a sixth of recording 16,000.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 1_000_000  # objects; what a user's function leaves in cycles meanwhile is no more than of these

_lock = threading.RLock()  # a finalizer may come in between
_inside = 0  # threads, and calls in each
_before: tuple[int, ...] = ()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Objects are looked through every ``_SELDOM`` that are made, if the program has it happen at all; as
    before when the last of several threads leaves, unless the program has set another number since.

    Those that are young before are looked through first: they may be large, and what is young at the end
    waits for the next time that all are looked through.
    """
    global _inside, _before
    with _lock:
        if not _inside:
            _before = gc.get_threshold()
            if 0 < _before[0] < _SELDOM:
                if gc.isenabled():
                    gc.collect(1)
                gc.set_threshold(_SELDOM, *_before[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and gc.get_threshold()[0] == _SELDOM:
                if not gc.get_freeze_count():  # else the program's own would thaw, too
                    gc.freeze()
                    gc.unfreeze()  # into the oldest
                gc.set_threshold(*_before)
