"""A node that computes nothing: where the hooks of a module see gradients pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.eager.binding import TENSOR_XP
from jtorch.eager.duals import carry
from jtorch.eager.engine import unbroadcast
from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor, wrap


class BackwardHookFunctionBackward(Node):
    """PyTorch's name for it, which ``grad_fn.name()`` shows."""

    __slots__ = ()
    frees = False  # it saves nothing

    @staticmethod
    def vjp(xp: Any, g: Any) -> Any:
        return tuple(g) if isinstance(g, list) else g

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return self.vjp(xp, g)


def through_identity(values: tuple, pre_hook: Callable) -> tuple[tuple, list[int]]:
    """``values`` with those tensors that require grad hung on one identity node, and their places.

    ``pre_hook`` sees their gradients, and may give others.
    """
    places = [k for k, v in enumerate(values) if isinstance(v, Tensor) and v._requires_grad]
    if not places:
        return values, places
    tensors = [values[k] for k in places]
    metadata = [(t._data.shape, t._data.dtype) for t in tensors]
    edges = tuple((t._node or t, t._index) for t in tensors)
    node: Any = BackwardHookFunctionBackward(edges, (), (), metadata if len(places) > 1 else metadata[0])
    node.register_prehook(pre_hook)
    passed = list(values)
    for index, (k, t) in enumerate(zip(places, tensors, strict=True)):
        out = wrap(t._data)
        out._requires_grad, out._node, out._index = True, node, index
        out._cell, out._base, out._how = t._cell, t if t._base is None else t._base, None
        passed[k] = carry(t, out)
    return tuple(passed), places


def for_edge(g: Tensor | None, edge: Any) -> Tensor | None:
    """``g`` in the shape of what it is the gradient of: the engine undoes broadcasting later."""
    if g is None or edge is None:
        return None
    target, k = edge
    if isinstance(target, Tensor):
        shape = tuple(target._data.shape)
    else:
        shape = (target.metadata[k] if isinstance(target.metadata, list) else target.metadata)[0]
    return g if g.shape == shape else unbroadcast(TENSOR_XP, g, shape)
