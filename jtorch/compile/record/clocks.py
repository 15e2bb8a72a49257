"""``time.perf_counter()`` in a compiled function: each call reads the clock where the function does.

It is an equation of its own, a library call in the order of such calls. Kernels go where they are needed,
and two that stand on both sides may be one: an interval inside a function is that of what a reading waits
for. What it gives is a number that only a replay knows, as ``.item()`` gives one: it may be subtracted,
compared, printed, returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.record.answers import READINGS
from jtorch.compile.record.items import Item
from jtorch.core.op import Kind, Op


def read_clock(tracer: Any, clock: Callable[[], float]) -> Item:
    """What ``clock()`` gives at each call of what is recorded."""
    tracer.only_now("reads a clock")
    tracer.leave_turn("reads a clock")
    now = np.asarray(clock())
    tracer.readings.append(now)
    (read,) = tracer.emit(_op_of(clock, now.dtype), tracer.branches.checks, {"reading": len(tracer.eqns)})
    tracer.branches.know((read,), [now])
    return Item(tracer, read)


def _op_of(clock: Callable[[], float], dtype: np.dtype) -> Op:
    def body(xp: Any, *before: Any, reading: int) -> np.ndarray:
        known = READINGS.get()
        return known.pop(0) if known else np.asarray(clock())

    return Op(
        Kind.OPAQUE, body, name=clock.__name__, shape=lambda *_, **__: (), dtype=lambda *_: dtype,
        differentiable=False, public=None,
    )  # fmt: skip
