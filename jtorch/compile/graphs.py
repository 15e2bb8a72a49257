"""Graphs of the tape that were there before a recording.

A backward pass frees them as it goes through, and so does one outside at any time: a recording would do
neither, and not see it. So passes stop before them.

An argument's graph is out of reach, as its stand-in has none. Views of leaves save nothing that is freed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from jtorch import op as op_module
from jtorch.eager.node import Node
from jtorch.errors import CompileError, user_source


class Graphs:
    """Tells nodes that the recording of ``tracer`` makes from those that were there."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.made: WeakSet[Node] = WeakSet()

    def note(self, node: Node) -> None:
        """A node was just made, by the recording or in another thread."""
        if getattr(op_module.CONTEXT.get().evaluator, "graphs", None) is self:  # it may be wrapped
            self.made.add(node)

    def walk(self, targets: Iterable[Any]) -> None:
        """Raise CompileError where a pass through ``targets`` goes through a graph from outside."""
        for node in targets:
            if not isinstance(node, Node) or node in self.made:
                continue
            refuse = getattr(type(node), "refuse", None)
            if refuse is not None:  # of an earlier call of a compiled function
                refuse(node, self.tracer.name)
            op = getattr(type(node), "op", None)
            if node.foreign or (op is not None and not op.aliases):
                raise CompileError(
                    f"{user_source()}: the graph that '{self.tracer.name}' goes backward through reaches "
                    f"one that was built outside it ({node.name()}), which a recording would neither free "
                    "nor see freed. Build the whole graph inside, pass that tensor as an argument and call "
                    "backward() outside, or use its .detach()."
                )
