"""Reading and writing at positions: where they differ from example to example, the batch axis is one more
axis that is indexed, by counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core.op import BY_NAME, Op
from jtorch.eager.batching.rules import rule
from jtorch.eager.batching.values import Pending

_INT = np.dtype(np.int64)
_INDEX_ADD = BY_NAME["index_add"].index


@rule("index")
def _index(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    x, *indices = values
    axes, read = statics["axes"], batching.table_below[op.index]
    if not any(map(batching.has, indices)):
        return batching.wrap(read(x.value, *indices, axes=_further(axes)))
    width = indices[0].ndim
    if not batching.has(x):
        found = read(x, *map(batching.whole, indices), axes=axes)
        return batching.wrap(_moved(batching, found, axes[0], 1, 0))
    first = _moved(batching, x.value, 1 + axes[0], len(axes), 1)
    found = read(first, *_all_places(batching, indices), axes=tuple(range(1 + len(axes))))
    return batching.wrap(_moved(batching, found, 1, width, 1 + axes[0]))


@rule("index_add")
def _index_add(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    if not batching.sums:
        return batching.wrap(_added(batching, values, **statics))
    return Pending(
        batching.axis, values[0].dtype, statics["shape"], lambda: _added(batching, values, **statics),
        lambda: _added_up(batching, values, **statics),
    )  # fmt: skip


def _added(batching: Any, values: tuple, axes: tuple[int, ...], shape: tuple) -> Any:
    g, *indices = values
    add, size = batching.table_below[_INDEX_ADD], batching.axis.size
    if not any(map(batching.has, indices)):
        return add(g.value, *indices, axes=_further(axes), shape=(size, *shape))
    g = _moved(batching, batching.whole(g), 1 + axes[0], indices[0].ndim, 1)
    before, after = shape[: axes[0]], shape[axes[-1] + 1 :]
    turned = (size, *(shape[a] for a in axes), *before, *after)
    places = _all_places(batching, indices)
    found = add(g, *places, axes=tuple(range(1 + len(axes))), shape=turned)
    return _moved(batching, found, 1, len(axes), 1 + axes[0])


def _added_up(batching: Any, values: tuple, axes: tuple[int, ...], shape: tuple) -> Any:
    """The sum over the examples: all of their elements are added to one."""
    g, *indices = values
    add = batching.table_below[_INDEX_ADD]
    if not any(map(batching.has, indices)):
        return add(
            batching.xp_below.sum(g.value, axis=(0,), keepdims=False), *indices, axes=axes, shape=shape
        )
    g = _moved(batching, batching.whole(g), 0, 1, axes[0])
    return add(g, *map(batching.whole, indices), axes=axes, shape=shape)


@rule("index_put", "index_combine")
def _index_put(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    x, value, *indices = values
    axes, write = statics["axes"], batching.table_below[op.index]
    others = {name: fact for name, fact in statics.items() if name != "axes"}
    x, width = batching.whole(x), indices[0].ndim
    target = (*x.shape[1 : 1 + axes[0]], *indices[0].shape, *x.shape[2 + axes[-1] :])
    value = batching.whole(value, target)
    if not any(map(batching.has, indices)):
        return batching.wrap(write(x, value, *indices, axes=_further(axes), **others))
    x = _moved(batching, x, 1 + axes[0], len(axes), 1)
    value = _moved(batching, value, 1 + axes[0], width, 1)
    places = _all_places(batching, indices)
    written = write(x, value, *places, axes=tuple(range(1 + len(axes))), **others)
    return batching.wrap(_moved(batching, written, 1, len(axes), 1 + axes[0]))


def _further(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([a + 1 for a in axes])


def _all_places(batching: Any, indices: list[Any]) -> list[Any]:
    """Which example, and the positions in it."""
    whole = [batching.whole(i) for i in indices]
    return [batching.xp_below.iota(shape=tuple(whole[0].shape), axis=0, dtype=_INT), *whole]


def _moved(batching: Any, value: Any, start: int, count: int, to: int) -> Any:
    """``value`` with the ``count`` axes from ``start`` on moved, so that they begin at ``to``."""
    if start == to or not count:
        return value
    moving = list(range(start, start + count))
    rest = [k for k in range(len(value.shape)) if k not in moving]
    return batching.xp_below.permute(value, axes=(*rest[:to], *moving, *rest[to:]))
