"""New values: filled, counted and drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core.op import Op


def _filled(batching: Any, op: Op) -> Callable:
    """A number for each example."""
    below, xp = batching.table_below[op.index], batching.xp_below

    def full(value: Any, *, shape: Any, dtype: Any) -> Any:
        if not batching.has(value):
            return below(value, shape=tuple(shape), dtype=dtype)
        cast = xp.cast(batching.front(value, len(shape)), dtype=dtype)
        return batching.wrap(xp.clone(xp.expand(cast, shape=(batching.axis.size, *shape))))

    return full


def _counted(batching: Any, op: Op) -> Callable:
    """Counting is the same for all."""
    below = batching.table_below[op.index]
    return lambda *values, **statics: below(*values, **statics | {"shape": tuple(statics["shape"])})


def _drawn(batching: Any, op: Op) -> Callable:
    """Where draws differ, one for the whole batch; other calls are of draws before it, which all share."""
    below = batching.table_below[op.index]

    def random_bits(seed: Any, call: Any, *, shape: Any, dtype: Any) -> Any:
        shape = tuple(shape)
        for known in batching.axis.drawn:
            if _same(known[0], seed) and _same(known[1], call):
                drawn = below(seed, call, shape=(batching.axis.size, *shape), dtype=dtype)
                return batching.wrap(drawn)
        return below(seed, call, shape=shape, dtype=dtype)

    return random_bits


def _same(a: Any, b: Any) -> bool:
    return a is b or (a.__class__ is int is b.__class__ and a == b)


TABLE_RULES: dict[str, Callable] = {"full": _filled, "iota": _counted, "random_bits": _drawn}
"""What makes the function of an op whose inputs alone do not say whether it is batched."""
