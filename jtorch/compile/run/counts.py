"""How many elements masks name in the calls of one plan: what its sizes rest on beside those of arguments.

A call takes the numbers of the latest one for granted. Where a mask names another number, the plan stops
before it has written anything that the caller can see, and the call begins again with that number; so it is
begun once more at most for each mask.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jtorch.compile.run.caller import MISS
from jtorch.core.environment import LEAST
from jtorch.core.errors import OtherBranch, OtherCount


class Counts:
    """``latest`` has the numbers by the names of their symbols. ``now`` are those of this thread's call."""

    def __init__(self, latest: dict[str, int], counted: Sequence[str]) -> None:
        self.latest, self.counted = latest, counted
        self.missed: dict[str, int] = {}  # those for which there was no instance
        self._here = threading.local()

    @property
    def now(self) -> tuple[int, ...]:
        return getattr(self._here, "counts", tuple(self.latest.values()))

    def followed(self, call: Callable[[tuple], Any]) -> Callable[[tuple], Any]:
        """``call``, begun again until the numbers are right. Raises OtherBranch where it is the plan that
        expects another number."""

        def following(leaves: tuple) -> Any:
            tried = _Tried(self.latest)
            for _ in range(_GUESSES + len(tried.counts)):
                self._here.counts = tuple(tried.counts.values())
                try:
                    result = call(leaves)
                except OtherCount as other:
                    if not tried.learns(self.counted[other.which], other.count):
                        raise
                    continue
                if result is not MISS:
                    self.latest.update(tried.counts)
                elif tried.guesses():
                    continue
                else:
                    self.missed = tried.counts
                return result
            raise OtherBranch

        return following


_GUESSES = 3  # the latest numbers, and what ``_Tried.guesses`` tries


class _Tried:
    """The numbers that a call is tried with. Of masks that come later than one that was told they are not
    known yet, and may for now be such that no plan is for all of them together."""

    def __init__(self, latest: dict[str, int]) -> None:
        self.counts = dict(latest)
        self.told: set[str] = set()
        self.more: list[Callable[[], int]] = [lambda: LEAST, lambda: max(self.counts.values()) + 1]

    def learns(self, name: str, count: int) -> bool:
        """Know what a mask names; masks that named as many as it did will so again, likely (x[m] * y[n]).
        False where it is no number of a call, or was told to be another one."""
        if name not in self.counts or name in self.told:
            return False
        before = self.counts[name]
        self.told.add(name)
        alike = [n for n in self._unsure() if self.counts[n] == before]
        self.counts.update(dict.fromkeys((name, *alike), count))
        return True

    def guesses(self) -> bool:
        """Take other numbers for what is not known yet, all of them different; False where none is left."""
        unsure = list(self._unsure())
        if not self.told or not unsure or not self.more:
            return False
        known = {self.counts[name] for name in self.told}
        free = (n for n in itertools.count(self.more.pop(0)()) if n not in known)
        self.counts.update(zip(unsure, free, strict=False))
        return True

    def _unsure(self) -> Iterator[str]:
        return (name for name in self.counts if name not in self.told)
