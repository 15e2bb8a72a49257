"""An op without a rule: example by example, its results stacked."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from jtorch.core.op import Op

_log = logging.getLogger("jtorch.vmap")
_told: set[str] = set()


def looped(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """``op`` of each example in turn. The log tells of an op once, a recording counts all of it."""
    size, below = batching.axis.size, batching.table_below[op.index]
    if op.name not in _told:
        _told.add(op.name)
        _log.info("vmap computes %s example by example: there is no rule for a batch of it", op.name)
    batching.below.unrolls(f"{op.name} of each example of vmap", size, "Compute it for fewer examples.")
    select = batching.xp_below.select
    found = []
    for k in range(size):
        picked = [select(v.value, axis=0, index=k) if batching.has(v) else v for v in values]
        found.append(below(*picked, **statics))
    if not found:
        return _of_no_examples(batching, op, values, statics)
    if op.n_outputs == 1:
        return batching.wrap(_stacked(batching, found))
    return tuple([batching.wrap(_stacked(batching, parts)) for parts in zip(*found, strict=True)])


def gradients_looped(batching: Any, node: Any, g: Any) -> tuple:
    """The gradients of a ``node`` that computes with arrays alone: of each example in turn."""
    below, select = batching.below, batching.xp_below.select

    def of_example(part: Any, k: int) -> Any:
        if not batching.has(part):
            return part
        return select(part.value, axis=0, index=k) if batching.axis.size else np.zeros(part.shape, part.dtype)

    found = []
    for k in range(max(batching.axis.size, 1)):
        picked = [of_example(part, k) for part in g] if isinstance(g, list) else of_example(g, k)
        found.append(below.backward(node, batching.xp_below, picked))
    made: list[Any] = []
    for parts in zip(*found, strict=True):
        if parts[0] is None:
            made.append(None)
        elif batching.axis.size:
            made.append(batching.wrap(_stacked(batching, parts)))
        else:
            made.append(batching.wrap(np.zeros((0, *parts[0].shape), parts[0].dtype)))
    return tuple(made)


def _stacked(batching: Any, parts: Any) -> Any:
    xp, as_value = batching.xp_below, batching.below.as_value
    return xp.cat(*[xp.unsqueeze(as_value(part), axes=(0,)) for part in parts], axis=0)


def _of_no_examples(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """Shapes and dtypes without elements: those of an example of ones."""
    like = [np.ones(tuple(v.shape), v.dtype) if batching.has(v) else v for v in values]
    found = batching.table_below[op.index](*like, **statics)
    parts = [np.asarray(part) for part in (found if op.n_outputs > 1 else (found,))]
    made = [batching.wrap(np.zeros((0, *part.shape), part.dtype)) for part in parts]
    return tuple(made) if op.n_outputs > 1 else made[0]
