"""The loops of the backward pass that every op pays for: see ``eager/engine.py``.

They are written in the part of Python that ``native/subset`` turns into machine code, from this very text:
see ``eager/machine``. Without it they run as they stand.

What is known of a node or leaf during one pass is its *slot*, a plain list (half the cost of an object, on
a path that every op takes): how many edges still lead to it, the gradient so far, the node or leaf, the
(shape, dtype) of its output or a list of them, whether this pass made the gradient's memory itself, and
whether it is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import (
    add as add_in_place,  # with the third argument as its output
    dtype,
    float16,
    ndarray,
)

from jtorch.core.device_array import DeviceArray
from jtorch.core.dtypes import BFLOAT16
from jtorch.core.narrow import narrowed
from jtorch.core.op import BY_NAME
from jtorch.eager.evaluate import EAGER
from jtorch.eager.node import GRADIENTS, Node

LEFT, GRAD, TARGET, META, OWNED, LEAF = range(6)  # the places of a slot


FLOAT16 = dtype(float16)
_ADD = narrowed()[BY_NAME["add"]].index


def sum_of_16_bits(x: ndarray, y: ndarray) -> Any:
    """``x + y`` of one dtype of 16 bits."""
    return EAGER.on_host[_ADD](x, y)


def slot_of(target: Any, left: int) -> list:
    """The slot of a node or leaf to which ``left`` edges lead."""
    if isinstance(target, Node):
        return [left, None, target, target.metadata, False, False]
    return [left, None, target, (target._data.shape, target._data.dtype), False, True]


def count_edges(slots: dict[Any, list], stack: list) -> None:
    """Give everything below the nodes on ``stack`` its slot, with the number of edges that lead to it."""
    while stack:
        node = stack.pop()
        for edge in node.edges:
            if edge is None:
                continue
            target = edge[0]
            slot = slots.get(target)
            if slot is not None:
                slot[LEFT] += 1
            elif isinstance(target, Node):
                slots[target] = [1, None, target, target.metadata, False, False]
                stack.append(target)
            else:
                slots[target] = slot_of(target, 1)


def propagate(ready: list, slots: dict[Any, list], xp: Any, keep: bool, take: Callable) -> list | None:
    """Visit slots until none is ready (None), or one is unusual, which is given back: a leaf, a node with
    hooks or of several outputs, one that no gradient reached, one whose gradient is not an op's, or lies on a
    device.
    """
    while ready:
        slot = ready.pop()
        g = slot[GRAD]
        if slot[LEAF] or g is None or g.__class__ is list or g.__class__ is DeviceArray:
            return slot
        node: Node = slot[TARGET]
        if node.extras is not None:
            return slot
        entry = GRADIENTS.get(node.__class__)
        if entry is None:
            return slot
        slot[GRAD] = None
        grads = entry[0](node, xp, g)
        g = None
        if entry[1] and not keep:
            node.saved = None
            node.versions = ()
        if grads.__class__ is not tuple:
            grads = (grads,)
        hand_on(node.edges, grads, ready, slots, take)
        grads = None  # the memory is needed
    return None


def add_to(slot: list, part: Any) -> None:
    """Add to the gradient of ``slot``: in place only where this pass made that memory.

    What is no array adds itself: rows of a table, or the gradients of all examples of a batch, for which one
    array has no room.
    """
    before = slot[GRAD]
    arrays = before.__class__ is ndarray and part.__class__ is ndarray
    if arrays and (part.dtype is FLOAT16 or part.dtype is BFLOAT16):  # NumPy adds them one by one
        slot[GRAD] = sum_of_16_bits(before, part)
        slot[OWNED] = slot[GRAD].__class__ is ndarray
    elif arrays and slot[OWNED]:
        add_in_place(before, part, before)
    else:
        total = before + part
        slot[GRAD] = total
        slot[OWNED] = total.__class__ is ndarray


def hand_on(edges: tuple, grads: tuple, ready: list, slots: dict[Any, list], take: Callable) -> None:
    """Give the gradients of a node's inputs to where its edges lead; what all have reached is ready."""
    for edge, part in zip(edges, grads):  # noqa: B905 - a vjp gives one value per edge
        if edge is None:
            continue
        target = slots.get(edge[0])
        if target is None:  # leads to nothing that is wanted
            continue
        if part is not None:
            meta = target[META]
            if (part.shape, part.dtype) != meta:  # a list of them is never equal
                take(target, edge[1], part)
            elif target[GRAD] is None:
                target[GRAD] = part
            else:
                add_to(target, part)
        left = target[LEFT] - 1
        target[LEFT] = left
        if left == 0:
            ready.append(target)
