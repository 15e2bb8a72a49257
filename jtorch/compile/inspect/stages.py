"""One graph run in every way there is, over memory of its own, and the first place where two ways differ.

    recorded graph, interpreted = optimised graph, interpreted = source as plain Python = machine code

Verification, saved repros and their bisection rest on this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.interpret import read
from jtorch.compile.graph.ir import Eqn, Graph, Var, eqn_text, names_of
from jtorch.compile.plan.plan import Place, Plan, Use, Where
from jtorch.compile.target import Binding, Target
from jtorch.core.dtypes import is_float

Values = dict[Var, Any]

# Relative to the larger of the element and the array's largest finite one: sums in another order, fused
# multiply-adds and our own exp, log and tanh stay well below; a wrong sign, factor or element does not.
BUDGET: Mapping[str, float] = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 2e-4, "float64": 1e-9}


def differs(expected: Any, found: Any, budget: Mapping[str, float] = BUDGET) -> str | None:
    """How ``found`` differs from ``expected`` beyond the budget of its dtype, None where it does not."""
    if expected is None or found is None:
        return None if expected is found else f"{_there(expected)} against {_there(found)}"
    a, b = np.asarray(expected), np.asarray(found)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
    if not a.size:
        return None
    if not is_float(a.dtype):
        wrong = a != b
    else:
        wrong = _beyond(a.astype(np.float64), b.astype(np.float64), budget.get(a.dtype.name, 0.0))
    if not wrong.any():
        return None
    place = np.unravel_index(int(np.argmax(wrong)), a.shape)
    at = "".join(f"[{int(k)}]" for k in place)
    return f"{int(wrong.sum())} of {a.size} elements, first{at or ' and only'}: {a[place]} against {b[place]}"


def _there(value: Any) -> str:
    return "nothing" if value is None else "a tensor"


def _beyond(a: np.ndarray, b: np.ndarray, tolerance: float) -> np.ndarray:
    finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = np.abs(a[finite]).max(initial=0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        return ~same & ~(finite & (np.abs(a - b) <= tolerance * np.maximum(scale, np.abs(b))))


class Machine:
    """A plan over memory of its own. ``outputs`` are arrays in the order of the graph's outputs."""

    def __init__(self, plan: Plan, target: Target, arguments: Sequence[Any]) -> None:
        graph = plan.fused.graph
        self.plan = plan
        self.inputs = [np.array(a, v.dtype, order="C") for a, v in zip(arguments, graph.inputs, strict=True)]
        binding = Binding()
        for k, array in enumerate(self.inputs):
            binding.fix(Place(Where.INPUT, k), array)
        self.outputs: list[np.ndarray] = []
        for var, destination in zip(graph.outputs, plan.destinations, strict=True):
            new = np.zeros(var.shape, var.dtype)  # type: ignore[union-attr]
            self.outputs.append(self.inputs[destination.index] if destination.kind is Use.WRITE else new)
            binding.fix(destination.place, new)
        self.runner = target.load(target.emit(plan), graph, binding)

    def run(self) -> list[np.ndarray]:
        """The outputs. Raises RuntimeError where a step fails."""
        status = self.runner.run()
        if status:
            raise RuntimeError(self.runner.failure(status).sentence)
        return self.outputs

    def walk(self) -> Iterator[tuple[Any, Values]]:
        """Each task as it is done, with what it wrote. Raises RuntimeError where one fails."""
        from jtorch.compile.run.host import array_at

        for task in self.plan.tasks:
            with np.errstate(all="ignore"):
                if self.runner.run_one(task):
                    raise RuntimeError(f"the step of {task.step.eqns[0].op.name} fails")
            yield task, {v: np.array(array_at(self.runner.address(v, ()), v)) for v in task.writes}

    def first_wrong(
        self, expected: Values, differing: Callable[..., str | None]
    ) -> tuple[Any, Eqn, str] | None:
        """The first task that does not compute what is ``expected``: (task, equation, in words).

        ``differing(expected, found, variable)`` tells whether two values differ.
        """
        expected = dict(expected)
        for task, written in self.walk():
            for eqn in task.step.eqns:
                for var in eqn.outputs:
                    if var not in expected:  # a copy that the memory plan put in
                        expected[var] = read(expected, eqn.inputs[0])
                    told = differing(expected[var], written[var], var) if var in written else None
                    if told:
                        return task, eqn, told
        return None


def equation_text(graph: Graph, eqn: Eqn) -> str:
    """The equation as the graph prints it, with the user's line."""
    names = names_of(graph)
    text = eqn_text(eqn, lambda a: names.get(a, a.hint or "?") if isinstance(a, Var) else str(a))
    return f"{text}   ({eqn.source})" if eqn.source is not None else text
