"""Reductions and searches whose axes are not simply one further."""

from __future__ import annotations

import math
from typing import Any

from jtorch.core.op import Op
from jtorch.eager.batching.loop import looped
from jtorch.eager.batching.rules import is_batched_alone, rule


@rule("argmax", "argmin")
def _extreme_place(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """Over all axes it is the place in the flattened example."""
    (x,), axis, keepdims = values, statics["axis"], statics["keepdims"]
    find, xp = batching.table_below[op.index], batching.xp_below
    if len(axis) == 1:
        return batching.wrap(find(x.value, axis=(axis[0] + 1,), keepdims=keepdims))
    size = batching.axis.size
    lines = xp.reshape(x.value, shape=(size, math.prod(x.shape)))
    found = find(lines, axis=(1,), keepdims=False)
    return batching.wrap(xp.reshape(found, shape=(size, *(1,) * x.ndim)) if keepdims else found)


@rule("searchsorted")
def _searchsorted(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    sequence, wanted = values
    find, xp, size = batching.table_below[op.index], batching.xp_below, batching.axis.size
    if sequence.ndim == 1 and not batching.has(sequence):
        return batching.wrap(find(sequence, wanted.value, **statics))
    if sequence.ndim > 1:
        return batching.wrap(find(*map(batching.whole, values), **statics))
    lines = xp.reshape(batching.whole(wanted), shape=(size, math.prod(wanted.shape)))
    found = find(batching.whole(sequence), lines, **statics)
    return batching.wrap(xp.reshape(found, shape=(size, *wanted.shape)))


@rule("isin")
def _isin(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    if not is_batched_alone(batching, values):
        return looped(batching, op, values, statics)
    return batching.wrap(batching.table_below[op.index](values[0].value, values[1]))
