"""What looks at every new node of the tape, where something unusual is on.

Ops pay one truth test for all of it: anomaly detection, hooks on saved tensors, complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from jtorch.eager.node import Node, complex_class

WATCHERS: list[Callable[[Node], None]] = []


def look_at(node: Node) -> None:
    """Show a node that was just made to all who asked for it."""
    for watcher in tuple(WATCHERS):  # another thread may take one off meanwhile
        watcher(node)


def expect_complex() -> None:
    """From now on nodes with complex results get their complex class. Called when a gradient may meet one."""
    if give_complex_class not in WATCHERS:
        WATCHERS.append(give_complex_class)


def complex_is_expected() -> bool:
    return give_complex_class in WATCHERS


def give_complex_class(node: Node) -> None:
    """What watches where gradients may be complex."""
    if isinstance(node.metadata, list) or node.foreign:
        return
    if node.metadata[1].kind == "c" and node.op.holomorphic:
        node.__class__ = complex_class(type(node))


ONLY_COMPLEX = [give_complex_class]  # what WATCHERS is where nothing else watches
