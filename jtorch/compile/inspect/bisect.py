"""``python -m jtorch.compile.inspect.bisect repro.py``: which stage makes a saved program wrong.

The outputs of the recorded graph, interpreted, are right by definition. Then, one after the other: the passes
(and which rewrite), the memory plan, fusion (and which one), the source of a kernel, the steps that threads
go through by tiles, machine code. The number found is one for ``JTORCH_FUEL``: with one less the program is
right.
"""

from __future__ import annotations

import difflib
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jtorch.compile.graph.interpret import evaluate, interpret
from jtorch.compile.graph.ir import Graph
from jtorch.compile.graph.passes import Fuel, optimise
from jtorch.compile.inspect.repro import Recorder, first_difference
from jtorch.compile.inspect.stages import BUDGET, Machine, equation_text
from jtorch.compile.inspect.tolerance import Tolerance
from jtorch.compile.plan.fuse import fuse
from jtorch.compile.plan.joins import placed
from jtorch.compile.plan.memory import plan_memory
from jtorch.compile.plan.plan import Place, Plan, Where
from jtorch.compile.plan.scratch import padded
from jtorch.compile.run.targets import CPU, PYTHON
from jtorch.compile.target import Target

_PLENTY = 1 << 40


@dataclass(frozen=True)
class Verdict:
    """``stage`` is "none", "passes", "memory plan", "fusion", "codegen", "tiles" or "machine code"; ``fuel``
    the number of the first rewrite or fusion that is wrong, where it is one; ``told`` says what it is."""

    stage: str
    told: str
    fuel: int | None = None

    def __str__(self) -> str:
        number = (
            "" if self.fuel is None else f", rewrite {self.fuel} (right with JTORCH_FUEL={self.fuel - 1})"
        )
        return f"stage: {self.stage}{number}\n{self.told}"


def bisect(program: Recorder) -> Verdict:
    """Find the first stage of compiling ``program`` that changes its outputs beyond rounding."""
    return _Search(program).run()


