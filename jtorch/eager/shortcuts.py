"""Where eager mode finds machine code for what it does most often, see ``eager/machine``.

It knows nothing of the compiler, and works without: ``jtorch`` itself fills in what makes the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jtorch.core.op import Op


class Maker(Protocol):
    """What ``eager/machine`` offers."""

    def prepare(self) -> None: ...

    def shortcut(self, op: Op) -> Callable | None: ...

    def backward(self, op: Op) -> Callable | None: ...

    def engine_loops(self) -> tuple[Callable, Callable] | None: ...


find: Callable[[], Maker] | None = None


def prepare() -> None:
    """Compile or load them now: the first op of all would do it."""
    if find is not None:
        find().prepare()


def shortcut(op: Op) -> Callable | None:
    """What takes the arrays and then the statics of ``op`` by position, and gives its result, or None where
    the Python that follows must see to it; None where the op has no such function here."""
    return find().shortcut(op) if find is not None else None


def backward(op: Op) -> Callable | None:
    """The same of the ``backward`` of its nodes, called with the node as the first argument."""
    return find().backward(op) if find is not None else None


def engine_loops() -> tuple[Callable, Callable] | None:
    """``count_edges`` and ``propagate`` of ``eager/passes.py``; None where there are none here."""
    return find().engine_loops() if find is not None else None
