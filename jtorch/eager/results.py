"""How what an op computed becomes a Tensor: on the tape, with the node that made it, or off it.

These functions are a large part of what an op costs in Python, so they fill the slots themselves instead of
calling ``Node`` and ``wrap``.
"""

from __future__ import annotations

from typing import Any
from weakref import ref as weak_reference

import numpy as np

from jtorch.core.op import Context
from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor
from jtorch.eager.unusual import WATCHERS, look_at
from jtorch.eager.views import UNLISTED, forget_dead as forget_dead_views

_new: Any = object.__new__


def on_tape(node_class: type, out: Any, cell: list, edges: tuple, saved: tuple, versions: tuple) -> Tensor:
    """A Tensor of the raw value ``out``, which a new node made; ``cell`` is its version cell."""
    node: Node = _new(node_class)
    node.edges, node.saved, node.versions = edges, saved, versions
    node.metadata = (out.shape, out.dtype)
    node.extras = None
    tensor: Tensor = off_tape(out, cell)
    tensor._node, tensor._requires_grad = node, True
    if WATCHERS:
        look_at(node)
    return tensor


def edge_of(tensor: Tensor) -> tuple:
    """Where a gradient of ``tensor`` goes: the node that made it and which output of that, or the leaf."""
    node = tensor._node
    return (tensor if node is None else node, tensor._index)


def off_tape(out: Any, cell: list) -> Tensor:
    """A Tensor of the raw value ``out`` that requires no grad."""
    tensor: Tensor = _new(Tensor)
    tensor._data, tensor._cell = out, cell
    tensor._base = tensor._grad = tensor._hooks = tensor._node = None
    tensor._index, tensor._requires_grad = 0, False
    return tensor


def needs_no_op(tensor: Tensor, context: Context) -> bool:
    """Whether what an op gives for ``tensor`` in this context is its elements alone, as NumPy computes them:
    no node, no tangent, and nobody who watches the op."""
    if tensor._data.__class__ is not np.ndarray or not context.evaluator.skips_table:
        return False
    return context.level is None and not (tensor._requires_grad and context.grad)


def note_view(view: Tensor, source: Tensor, how: Any) -> None:
    """A view tells what it is a view of and, where the tape may follow (``how``), the way it was made: see
    rebase.py and views.py.
    """
    base: Tensor = source if source._base is None else source._base
    view._base, view._how = base, how
    cell = source._cell
    if base._requires_grad and base._node is None:
        if cell[-1] is not UNLISTED and UNLISTED not in cell:
            cell.append(UNLISTED)
    else:
        cell.append(weak_reference(view))
        if not len(cell) & 63:
            forget_dead_views(cell)
