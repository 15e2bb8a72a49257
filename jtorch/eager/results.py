"""How what an op computed becomes a Tensor: on the tape, with the node that made it, or off it.

These two functions are a large part of what an op costs in Python, so they fill the slots themselves instead
of calling ``Node`` and ``wrap``.
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor

_new: Any = object.__new__


def on_tape(node_class: type, out: Any, cell: list, edges: tuple, saved: tuple, versions: tuple) -> Tensor:
    """A Tensor of the raw value ``out``, which a new node made; ``cell`` is its version cell."""
    node: Node = _new(node_class)
    node.edges, node.saved, node.versions = edges, saved, versions
    node.metadata = (out.shape, out.dtype)
    node.extras = None
    tensor: Tensor = off_tape(out, cell)
    tensor._node, tensor._requires_grad = node, True
    return tensor


def off_tape(out: Any, cell: list) -> Tensor:
    """A Tensor of the raw value ``out`` that requires no grad."""
    tensor: Tensor = _new(Tensor)
    tensor._data, tensor._cell = out, cell
    tensor._base = tensor._grad = tensor._hooks = tensor._node = None
    tensor._index, tensor._requires_grad = 0, False
    return tensor
