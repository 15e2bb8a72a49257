"""A compiled program as a script of its own: ``f.save_repro(folder)``.

The script rebuilds the recorded graph, loads the inputs from the file beside it, and runs it in every way
there is. Sent to somebody else it needs neither the model nor the data:

    g = Recorder("step", Path(__file__).with_suffix(".npz"))
    x = g.input("x", "float32", (5, 64))
    (a,) = g.add("mul", [x, number(2.0, "float32")], {}, at=("train.py", 12, "step"))
    g.result(a)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jtorch.compile.graph.finalise import through_passes
from jtorch.compile.graph.halves import Multiplies
from jtorch.compile.graph.interpret import interpret
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Type, Var, check, names_of, types_of
from jtorch.compile.graph.passes import Fuel
from jtorch.compile.inspect.fitting import Asked
from jtorch.compile.inspect.ledger import aligned
from jtorch.compile.inspect.stages import BUDGET, Machine
from jtorch.compile.inspect.tolerance import Tolerance
from jtorch.compile.plan.fuse import fuse
from jtorch.compile.plan.memory import plan_memory
from jtorch.compile.plan.plan import Destination, Plan, Use
from jtorch.compile.record.snapshot import graph_arguments
from jtorch.compile.run.targets import CPU, PYTHON
from jtorch.core.errors import CompileError, Source
from jtorch.core.op import BY_NAME


class Recorder:
    """A program being written down again by a repro script. ``inputs_file`` holds one array per input."""

    def __init__(self, name: str, inputs_file: Path) -> None:
        self.name = name
        self.file = inputs_file
        self.inputs: list[Var] = []
        self.eqns: list[Eqn] = []
        self.outputs: list[Atom] = []
        self.destinations: list[Destination] = []

    def input(self, hint: str, dtype: str, shape: tuple[int, ...]) -> Var:
        self.inputs.append(Var(Type(np.dtype(dtype), shape), hint))
        return self.inputs[-1]

    def add(
        self, op: str, inputs: Sequence[Atom], statics: dict[str, Any], at: tuple[str, int, str] | None = None
    ) -> tuple[Var, ...]:
        """One equation; its outputs."""
        outputs = tuple(Var(t) for t in types_of(BY_NAME[op], inputs, statics))
        self.eqns.append(Eqn(BY_NAME[op], tuple(inputs), statics, outputs, Source(*at) if at else None))
        return outputs

    def output(self, atom: Atom, kind: str, index: int) -> None:
        """The next output and what becomes of it: see ``plan.Destination``."""
        self.outputs.append(atom)
        self.destinations.append(Destination(Use(kind), index))

    @property
    def graph(self) -> Graph:
        return Graph(self.name, tuple(self.inputs), tuple(self.eqns), tuple(self.outputs))

    def arguments(self) -> list[np.ndarray]:
        """The arrays of the file, in order. Nothing in it is run."""
        with np.load(self.file, allow_pickle=False) as stored:
            arrays = [stored[f"input_{k}"] for k in range(len(self.inputs))]
        # NumPy's file knows no bfloat16: only that it is of two bytes
        return [
            a.view(v.dtype) if a.dtype.kind == "V" else a for a, v in zip(arrays, self.inputs, strict=True)
        ]

    def ready(self, fuel: Fuel, multiplies: Multiplies = Multiplies.WIDE) -> Graph:
        """The program through the passes, with at most so many rewrites, for a target whose products do so
        much with floats of 16 bits."""
        return through_passes(self.graph, fuel, multiplies)

    def planned(self, fuel: Fuel, multiplies: Multiplies = Multiplies.WIDE) -> Plan:
        """And through fusion and memory plan."""
        graph = self.ready(fuel, multiplies)
        return plan_memory(graph, fuse(graph, fuel), self.destinations)


def number(value: bool | int | float, dtype: str, static: bool = False) -> Literal:
    """A number in an equation."""
    return Literal(value, np.dtype(dtype), static)


# -- running it ----------------------------------------------------------------------------------------------


def stages(program: Recorder) -> Iterator[tuple[str, list[np.ndarray]]]:
    """(name, outputs) of every way to run ``program``, the plainest first."""
    arguments = program.arguments()
    check(program.graph)
    yield "interpreted", interpret(program.graph, arguments)
    plan = program.planned(Fuel(-1))
    yield "optimised, interpreted", interpret(plan.fused.graph, arguments)
    yield "source as plain Python", Machine(plan, PYTHON, arguments).run()
    yield "machine code", Machine(program.planned(Fuel(-1), CPU.multiplies), CPU, arguments).run()


def report(program: Recorder) -> int:
    """Run and compare all; print a table. 1 if a link differs from the one before, else 0."""
    rows = [("link", "against the one before")]
    tolerance = Tolerance(program.graph, program.arguments(), BUDGET)
    before: list[np.ndarray] | None = None
    for name, outputs in stages(program):
        told = "" if before is None else first_difference(tolerance, before, outputs) or "the same"
        rows.append((name, told))
        before = outputs
    print(aligned(rows))
    return int(any(told not in ("", "the same") for _, told in rows[1:]))


def first_difference(tolerance: Tolerance, expected: Sequence[Any], found: Sequence[Any]) -> str | None:
    """The first output that differs, in words."""
    for k, (a, b, atom) in enumerate(zip(expected, found, tolerance.graph.outputs, strict=True)):
        told = tolerance.differs(a, b, atom)
        if told:
            return f"output {k}: {told}"
    return None


# -- writing it down -----------------------------------------------------------------------------------------


def save_repro(asked: Asked, folder: Any) -> Path:
    """Write ``NAME.py`` and ``NAME.npz`` for the plan and the call asked about, now; the script's path.

    Where results are differentiated outside, the program is forward and backward pass in one. Raises
    CompileError where a function that is disabled for compiling is part of it: a file cannot hold that.
    """
    plan, leaves = asked.plan, asked.leaves or []
    capture = plan.capture
    for eqn in capture.graph.eqns:
        if BY_NAME.get(eqn.op.name) is not eqn.op:
            raise CompileError(
                f"{eqn.source}: '{eqn.op.name}' is disabled for compiling, and its Python cannot be written "
                "into a script: save a function without it."
            )
    arguments = graph_arguments(capture, leaves)
    arguments += [np.cos(np.arange(v.type.size)).reshape(v.shape).astype(v.dtype) for v in capture.cotangents]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() else "_" for c in capture.name).strip("_") or "program"
    script = folder / f"{name}.py"
    graph = plan.graph_for(capture.whole(leaves))
    script.write_text(_script(graph, _destinations(plan), asked.which), encoding="utf-8")
    arrays: dict[str, Any] = {f"input_{k}": a for k, a in enumerate(arguments)}
    np.savez(script.with_suffix(".npz"), **arrays)
    return script


def _destinations(plan: Any) -> list[Destination]:
    late = plan.capture.n_late
    n = len(plan.capture.graph.outputs) - late
    first = 1 + max((t.index for t in plan.destinations[:n] if t.kind is Use.RESULT), default=-1)
    return [*plan.destinations[:n], *(Destination(Use.RESULT, first + k) for k in range(late))]


_HEAD = '''"""The program {name!r} as jtorch recorded it.

    python {file}                            run it in every way and compare
    python -m jtorch.compile.inspect.bisect {file}   find the stage, the rewrite or fusion, that is wrong
