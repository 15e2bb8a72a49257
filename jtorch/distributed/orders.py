"""The debug mode ``DETAIL``: before each collective all processes compare what they ask for.

Costs one more collective of some hundred bytes each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.distributed.errors import DistBackendError

if TYPE_CHECKING:
    from jtorch.distributed.group import ProcessGroup
    from jtorch.distributed.work import Work

_WIDTH = 200  # bytes of an order's text; its hash stands before it


def check(group: ProcessGroup, work: Work) -> None:
    """Raise DistBackendError in all processes where one of them asks for something else than the others."""
    text = f"{work.order} #{work.number}"
    mine = np.zeros(_WIDTH + 8, np.uint8)
    mine[:8] = np.array([work.digest], np.uint64).view(np.uint8)
    encoded = text.encode()[:_WIDTH]
    mine[8 : 8 + len(encoded)] = np.frombuffer(encoded, np.uint8)
    rows = np.empty((group.size(), _WIDTH + 8), np.uint8)
    group.quietly(work, _exchanged(group, mine, rows))
    keys = [row.tobytes() for row in rows]
    if len(set(keys)) == 1:
        return
    usual, _ = Counter(keys).most_common(1)[0]
    texts = [key[8:].rstrip(b"\0").decode(errors="replace") for key in keys]
    odd = [rank for rank, key in enumerate(keys) if key != usual]
    group.broken = (
        f"{work.told()}: the processes ask for different collectives: "
        + ", ".join(f"rank {rank}: {told}" for rank, told in enumerate(texts))
        + f". Rank {', '.join(map(str, odd))} differs. All must ask for the same, in the same order."
    )
    raise DistBackendError(group.broken)


def _exchanged(group: ProcessGroup, mine: np.ndarray, rows: np.ndarray) -> Iterator[Any]:
    yield group.control.Iallgather(mine, rows)
