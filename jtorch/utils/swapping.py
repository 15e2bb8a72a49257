"""Two tensors that change places."""

from __future__ import annotations

import weakref

from jtorch import watch
from jtorch.eager.tensor import Tensor

_SLOTS = [name for name in Tensor.__slots__ if not name.startswith("__")]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Let each take the other's class, memory, gradient and attributes: who holds one sees the other.

    Raises RuntimeError where weak references to one of them exist.
    Source: https://github.com/pytorch/pytorch/blob/main/torch/utils/__init__.py
    """
    for t in (t1, t2):
        if weakref.getweakrefs(t):
            raise RuntimeError("Cannot swap t1 because it has weakref associated with it")
        watch.touched(t._data)
    facts = [{n: getattr(t, n) for n in _SLOTS if hasattr(t, n)} for t in (t1, t2)]
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for t, found in ((t1, facts[1]), (t2, facts[0])):
        for name in _SLOTS:
            if name in found:
                setattr(t, name, found[name])
            elif hasattr(t, name):
                delattr(t, name)
