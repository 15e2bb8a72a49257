"""The latest entries of a list from outside, ``losses[-10:]``: what lies before them does not matter.

Each is a read of its own, counted from the end that the list has before the call, so a list that grows from
call to call is no other program. What the function itself has appended is there already while it is recorded,
as each call computes it.
"""

from __future__ import annotations

import types
from typing import Any

from jtorch.compile.observe.guards import ItemRead, LengthRead, ReachRead

_LIMIT = 256  # entries of one slice: each that is a number is an input of its own


def see_latest(observer: Any, frame: types.FrameType, container: Any, key: Any) -> bool:
    """``container[key]`` of a list from outside: whether it is its latest entries that are read, one of them
    only where the function has appended to the list."""
    if type(container) is not list:
        return False
    n, is_slice = _wanted(key)
    appended = observer.effects.appended(container)
    if not n or appended is None or observer.on_the_way_back or not (is_slice or appended):
        return False
    before, wanted = len(container) - appended, n - appended
    if wanted > before and not is_slice:  # an IndexError
        return False
    if wanted > before and appended:  # else it would be recorded at each length
        observer.read_before_growth(ReachRead, frame, container, wanted, False)
        raise observer.error(
            frame,
            f"reads the latest {n} entries of a list from outside to which it has appended, and which has "
            f"fewer than {wanted} before the call",
            "Calls that find as many are recorded.",
        )
    if wanted > before:  # all that there are
        for reach in (before, before + 1):
            observer.read(ReachRead, frame, container, reach, before >= reach)
    for k in range(min(wanted, before), 0, -1):
        observer.see_names(frame, container, -k, before)
        observer.read_before_growth(ItemRead, frame, container, -k, container[-k - appended])
    return True


def see_length(observer: Any, frame: types.FrameType, container: Any) -> Any:
    """``len(container)`` of a list from outside that the function has appended to, None of all else."""
    appended = observer.effects.appended(container)
    if not appended or observer.on_the_way_back:
        return None
    lengths, before = observer.effects.lengths, len(container) - appended
    if id(container) not in lengths:
        observer.read_before_growth(LengthRead, frame, container, None, before)
    return lengths.get(id(container), before) + appended


def _wanted(key: Any) -> tuple[int, bool]:
    """(how many entries from the end on, whether it is a slice of them); 0 of other keys."""
    if type(key) is int:
        return max(-key, 0), False
    if type(key) is not slice or key.stop is not None or key.step is not None or type(key.start) is not int:
        return 0, True
    return (-key.start if -_LIMIT <= key.start < 0 else 0), True
