"""Library calls between two tables: the bodies of ops that have no kernel, on NumPy.

Those that run in the background only begin at their turn; what comes before ``Wait`` runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.compile.graph.access import Find, Layout, layout_of
from jtorch.compile.graph.ir import Eqn, Literal, Var
from jtorch.compile.run.host import array_at, view_of
from jtorch.ops import xp

if TYPE_CHECKING:
    from jtorch.compile.plan.plan import Task

Address = Callable[[Var, Sequence[Any]], int]
"""Where a variable lies in a call of these arguments."""


class HostCall:
    """One library call: ``eqn`` is that of ``task``, of numbers, and ``layouts`` those of its inputs that are
    variables. ``run(*arguments)`` gives the status 0, or raises."""

    def __init__(self, task: Task, eqn: Eqn, layouts: Sequence[Layout], address: Address) -> None:
        self.owners = [task]
        self.task, self.eqn, self.layouts, self.address = task, eqn, layouts, address
        self.ended = 0

    def run(self, *arguments: Any) -> int:
        eqn = self.eqn
        outs = eqn.op.body(xp, *self._values(arguments), **eqn.statics)
        for var, value in zip(eqn.outputs, outs if len(eqn.outputs) > 1 else (outs,), strict=True):
            array_at(self.address(var, arguments), var)[...] = value
        self.ended += 1
        return 0

    def _values(self, arguments: Sequence[Any]) -> list[Any]:
        layouts = iter(self.layouts)
        values: list[Any] = []
        for atom in self.eqn.inputs:
            if isinstance(atom, Literal):
                values.append(atom.dtype.type(atom.value))
            else:
                layout = next(layouts)
                values.append(view_of(self.address(layout.owner, arguments), atom, layout))
        return values


def layouts_of(eqn: Eqn, find: Find) -> list[Layout]:
    """How the inputs of a library call that are variables lie in memory."""
    found = [layout_of(atom, find) for atom in eqn.inputs if isinstance(atom, Var)]
    assert None not in found  # see graph/finalise.py
    return found  # type: ignore[return-value]


class Background(HostCall):
    """The beginning of a call that goes on by itself; its result is there after ``end()``. ``array`` gives
    the memory of a variable, which lives as long as the array."""

    under_way: Any = None

    def __init__(
        self, task: Task, eqn: Eqn, layouts: Sequence[Layout], address: Address,
        array: Callable[[Var, Sequence[Any]], np.ndarray],
    ) -> None:  # fmt: skip
        super().__init__(task, eqn, layouts, address)
        self.array = array

    def run(self, *arguments: Any) -> int:
        out = self.array(self.eqn.outputs[0], arguments)
        self.under_way = self.eqn.op.start(out, *self._values(arguments))  # type: ignore[misc]
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