class _Search:
    def __init__(self, program: Recorder) -> None:
        self.program = program
        self.arguments = program.arguments()
        self.tolerance = Tolerance(program.graph, self.arguments, BUDGET)
        self.expected = interpret(program.graph, self.arguments)
        fuel = Fuel(_PLENTY)
        self.graph = program.ready(fuel)
        self.rewrites = int(_PLENTY - fuel.left)  # burnt by the passes
        fuse(self.graph, fuel)
        self.total = int(_PLENTY - fuel.left)  # and by fusion, too

    def run(self) -> Verdict:
        if self._differs(interpret(self.graph, self.arguments)):
            return self._passes()
        plan = self.program.planned(Fuel(_PLENTY))
        if self._wrong(plan, PYTHON):
            return self._not_passes(plan)
        plan = self.program.planned(Fuel(_PLENTY), CPU.multiplies)
        if self._wrong(plan, CPU):
            if plan.runs and not self._wrong(replace(plan, runs=()), CPU):
                return Verdict("tiles", "Right step by step, wrong where threads go through steps by tiles.")
            return Verdict("machine code", self._task(plan, CPU))
        return Verdict("none", "Every stage gives the outputs of the recorded graph.")

    def _not_passes(self, plan: Plan) -> Verdict:
        if not self._wrong(spread(plan), PYTHON):
            return Verdict("memory plan", "Right where no two values share memory, wrong where they do.")
        unfused = self._planned(self.rewrites)
        if not self._wrong(unfused, PYTHON):
            first = _first(self.rewrites, self.total, lambda n: self._wrong(self._planned(n), PYTHON))
            return Verdict("fusion", self._fusion(first), first)
        return Verdict("codegen", self._task(unfused, PYTHON))

    # -- the passes ----------------------------------------------------------------------------------------

    def _passes(self) -> Verdict:
        first = _first(0, self.rewrites, lambda n: self._differs(self._interpreted(n)))
        if first is None:
            return Verdict(
                "passes", "Wrong with no rewrite at all: folding, pruning or the copies of finalise."
            )
        stages: list[tuple[str, float]] = []
        fuel = Fuel(first)
        after = optimise(self.program.graph, fuel, lambda name, g, s: stages.append((name, fuel.left)))
        name = next(name for name, left in stages if left <= 0)
        before = optimise(self.program.graph, Fuel(first - 1))
        return Verdict("passes", f"{name} rewrites\n{_changes(before, after)}", first)

    def _interpreted(self, fuel: int) -> list[np.ndarray]:
        return interpret(self.program.ready(Fuel(fuel)), self.arguments)

    # -- fusion, source and machine code -------------------------------------------------------------------

    def _planned(self, fuel: int) -> Plan:
        amount = Fuel(fuel - self.rewrites)
        return plan_memory(self.graph, fuse(self.graph, amount), self.program.destinations)

    def _fusion(self, fuel: int | None) -> str:
        assert fuel is not None
        before = fuse(self.graph, Fuel(fuel - 1 - self.rewrites))
        after = fuse(self.graph, Fuel(fuel - self.rewrites))
        old = {frozenset(s.eqns) for s in before.steps}
        (new,) = [s for s in after.steps if frozenset(s.eqns) not in old]
        parts = [s for s in before.steps if set(s.eqns) <= set(new.eqns)]
        told = " with ".join(f"[{' '.join(e.op.name for e in s.eqns)}]" for s in parts)
        return f"fuses {told}\n" + "\n".join(equation_text(self.graph, e) for e in new.eqns)

    def _task(self, plan: Plan, target: Target) -> str:
        machine = Machine(plan, target, self.arguments)
        found = machine.first_wrong(evaluate(plan.fused.graph, self.arguments), self.tolerance.differs)
        if found is None:
            return "Each step is right when run by itself."
        task, eqn, told = found
        kernel = task.name if task.nest is not None else f"library call {task.name}"
        return f"first wrong step: {kernel}\n{equation_text(plan.fused.graph, eqn)}: {told}"

    def _wrong(self, plan: Plan, target: Target) -> bool:
        try:
            return self._differs(Machine(plan, target, self.arguments).run())
        except (RuntimeError, IndexError, AssertionError):  # a step that fails where the interpreter did not
            return True

    def _differs(self, outputs: Sequence[Any]) -> bool:
        return first_difference(self.tolerance, self.expected, outputs) is not None


def spread(plan: Plan) -> Plan:
    """The plan with scratch memory of its own for every value: no two share any, but parts with a whole."""
    places, end = dict(plan.places), 0
    begins = {}
    for var, place in plan.places.items():
        if place.kind is Where.ARENA and var not in plan.parts:
            places[var], begins[var] = Place(Where.ARENA, end), end
            end += padded(var.type.nbytes)
    places.update((var, Place(Where.ARENA, at)) for var, at in placed(plan.parts, begins))
    return replace(plan, places=places, arena_bytes=end)


def _first(right: int, wrong: int, is_wrong: Callable[[int], bool]) -> int | None:
    """The smallest number up to ``wrong`` that is wrong, None where ``right`` is wrong already."""
    if is_wrong(right):
        return None
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_wrong(middle):
            wrong = middle
        else:
            right = middle
    return wrong


def _changes(before: Graph, after: Graph) -> str:
    """The lines of a printed graph that a rewrite changed."""
    lines = difflib.unified_diff(str(before).splitlines(), str(after).splitlines(), lineterm="", n=0)
    return "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 where nothing is wrong, 1 where a stage is."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m jtorch.compile.inspect.bisect",
        description="Find the stage of the compiler, and the rewrite or fusion, that makes a saved program "
        "wrong. The script is run: use those that save_repro wrote and you trust.",
    )
    parser.add_argument("script", help="what f.save_repro(folder) wrote")
    found = runpy.run_path(parser.parse_args(arguments).script)
    programs = [v for v in found.values() if isinstance(v, Recorder)]
    if len(programs) != 1:
        parser.error("the script makes no program: it is none that save_repro wrote")
    verdict = bisect(programs[0])
    print(verdict)
    return int(verdict.stage != "none")


if __name__ == "__main__":
    from jtorch.core.command import run

    sys.exit(run(main, "python -m jtorch.compile.inspect.bisect"))
