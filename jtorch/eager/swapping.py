"""Two tensors that change places."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

from jtorch.core import watch
from jtorch.eager.node import Node
from jtorch.eager.plain_views import ByItem
from jtorch.eager.rebase import OneOfSeveral
from jtorch.eager.tensor import Tensor

_SLOTS = [name for name in Tensor.__slots__ if not name.startswith("__")]
_ALONE = 2  # references to a version cell that nothing else has: the slot's and the question's

_POISONED = (
    "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to "
    "run backward on a tensor that was swapped. Change the device or dtype of a module before running "
    "forward (or after both forward and backward)."
)


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Let each take the other's class, memory, gradient and attributes: who holds one sees the other.

    A graph that was made of one of them before raises RuntimeError when it goes backward. Raises RuntimeError
    where weak references to one of them, or views of it, exist.
    Source: https://github.com/pytorch/pytorch/blob/main/torch/utils/__init__.py
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if any(all(r is not ours for ours in t._cell) for r in weakref.getweakrefs(t)):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    edges = [(t, node) for name, t in (("t1", t1), ("t2", t2)) for node in _users(t, name)]
    for t, node in edges:
        poisoned = Poisoned((), None, (), (t._data.shape, t._data.dtype))
        node.edges = tuple((poisoned, 0) if e is not None and e[0] is t else e for e in node.edges)
    facts = [{n: getattr(t, n) for n in _SLOTS if hasattr(t, n)} for t in (t1, t2)]
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for t, found in ((t1, facts[1]), (t2, facts[0])):
        for name in _SLOTS:
            if name in found:
                setattr(t, name, found[name])
            elif hasattr(t, name):
                delattr(t, name)
    _list_anew(t1, t2)
    for t in (t1, t2):
        watch.tell(t._data)


class Poisoned(Node):
    """Stands in a graph for a leaf that changed places after the graph was made."""

    __slots__ = ()
    frees = False

    def name(self) -> str:
        return "AccumulateGrad"

    def backward(self, xp: Any, g: Any) -> Any:
        raise RuntimeError(_POISONED)

    backward_on_tensors = backward


def _users(t: Tensor, name: str) -> list[Node]:
    """The nodes that have ``t`` as a leaf. Raises RuntimeError for views of it.

    The garbage collector knows them: a node's edge is the leaf itself.
    """
    is_leaf = t._requires_grad and t._node is None
    if not is_leaf and sys.getrefcount(t._cell) <= _ALONE:
        return []
    holders = gc.get_referrers(t)
    # edges, and how views were made
    pairs: list[Any] = [h for h in holders if h.__class__ is tuple and h and h[0] is t]
    pairs += [h for h in holders if isinstance(h, (OneOfSeveral, ByItem)) and h.source is t]
    owners = gc.get_referrers(*pairs) if pairs else []
    views = [h for h in holders if isinstance(h, Tensor) and h._base is t]
    views += [h for h in owners if isinstance(h, Tensor) and any(h._how is p for p in pairs)]
    if views:
        raise RuntimeError(
            f"Expected use_count of {name} to be 1 or 2 with an AccumulateGrad node but got "
            f"{1 + len({id(v) for v in views})} make sure you are not holding references to the tensor "
            "in other places: it has views."
        )
    lists = [o for o in owners if o.__class__ is tuple]
    return [n for n in gc.get_referrers(*lists) if isinstance(n, Node)] if is_leaf and lists else []


def _list_anew(t1: Tensor, t2: Tensor) -> None:
    """Where a memory lists its views, each stands for the other now."""
    first, second = weakref.ref(t1), weakref.ref(t2)
    others = {id(first): second, id(second): first}  # by identity: they compare as the tensors do
    for cell in {id(t._cell): t._cell for t in (t1, t2)}.values():
        cell[1:] = [others.get(id(r), r) for r in cell[1:]]
