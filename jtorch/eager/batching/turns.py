"""``compiler.while_loop`` of a batch: the turns go on while one example goes on, and those that do not keep
what they have.

Python runs the turns. A recording, which cannot see when all examples are done, holds as many as there may
be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core.op import CONTEXT

_INT64 = np.dtype(np.int64)
MOST_RECORDED = 64
"""Turns that a recording holds one by one; of more it tells, and the function runs eagerly."""


def while_loop(batching: Any, turns: Any, bound: int) -> Any:
    """(the last carries, how many turns each example took); None where all examples take the same, which
    Python sees to."""
    from jtorch.eager.batching.boundary import holds
    from jtorch.eager.binding import APPLY
    from jtorch.eager.tensor import wrap

    where, add = APPLY["where"], APPLY["add"]
    carries = [c.contiguous() for c in turns.carries]
    going = turns.goes_on(carries)
    if batching.reads_elements and not batching.has(going._data):
        return None
    if not batching.reads_elements and bound > MOST_RECORDED:
        batching.refuse(
            f"runs a while_loop of up to {bound} turns inside vmap",
            f"Leave it uncompiled, or let it have at most {MOST_RECORDED} (max_steps).",
        )
    safe = _of_one_that_goes(carries, going)
    count = wrap(batching.xp.full(0, shape=(), dtype=_INT64))
    for step in range(bound):
        if step:
            going = APPLY["logical_and"](going, turns.goes_on(carries))
        if batching.reads_elements and holds(APPLY["logical_not"](going)):
            break
        # those that are done go through a turn, too, from where one is known to be taken: a gradient of 0
        # times the slope of a pole would be NaN
        given = [where(going, c, s) for c, s in zip(carries, safe, strict=True)]
        new = turns.turn([c.contiguous() for c in given])
        carries = [where(going, n, c) for n, c in zip(new, carries, strict=True)]
        count = add(count, APPLY["cast"](going, dtype=_INT64))
    return [APPLY["clone"](c) for c in carries], count


def _of_one_that_goes(carries: list[Any], going: Any) -> list[Any]:
    """For each example the carries at the beginning of the first one that takes a turn, off the tape."""
    from jtorch.eager.tensor import wrap

    batching: Any = CONTEXT.get().evaluator
    if not batching.has(going._data):
        return [c.detach() for c in carries]
    xp = batching.xp_below
    first = xp.argmax(xp.cast(going._data.value, dtype=_INT64), axis=(0,), keepdims=True)
    found = []
    for carry in carries:
        value = carry._data
        if batching.has(value):
            value = xp.squeeze(xp.index(value.value, batching.below.as_value(first), axes=(0,)), axes=(0,))
        found.append(wrap(value))
    return found
