"""What a recording remembers of the tape it builds: each node by name, what it hangs on, and which equations
came of it, forward and backward. It holds no node, so graphs and what they save go as they would without.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass, field
from typing import Any

from jtorch.compile.graph.ir import Eqn, Var
from jtorch.compile.record.sym import Sym
from jtorch.core.device_array import ARRAYS
from jtorch.core.errors import Source
from jtorch.eager.node import Node
from jtorch.nn.module import Module

_CALLING_A_MODULE = Module.__call__.__code__


@dataclass(eq=False, slots=True)
class NodeNote:
    """A node of the tape. ``parents`` are the notes of the nodes its gradients go to, or the variables of
    leaves; None where none flows, or nobody knows. ``modules`` are those whose call made it, outermost first.
    """

    name: str
    source: Source
    parents: tuple[Any, ...]
    forward: tuple[Eqn, ...]
    modules: tuple[weakref.ref[Module], ...]
    backward: list[Eqn] = field(default_factory=list)


class Nodes:
    """The notes of one recording, in the order in which nodes were made."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self.notes: list[NodeNote] = []
        self._of: weakref.WeakKeyDictionary[Node, NodeNote] = weakref.WeakKeyDictionary()
        self.begin = 0  # the place of the first equation of the op that was recorded last

    def made(self, node: Node, source: Source) -> None:
        """``node`` was made just now, by what was recorded last."""
        parents = tuple(None if edge is None else self._parent(edge[0]) for edge in node.edges)
        forward = tuple(self._tracer.eqns[self.begin :])
        note = NodeNote(node.name(), source, parents, forward, _modules_running())
        self._of[node] = note
        self.notes.append(note)

    def went_back(self, node: Node, start: int) -> None:
        """The gradient of ``node`` was recorded, by the equations from place ``start`` on."""
        note = self._of.get(node)
        if note is not None:
            note.backward += self._tracer.eqns[start:]

    def _parent(self, target: Any) -> NodeNote | Var | None:
        if isinstance(target, Node):
            return self._of.get(target)
        data = target._data
        if isinstance(data, ARRAYS):
            entry = self._tracer.arrays.get(id(data))
            data = None if entry is None else entry.sym
        current = data.storage.current if isinstance(data, Sym) else None  # nor has a leaf of vmap any
        return current if isinstance(current, Var) else None


def _modules_running() -> tuple[weakref.ref[Module], ...]:
    """The modules that are being called, the outermost first."""
    found = []
    frame = sys._getframe(3).f_back
    while frame is not None:
        if frame.f_code is _CALLING_A_MODULE:
            found.append(weakref.ref(frame.f_locals["self"]))
        frame = frame.f_back
    return tuple(reversed(found))
