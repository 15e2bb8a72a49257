"""Library calls between two tables: the bodies of ops that have no kernel, on NumPy.

Those that run in the background only begin at their turn; what comes before ``Wait`` runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jtorch.compile.graph.access import layout_of
from jtorch.compile.graph.ir import Literal
from jtorch.compile.run.host import array_at, view_of
from jtorch.ops import xp

if TYPE_CHECKING:
    from jtorch.compile.plan.plan import Task
    from jtorch.compile.run.replay import Replay


class HostCall:
    """One library call. ``run(*arguments)`` gives the status 0, or raises."""

    def __init__(self, task: Task, replay: Replay) -> None:
        self.owners = [task]
        self.task = task
        self.replay = replay
        self.ended = 0

    def run(self, *arguments: Any) -> int:
        (eqn,) = self.task.step.eqns
        outs = eqn.op.body(xp, *self._values(arguments), **eqn.statics)
        for var, value in zip(eqn.outputs, outs if len(eqn.outputs) > 1 else (outs,), strict=True):
            array_at(self.replay.address(var, arguments), var)[...] = value
        self.ended += 1
        return 0

    def _values(self, arguments: Sequence[Any]) -> list[Any]:
        values = []
        for atom in self.task.step.eqns[0].inputs:
            if isinstance(atom, Literal):
                values.append(atom.dtype.type(atom.value))
                continue
            layout = layout_of(atom, self.replay.plan.fused.find)
            assert layout is not None
            values.append(view_of(self.replay.address(layout.owner, arguments), atom, layout))
        return values


class Background(HostCall):
    """The beginning of a call that goes on by itself; its result is there after ``end()``."""

    under_way: Any = None

    def run(self, *arguments: Any) -> int:
        (eqn,) = self.task.step.eqns
        out = self.replay.array(eqn.outputs[0], arguments)
        self.under_way = eqn.op.start(out, *self._values(arguments))  # type: ignore[misc]
        self.ended += 1
        return 0

    def end(self) -> None:
        under_way, self.under_way = self.under_way, None
        if under_way is not None:
            under_way.wait()


class Wait:
    """The end of what was begun before."""

    def __init__(self, call: Background) -> None:
        self.call = call
        self.owners = call.owners
        self.ended = 0

    def run(self, *arguments: Any) -> int:
        self.call.end()
        self.ended += 1
        return 0


class Progress:
    """A look at what is under way: messages move only while somebody asks."""

    owners: tuple = ()

    def __init__(self, calls: list[Background]) -> None:
        self.calls = list(calls)
        self.ended = 0

    def run(self, *arguments: Any) -> int:
        for call in self.calls:
            if call.under_way is not None:
                call.under_way.is_completed()
        self.ended += 1
        return 0
