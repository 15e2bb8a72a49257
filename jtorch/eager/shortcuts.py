"""Where eager mode finds machine code for what it does most often, see ``eager/machine``.

It knows nothing of the compiler, and works without: ``jtorch`` itself fills in what makes the code.
"""

from __future__ import annotations

from collections.abc import Callable

from jtorch.core import higher
from jtorch.core.op import Op


def prepare() -> None:
    """Compile or load them now: the first op of all would do it."""
    if higher.shortcuts is not None:
        higher.shortcuts().prepare()


def shortcut(op: Op) -> Callable | None:
    """What takes the arrays and then the statics of ``op`` by position, and gives its result, or None where
    the Python that follows must see to it; None where the op has no such function here."""
    return higher.shortcuts().shortcut(op) if higher.shortcuts is not None else None


def backward(op: Op) -> Callable | None:
    """The same of the ``backward`` of its nodes, called with the node as the first argument."""
    return higher.shortcuts().backward(op) if higher.shortcuts is not None else None


def engine_loops() -> tuple[Callable, Callable] | None:
    """``count_edges`` and ``propagate`` of ``eager/passes.py``; None where there are none here."""
    return higher.shortcuts().engine_loops() if higher.shortcuts is not None else None
