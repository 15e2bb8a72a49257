"""Convolution and its kin: examples of a batch of images are more images.

What is computed of each image by itself is computed of all examples' images as one batch. Where each example
has weights of its own they are groups: the channels of all examples stand behind each other.
"""

from __future__ import annotations

from typing import Any

from jtorch.core.op import Op
from jtorch.eager.batching.rules import composed, is_batched_alone, rule


@rule("max_pool", "avg_pool", "group_norm")
def _of_images(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    if not is_batched_alone(batching, values):
        return composed(batching, op, values, statics)
    return _merged(batching, op, values, statics)


def _merged(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """The op of all images of the first value, whose first axis is theirs."""
    x, xp = values[0], batching.xp_below
    size, (n, *rest) = batching.axis.size, x.shape
    images = xp.reshape(x.value, shape=(size * n, *rest))
    found = batching.table_below[op.index](images, *values[1:], **statics)
    parts = found if op.n_outputs > 1 else (found,)
    apart = [batching.wrap(xp.reshape(p, shape=(size, n, *p.shape[1:]))) for p in parts]
    return tuple(apart) if op.n_outputs > 1 else apart[0]


@rule("convolution", "convolution_input")
def _convolution(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    x, weight, bias = values
    if not batching.has(weight) and not batching.has(bias):
        return _merged(batching, op, values, statics)
    if not batching.has(weight):  # a bias of each example alone
        out = batching.table[op.index](x, weight, None, **statics)
    else:
        out = _by_groups(batching, op, x, weight, statics)
    if bias is None:
        return out
    shape = (out.shape[1], *(1,) * (len(out.shape) - 2))
    return batching.xp.add(out, batching.xp.reshape(bias, shape=shape))


def _by_groups(batching: Any, op: Op, x: Any, weight: Any, statics: dict[str, Any]) -> Any:
    """(N, examples x C, ...) and (examples x O, C, ...): as many groups for each example as it has itself."""
    xp, size = batching.xp_below, batching.axis.size
    n, channels = x.shape[:2]
    images = batching.whole(x)
    images = xp.permute(images, axes=(1, 0, *range(2, len(images.shape))))
    images = xp.reshape(images, shape=(n, size * channels, *x.shape[2:]))
    weights = xp.reshape(weight.value, shape=(size * weight.shape[0], *weight.shape[1:]))
    groups = {"groups": size * statics["groups"]}
    out = batching.table_below[op.index](images, weights, None, **statics | groups)
    out = xp.reshape(out, shape=(n, size, out.shape[1] // size, *out.shape[2:]))
    return batching.wrap(xp.permute(out, axes=(1, 0, *range(2, len(out.shape)))))


@rule("layer_norm", "rms_norm")
def _of_rows(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """Of each row by itself: more rows, where all have one scale."""
    if not is_batched_alone(batching, values):
        return composed(batching, op, values, statics)
    axes = tuple([a + 1 for a in statics["axes"]])
    found = batching.table_below[op.index](values[0].value, *values[1:], **statics | {"axes": axes})
    return batching.wrap(found)
