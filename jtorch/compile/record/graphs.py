"""Graphs of the tape that were there before a recording.

A backward pass frees them as it goes through, and so does one outside at any time: a recording would do
neither, and not see it. So passes stop before them.

An argument's graph is out of reach, as its stand-in has none. Views of leaves save nothing that is freed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from jtorch.compile.graph.ir import Eqn, Var
from jtorch.compile.record.nodes import Nodes
from jtorch.core import op as op_module
from jtorch.core.errors import CompileError, Source, user_source
from jtorch.eager.node import Node


class Graphs:
    """Tells nodes that the recording of ``tracer`` makes from those that were there."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.made: WeakKeyDictionary[Node, Source] = WeakKeyDictionary()  # with the user's line
        self.nodes = Nodes(tracer)  # what is told of them
        self.left = False  # whether a pass goes through a graph from outside
        self.limited = False  # whether a pass gives some tensors alone their gradients

    def note(self, node: Node) -> None:
        """A node was just made, by the recording or in another thread."""
        if getattr(op_module.CONTEXT.get().evaluator, "graphs", None) is self:  # it may be wrapped
            self.made[node] = source = user_source()
            self.nodes.made(node, source)

    def walk(self, targets: Iterable[Any]) -> None:
        """Raise CompileError where a pass through ``targets`` goes through a graph from outside."""
        for node in targets:
            if not isinstance(node, Node) or node in self.made:
                continue
            self.left = True
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

    def limit(self, wanted: Sequence[Any], targets: Iterable[Any]) -> None:
        """Raise CompileError where a pass for the gradients of ``wanted`` alone reaches an argument with
        a graph from outside, which may lead to them, too: what stands for it here is a leaf."""
        self.limited = True
        targets = list(targets)
        self.walk(targets)
        for target in targets:
            alone = len(wanted) == 1 and (wanted[0]._node or wanted[0]) is target
            if not alone and not isinstance(target, Node) and self.has_graph_outside(target):
                raise CompileError(
                    f"{user_source()}: '{self.tracer.name}' asks for the gradients of some tensors, and the "
                    "graph below them reaches an argument that was computed outside, whose graph may lead to "
                    "them, too. Pass that argument as .detach(), or call this outside."
                )

    def has_graph_outside(self, tensor: Any) -> bool:
        """Whether ``tensor`` stands for an argument that has a graph."""
        given = self.tracer.tensors_given.get(self.tracer.places.get(id(tensor)))
        argument = None if given is None else given()
        return argument is not None and argument._node is not None


def check_uses_gradient(tracer: Any, node: Node, given: Any, found: Any, eqns: list[Eqn]) -> None:
    """Raise CompileError where gradients that a custom Function gave by ``eqns`` do not come of those
    ``given`` to it: a later pass that does not come by it would add them all the same."""
    parts = [tracer.lift(g) for g in (given if isinstance(given, list) else [given]) if g is not None]
    atoms = {atom for sym in parts for atom in (tracer.read(sym), sym.storage.current)}
    made_by = {v: e for e in eqns for v in e.outputs}
    for part in found:
        seen, stack = set(), [] if part is None else [tracer.read(tracer.lift(part))]
        reached = part is None
        while stack and not reached:
            atom = stack.pop()
            reached = atom in atoms
            if isinstance(atom, Var) and atom not in seen:
                seen.add(atom)
                stack += made_by[atom].inputs if atom in made_by else ()
        if not reached:
            raise CompileError(
                f"'{tracer.name}' returns several tensors with a graph, and {node.name()} gives a gradient "
                "that does not rest on the one it gets: a backward() that comes from the other results alone "
                "would add it, too. Multiply it by the gradient, or return one tensor and .detach() the rest."
            )
