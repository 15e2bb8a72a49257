"""``f.explain()``: what a compiled function captured, computes, fused and guards."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from jtorch.compile.graph.ir import Eqn, Graph, Type, Var, names_of
from jtorch.compile.graph.passes import Fuel
from jtorch.compile.inspect.fitting import Asked
from jtorch.compile.inspect.ledger import aligned
from jtorch.compile.inspect.naming import Named
from jtorch.compile.plan.fuse import Fuser, StepKind, drawback, obstacle
from jtorch.compile.plan.plan import Where
from jtorch.compile.run.lines import guards_of
from jtorch.core import config


@dataclass(frozen=True)
class Captured:
    """A value that the function reached by itself. ``written``: each call changes it."""

    name: str
    type: Type
    written: bool


@dataclass(frozen=True)
class Step:
    """One kernel or library call. ``kind`` is "kernel", "gemm" or "host"; ``source`` the first user line."""

    name: str
    kind: str
    ops: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class NotFused:
    """Two steps, one of which reads what the other makes, and why: ``value`` goes through memory."""

    producer: str
    consumer: str
    value: str
    reason: str


@dataclass(frozen=True)
class Explanation:
    """Everything about one plan of the function ``name``, in words ``plan``; ``str()`` of it is a page.

    ``peak_bytes`` is what a call needs beside its inputs: scratch memory, gradients and results. ``segments``
    counts the native pieces, ``host_calls`` the library calls by Python between them.
    """

    name: str
    ops: Counter[str]
    captured: tuple[Captured, ...]
    steps: tuple[Step, ...]
    not_fused: tuple[NotFused, ...]
    arena_bytes: int
    peak_bytes: int
    guards: tuple[str, ...]
    segments: int
    host_calls: int
    plan: str = ""

    def __str__(self) -> str:
        kernels = sum(s.kind == "kernel" for s in self.steps)
        calls = len(self.steps) - kernels
        lines = [
            f"{self.name}: {self.ops.total()} ops as {kernels} kernels and {calls} library calls",
            *self.plan.splitlines(),
            f"runs as {self.segments} native segments with {self.host_calls} host calls between them",
            f"memory: {self.arena_bytes} bytes of scratch, {self.peak_bytes} with gradients and results",
            "ops: " + ", ".join(f"{name} x{n}" if n > 1 else name for name, n in self.ops.most_common()),
            *_section(
                "captured state",
                [(c.name, str(c.type), "written" if c.written else "") for c in self.captured],
            ),
            *_section("steps", [(s.kind, s.name, " ".join(s.ops), s.source) for s in self.steps]),
            *_section(
                "not fused", [(f"{n.producer} -> {n.consumer}", n.value, n.reason) for n in self.not_fused]
            ),
            *_section("guards", [(g,) for g in self.guards]),
        ]
        return "\n".join(lines)


def _section(title: str, rows: list[tuple[str, ...]]) -> list[str]:
    if not rows:
        return [f"{title}: none"]
    return [f"{title}: {len(rows)}", *("  " + line for line in aligned(rows).splitlines())]


def explain(asked: Asked, name: str, named: Named) -> Explanation:
    """Explain one compiled plan."""
    plan = asked.plan
    graph, planned = plan.program.graph, plan.program.plan
    kinds = [t.step.kind for t in planned.tasks]
    outside = sum(_bytes(v) for v, p in planned.places.items() if p.kind in (Where.GRAD, Where.RESULT))
    return Explanation(
        name=name,
        ops=Counter(e.op.name for e in graph.eqns),
        captured=tuple(_captured(plan, named)),
        steps=tuple(_steps(planned)),
        not_fused=tuple(_not_fused(plan)),
        arena_bytes=planned.arena_bytes,
        peak_bytes=planned.arena_bytes + outside,
        guards=tuple(_guards(plan)),
        segments=_segments(kinds),
        host_calls=kinds.count(StepKind.HOST),
        plan=asked.which,
    )


def _bytes(var: Var) -> int:
    return math.prod(var.shape) * var.dtype.itemsize


def _segments(kinds: list[StepKind]) -> int:
    """Runs of steps without a host call."""
    native = [kind is not StepKind.HOST for kind in kinds]
    return sum(now and not before for before, now in zip([False, *native], native, strict=False))


def _captured(plan: Any, named: Named) -> Iterator[Captured]:
    for entry in plan.capture.inputs:
        if entry.argument is None:
            yield Captured(entry.label(named), entry.var.type, entry.written)


def _steps(planned: Any) -> Iterator[Step]:
    for task in planned.tasks:
        kind = "kernel" if task.nest is not None else task.step.kind.value
        ops = tuple(e.op.name for e in task.step.eqns)
        sources = [e.source for e in task.step.eqns if e.source is not None]
        yield Step(task.name, kind, ops, _place(sources[0]) if sources else "")


def _place(source: Any) -> str:
    file = source.file.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{file}:{source.line} {source.function}"


def _not_fused(plan: Any) -> Iterator[NotFused]:
    program = plan.program
    entry = {e: t.name for t in program.plan.tasks if t.nest is not None for e in t.step.eqns}
    names = names_of(program.graph)
    for producer, consumer, var, reason in not_fused(plan, program):
        first, second = (entry.get(e, e.op.name) for e in (producer, consumer))
        yield NotFused(first, second, names[var], reason)


def not_fused(plan: Any, program: Any) -> list[tuple[Eqn, Eqn, Var, str]]:
    """Pairs of groups of ``program``, one of those of ``plan``, by their first equations, along the edges of
    the graph: with the value that goes through memory, and the reason that keeps them apart."""
    sizing = plan.capture.sizing
    with nullcontext() if sizing is None else sizing.env.looked_into():
        return list(_reasons(program.graph))


def _reasons(graph: Graph) -> Iterator[tuple[Eqn, Eqn, Var, str]]:
    fuser = Fuser(graph, Fuel(int(config.get("FUEL"))))
    fuser.run()
    seen: set[tuple[int, int]] = set()
    for eqn in graph.eqns:
        group = fuser.group_of.get(eqn)
        for var in fuser.reader.grouped_inputs(eqn) if group is not None else ():
            maker = fuser.reader.find(var)
            first = fuser.group_of.get(maker) if maker is not None else None
            if first is None or group is None or first is group or (id(first), id(group)) in seen:
                continue
            seen.add((id(first), id(group)))
            reason = obstacle(first, group, fuser) or drawback(first, group, fuser) or "JTORCH_FUEL ran out"
            yield first.eqns[0], group.eqns[0], var, reason


def _guards(plan: Any) -> Iterator[str]:
    """The tests before a replay, as the generated code has them, and what was read from outside."""
    yield from (guard.text for guard in guards_of(plan.lines) if not guard.gives_up)
    yield from (str(read) for read in plan.capture.plain if read.guarded)
