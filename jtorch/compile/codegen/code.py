"""A plan with the text of its kernels: what a target's emitter makes and its runner takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.loops import Nest
from jtorch.compile.plan.plan import Plan, Task

Same = Callable[[Var], Any]  # two variables with one answer live in one place


@dataclass(frozen=True, eq=False)
class Code:
    """The kernels of a plan's loops, in the order they run: each has ``entry``, ``source`` and ``arguments``,
    and the ``errors`` that its statuses mean."""

    plan: Plan
    kernels: Mapping[Task, Any]

    def texts(self) -> dict[str, Any]:
        """The first kernel of each text, by that text."""
        found: dict[str, Any] = {}
        for kernel in self.kernels.values():
            found.setdefault(kernel.source, kernel)
        return found


def written(plan: Plan, write: Callable[[Nest, Same], Any]) -> Code:
    """The plan's code, kernel by kernel: ``write`` makes one of a nest and of what shares memory in it."""
    nests = {task: task.nest for task in plan.tasks if task.nest is not None}
    return Code(plan, {task: write(nest, lambda v: plan.places[v]) for task, nest in nests.items()})
