"""What an op does with a batch: by its kind, by what the table says of it, or by a rule of its own.

A rule is ``rule(batching, op, values, statics)``: at least one of ``values`` has the axis of ``batching``,
and so has all that it gives. ``@rule("name")`` declares the one of a single op; ``rule_of`` finds it, or the
one of the op's kind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jtorch.core.op import BY_NAME, Kind, Op
from jtorch.eager.batching.loop import looped
from jtorch.eager.batching.values import Batched

Rule = Callable[[Any, Op, tuple, dict[str, Any]], Any]
RULES: dict[str, Rule] = {}  # by the name of the op


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the rule of the ops of these names."""

    def decorator(function: Rule) -> Rule:
        for name in names:
            assert BY_NAME[name].name not in RULES, name
            RULES[name] = function
        return function

    return decorator


@functools.cache
def rule_of(op: Op) -> Rule:
    """How ``op`` is computed on a batch."""
    found = RULES.get(op.renames or op.name)
    if found is not None:
        return found
    if op.kind is Kind.ELEMENTWISE:
        return pointwise
    if op.axes:
        return with_moved_axes
    if op.leads:
        return with_axes_in_front
    if op.kind is Kind.CONTRACTION:
        return RULES["matmul"]
    return composed if op.kind is Kind.COMPOSITE else looped


# -- by kind -------------------------------------------------------------------------------------------------


def pointwise(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """One element from one of each input: examples broadcast as ever, behind the batch axis."""
    ndim = 0
    for v in values:
        n = getattr(v, "ndim", 0)
        if n > ndim:
            ndim = n
    front = batching.front
    return batching.wrapped(op, batching.table_below[op.index](*[front(v, ndim) for v in values], **statics))


def with_moved_axes(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """Axes are counted from the first: each is one further. Inputs that are none of the batch's get its axis,
    so that all have as many."""
    moved = {name: _further(value) if name in op.axes else value for name, value in statics.items()}
    whole = [v.value if batching.has(v) else v if v is None else batching.whole(v) for v in values]
    return batching.wrapped(op, batching.table_below[op.index](*whole, **moved))


def _further(axis: Any) -> Any:
    return tuple([a + 1 for a in axis]) if axis.__class__ is tuple else axis + 1


def with_axes_in_front(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """The op is about the last axes, and takes any others in front of them."""
    if len(values) > 1:
        given = [v for v in values if v is not None]
        ndim = given[0].ndim
        fits = all(v.ndim == ndim and v.shape[: ndim - 2] == given[0].shape[: ndim - 2] for v in given)
        if not fits:  # one matrix may stand for all, which the op sees to
            return looped(batching, op, values, statics)
        values = tuple([v if v is None else batching.whole(v) for v in values])
        return batching.wrapped(op, batching.table_below[op.index](*values, **statics))
    return batching.wrapped(op, batching.table_below[op.index](values[0].value, **statics))


def composed(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """A composite's body over batches. Outputs that no batch took part in get the axis, too: what hangs on a
    node of the tape is of each example, or none of it is."""
    found = op.body(batching.xp, *values, **statics)
    if op.n_outputs == 1:
        return _of_each(batching, found)
    return tuple([_of_each(batching, part) for part in found])


def _of_each(batching: Any, value: Any) -> Any:
    if batching.has(value):
        return value
    return batching.wrap(batching.xp_below.clone(batching.whole(batching.below.as_value(value))))


def is_batched_alone(batching: Any, values: tuple) -> bool:
    """Whether the first value is the only one of the batch."""
    return batching.has(values[0]) and not any(map(batching.has, values[1:]))


__all__ = ["RULES", "Batched", "composed", "is_batched_alone", "pointwise", "rule", "rule_of"]
