"""One document: all that the compiler knows about a recorded function, as plain data with ids.

``docs/document.md`` describes it. Lines, nodes, equations, groups, steps, kernels and measured times name
each other by ids; pages, pictures and traces are views of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

from jtorch.compile.graph.ir import Eqn, Var
from jtorch.compile.inspect.document_program import (
    program_entry,
    programs_of,
    reasons_of,
    rewrite_entries,
)
from jtorch.compile.inspect.facts import in_short
from jtorch.compile.inspect.fitting import Asked
from jtorch.compile.inspect.ids import Entry, Ids
from jtorch.compile.inspect.ledger import Retrace
from jtorch.compile.inspect.naming import Named
from jtorch.compile.record.nodes import NodeNote
from jtorch.compile.run.lines import guards_of

SCHEMA = "jtorch.document"
VERSION = 1


def document(
    asked: Asked, name: str, named: Named, plans: Sequence[Any], retraces: Sequence[Retrace], more: bool
) -> Entry:
    """The document of one plan; with ``more`` its rewrites and the reasons of fusion, which are computed
    anew."""
    plan, sizing = asked.plan, asked.plan.capture.sizing
    ids = Ids(plan.capture.graph)
    with nullcontext() if sizing is None else sizing.env.looked_into():
        inputs = [{"value": ids.value(e.var), "name": e.label(named)} for e in plan.capture.inputs]
        recorded = ids.all_equations(plan.capture.graph.eqns)
        nodes = _nodes(plan.capture.nodes, named, ids)
        programs = []
        for program, role in programs_of(plan):
            entry = program_entry(program, role, ids)
            if more:
                entry["apart"] = reasons_of(plan, program, entry, ids)
            programs.append(entry)
        if more:
            programs[0]["rewrites"] = rewrite_entries(plan.forward, plan.program, ids)
        guards = list(_guards(plan, ids))
        measured = _measured(plan, programs[0])
    return {
        "schema": SCHEMA, "version": VERSION, "function": name, "plan": asked.which,
        "recordings": [_recording(p) for p in plans], "retraces": [_retrace(r, ids) for r in retraces],
        "times": _times(plan), "lines": list(ids.lines.values()), "values": list(ids.values.values()),
        "inputs": inputs, "nodes": nodes, "recorded": recorded, "equations": ids.entries(),
        "programs": programs, "guards": guards, "measured": measured,
    }  # fmt: skip


def _nodes(notes: Sequence[NodeNote], named: Named, ids: Ids) -> list[Entry]:
    """The tape; each recorded equation learns which node it belongs to."""
    names = {id(module): name for name, module in named.modules.items()}
    known = {note: ids.new("n") for note in notes}
    entries = []
    for note in notes:
        modules = (ref() for ref in note.modules)
        entry = {
            "id": known[note], "name": note.name, "line": ids.line(note.source),
            "parents": [known.get(p) if isinstance(p, NodeNote) else None for p in note.parents],
            "leaves": [ids.value(p) if isinstance(p, Var) else None for p in note.parents],
            "modules": [_module(m, names) for m in modules if m is not None],
            "forward": _of_node(note.forward, known[note], ids),
            "backward": _of_node(note.backward, known[note], ids),
        }  # fmt: skip
        entries.append(entry)
    return entries


def _module(module: Any, names: dict[int, str]) -> str:
    return names.get(id(module), type(module).__name__)


def _of_node(eqns: Sequence[Eqn], node: str, ids: Ids) -> list[str]:
    """Those of them that are in the graph."""
    here = [e for e in eqns if e in ids.equations]
    for eqn in here:
        ids.equations[eqn]["node"] = node
    return ids.all_equations(here)


def _guards(plan: Any, ids: Ids) -> Iterator[Entry]:
    """What each call is asked before the plan runs."""
    for guard in guards_of(plan.lines):
        if not guard.gives_up:
            yield {
                "id": ids.new("q"), "kind": guard.about.name.lower(), "expression": guard.text,
                "line": ids.line(guard.source),
            }  # fmt: skip
    for read in plan.capture.plain:
        if read.guarded:
            yield {
                "id": ids.new("q"), "kind": "read", "expression": str(read), "line": ids.line(read.source),
            }  # fmt: skip


def _measured(plan: Any, program: Entry) -> Entry | None:
    """What ``profile()`` found the latest time, by the steps that it timed together."""
    profile = plan.profiled
    if profile is None:
        return None
    ids = [step["id"] for step in program["steps"]]
    names = [step["name"] for step in program["steps"]]
    times = [
        {
            "steps": [ids[k] for k in step.tasks], "us": step.us, "flops": step.flops, "bytes": step.nbytes,
            "limit_us": step.limit_us(profile.limits),
        }
        for step in profile.steps
        if all(k < len(ids) for k in step.tasks)
    ]  # fmt: skip
    same = profile.tasks == tuple(names)  # for these sizes alone other steps may be planned
    return {"us": profile.us, "times": times if same else []}


def _times(plan: Any) -> Entry:
    """Seconds by stage of making the plan, and how many calls it took."""
    stages = {k: v for k, v in asdict(plan.timings).items() if k not in ("first_call", "kernels_compiled")}
    return {
        "stages": stages, "seconds": plan.timings.total,
        "kernels_compiled": plan.timings.kernels_compiled, "calls": plan.clock.count,
    }  # fmt: skip


def _recording(plan: Any) -> Entry:
    return {"number": plan.number, "arguments": in_short(plan.facts), "seconds": plan.timings.total}


def _retrace(entry: Retrace, ids: Ids) -> Entry:
    return {
        "outcome": entry.outcome, "line": ids.line(entry.where), "milliseconds": entry.milliseconds,
        "kernels_compiled": entry.kernels_compiled, "causes": [c._asdict() for c in entry.changes],
    }  # fmt: skip
