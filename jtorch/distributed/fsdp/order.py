"""In which order modules are called, and so which parameters are needed next, in forward and in backward."""

from __future__ import annotations

from contextvars import ContextVar

from jtorch.distributed.fsdp.group import ParameterGroup


class Order:
    """The groups under one outermost module, in the order that forward used them: the last time, and now."""

    def __init__(self) -> None:
        self.last: list[ParameterGroup] = []
        self.now: list[ParameterGroup] = []

    def begin(self) -> None:
        """A new forward. What an earlier one left gathered is released: its parts may have changed."""
        for group in self.now:
            if group.releases_after_backward and not group.is_kept:
                group.release()
        self.last, self.now = self.now, []

    def enter(self, group: ParameterGroup) -> None:
        """``group`` is used now."""
        self.now.append(group)
        group.prefetch = self.prefetch_before

    def prefetch_after(self, group: ParameterGroup) -> None:
        """Begin to gather what was used after this group the last time."""
        k = len(self.now)
        if self.last[k - 1 : k] == [group] and k < len(self.last):
            self.last[k].start()

    def prefetch_before(self, group: ParameterGroup) -> None:
        """Begin to gather what the tape has of the group that was used before this one."""
        if group in self.now:
            for other in reversed(self.now[: self.now.index(group)]):
                if other.is_saved:
                    other.start_in_backward()
                    return

    def end(self) -> None:
        """Release what was gathered in advance and not used."""
        for group in self.last:
            if group not in self.now and not group.is_kept:
                group.release()


CURRENT: ContextVar[Order | None] = ContextVar("jtorch_fully_shard_order", default=None)
"""Of the call of an outermost module that is under way."""
