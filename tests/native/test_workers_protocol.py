"""The protocol of ``native/workers.py`` as a model, and every order in which its threads can take turns.

Each atomic access of the machine code is one step of a thread. The caller posts two rounds, the second with
other pieces; two workers look for work at any time, also while a round is written. In no order does a piece
run twice, with what belongs to another round, or not at all when the caller goes on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

PIECES = (2, 3)  # of the two rounds; the kernel of a round is its number
CLOSED = 99


class Claim(NamedTuple):
    """The round, and how many of its pieces were taken from the front and from the back."""

    round: int = 0
    front: int = CLOSED
    back: int = CLOSED


class Shared(NamedTuple):
    claim: Claim = Claim()
    round: int = 0
    kernel: int = 0
    count: int = 0
    done: int = 0
    ran: tuple[tuple[int, int], ...] = ()  # (kernel, piece), sorted


class Taker(NamedTuple):
    """One that takes pieces: where it is, and what it has read."""

    at: str = "idle"
    round: int = 0
    old: Claim = Claim()
    count: int = 0
    kernel: int = 0
    from_front: bool = False

    @property
    def piece(self) -> int:
        return self.old.front if self.from_front else self.count - 1 - self.old.back

    @property
    def swapped(self) -> Claim:
        front = self.old.front + self.from_front
        return Claim(self.old.round, front, self.old.back + (not self.from_front))


def _take(shared: Shared, me: Taker) -> tuple[Shared, Taker] | None:
    """One step of `jtorch_take`; at "end" there is none."""
    if me.at == "look":
        old = shared.claim
        return shared, me._replace(old=old, at="count" if old.round == me.round else "end")
    if me.at == "count":
        left = me.old.front + me.old.back < shared.count
        return shared, me._replace(count=shared.count, at="kernel" if left else "end")
    if me.at == "kernel":
        return shared, me._replace(kernel=shared.kernel, at="swap")
    if me.at == "swap":
        if shared.claim != me.old:
            return shared, me._replace(at="look")
        return shared._replace(claim=me.swapped), me._replace(at="run")
    if me.at == "run":
        ran = tuple(sorted((*shared.ran, (me.kernel, me.piece))))
        return shared._replace(ran=ran), me._replace(at="done")
    if me.at == "done":
        return shared._replace(done=shared.done + 1), me._replace(at="look")
    return None


def _worker(shared: Shared, me: Taker) -> tuple[Shared, Taker] | None:
    if me.at in ("idle", "end"):
        return (shared, me._replace(round=shared.round, at="look")) if shared.round != me.round else None
    return _take(shared, me)


class Caller(NamedTuple):
    at: int = 0  # which of _POST is next, then the pieces
    posted: int = 0  # rounds
    taker: Taker = Taker("look", from_front=True)


_POST = ("closed", "kernel", "count", "done", "open", "round")


def _caller(shared: Shared, me: Caller) -> tuple[Shared, Caller] | None:
    if me.posted == len(PIECES):
        return None
    new, pieces = me.posted + 1, PIECES[me.posted]
    if me.at < len(_POST):
        changes: dict[str, Any] = {
            "closed": {"claim": Claim(new)}, "kernel": {"kernel": new}, "count": {"count": pieces},
            "done": {"done": 0}, "open": {"claim": Claim(new, 0, 0)}, "round": {"round": new},
        }  # fmt: skip
        return shared._replace(**changes[_POST[me.at]]), me._replace(
            at=me.at + 1, taker=Taker("look", new, from_front=True)
        )
    step = _take(shared, me.taker)
    if step is not None:
        return step[0], me._replace(taker=step[1])
    if shared.done != pieces:
        return None  # waits
    expected = [(r + 1, p) for r in range(new) for p in range(PIECES[r])]
    assert list(shared.ran) == sorted(expected), shared
    return shared, Caller(posted=new)


@pytest.mark.slow
def test_every_order_of_steps_runs_each_piece_once():
    first = (Shared(), Caller(), Taker(), Taker())
    seen, waiting = {first}, [first]
    ended = 0
    while waiting:
        shared, caller, *workers = waiting.pop()
        following = []
        step = _caller(shared, caller)
        if step is not None:
            following.append((step[0], step[1], *workers))
        for k, worker in enumerate(workers):
            moved = _worker(shared, worker)
            if moved is not None:
                others = [moved[1] if j == k else w for j, w in enumerate(workers)]
                following.append((moved[0], caller, *sorted(others)))  # the two are alike
        assert following or caller.posted == len(PIECES), "nobody can go on"
        ended += not following
        for state in following:
            if state not in seen:
                seen.add(state)
                waiting.append(state)
    assert ended and len(seen) > 10_000
