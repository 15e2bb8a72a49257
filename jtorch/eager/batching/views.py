"""Views of batches: the batch axis stays in front, and sizes and positions of axes get one more entry."""

from __future__ import annotations

from typing import Any

from jtorch.core.op import Op
from jtorch.eager.batching.rules import rule


@rule("permute")
def _permute(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    axes = (0, *[a + 1 for a in statics["axes"]])
    return batching.wrap(batching.table_below[op.index](values[0].value, axes=axes))


@rule("reshape")
def _reshape(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    shape = (batching.axis.size, *statics["shape"])
    return batching.wrap(batching.table_below[op.index](values[0].value, shape=shape))


@rule("expand")
def _expand(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    shape = tuple(statics["shape"])
    x = batching.front(values[0], len(shape))
    return batching.wrap(batching.table_below[op.index](x, shape=(batching.axis.size, *shape)))


def _of_the_batch(batching: Any, start: Any, stop: Any, step: Any) -> dict[str, Any]:
    return {"start": (0, *start), "stop": (batching.axis.size, *stop), "step": (1, *step)}


@rule("slice")
def _slice(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    where = _of_the_batch(batching, **statics)
    return batching.wrap(batching.table_below[op.index](values[0].value, **where))


@rule("slice_put")
def _slice_put(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    where = _of_the_batch(batching, **statics)
    return batching.wrap(batching.table_below[op.index](*map(batching.whole, values), **where))


@rule("pad")
def _pad(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    around = {name: (0, *border) for name, border in statics.items()}
    return batching.wrap(batching.table_below[op.index](values[0].value, **around))


@rule("weave")
def _weave(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    return batching.wrap(batching.table_below[op.index](*map(batching.whole, values), **statics))


@rule("diagonal")
def _diagonal(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    return batching.wrap(batching.table_below[op.index](values[0].value, **_along(**statics)))


@rule("diagonal_put")
def _diagonal_put(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    return batching.wrap(batching.table_below[op.index](*map(batching.whole, values), **_along(**statics)))


def _along(offset: int, axis1: int, axis2: int) -> dict[str, int]:
    return {"offset": offset, "axis1": axis1 + 1, "axis2": axis2 + 1}


@rule("fold")
def _fold(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    shape = (batching.axis.size, *statics["shape"])
    return batching.wrap(batching.table_below[op.index](values[0].value, **statics | {"shape": shape}))


@rule("strided")
def _strided(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """The vectors of all examples one behind the other are a vector, too."""
    (n,), size = values[0].shape, batching.axis.size
    line = batching.xp_below.reshape(values[0].value, shape=(size * n,))
    where = {"size": (size, *statics["size"]), "steps": (n, *statics["steps"]), "start": statics["start"]}
    return batching.wrap(batching.table_below[op.index](line, **where))


@rule("strided_add")
def _strided_add(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    n, size = statics["n"], batching.axis.size
    where = {"n": size * n, "steps": (n, *statics["steps"]), "start": statics["start"]}
    line = batching.table_below[op.index](values[0].value, **where)
    return batching.wrap(batching.xp_below.reshape(line, shape=(size, n)))