"""

from pathlib import Path

from numpy import dtype

from jtorch.compile.inspect.repro import Recorder, number, report

inf, nan = float("inf"), float("nan")
g = Recorder({name!r}, Path(__file__).with_suffix(".npz"))
'''


def _script(graph: Graph, destinations: Sequence[Destination], which: str) -> str:
    names = {v: f"v_{name}" for v, name in _identifiers(graph).items()}

    def show(atom: Atom) -> str:
        if isinstance(atom, Var):
            return names[atom]
        return f"number({atom.value!r}, {atom.dtype.name!r}, {atom.static})"

    file = "".join(c if c.isalnum() else "_" for c in graph.name).strip("_") or "program"
    lines = [_HEAD.format(name=graph.name, file=f"{file}.py")]
    lines += [f"# {line}" for line in which.splitlines()]
    for var in graph.inputs:
        lines.append(f"{names[var]} = g.input({names[var][2:]!r}, {var.dtype.name!r}, {var.shape})")
    for eqn in graph.eqns:
        outs = "".join(f"{names[v]}, " for v in eqn.outputs)
        inputs = ", ".join(map(show, eqn.inputs))
        statics = ", ".join(f"{k!r}: {_encoded(v, eqn)}" for k, v in eqn.statics.items())
        at = f", at={(eqn.source.file, eqn.source.line, eqn.source.function)}" if eqn.source else ""
        lines.append(f"({outs.rstrip()}) = g.add({eqn.op.name!r}, [{inputs}], {{{statics}}}{at})")
    for atom, destination in zip(graph.outputs, destinations, strict=True):
        lines.append(f"g.output({show(atom)}, {destination.kind.value!r}, {destination.index})")
    return "\n".join([*lines, "", 'if __name__ == "__main__":', "    raise SystemExit(report(g))", ""])


def _identifiers(graph: Graph) -> dict[Var, str]:
    """Names that Python takes: hints come from keys of dicts, too."""
    taken: set[str] = set()
    found = {}
    for var, name in names_of(graph).items():
        plain = "".join(c if c.isalnum() else "_" for c in name)
        while plain in taken:
            plain += "_"
        taken.add(plain)
        found[var] = plain
    return found


def _encoded(value: Any, eqn: Eqn) -> str:
    if isinstance(value, np.dtype):
        return f"dtype({value.name!r})"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_encoded(v, eqn)}, " for v in value).rstrip() + ")"
    if isinstance(value, slice):
        return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    raise NotImplementedError(f"a repro cannot write down {value!r}, a static of {eqn.op.name}")
