"""The part of a document about one program: its optimised graph, groups, steps, kernels and memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jtorch.compile.inspect.explain import not_fused
from jtorch.compile.inspect.ids import Entry, Ids
from jtorch.compile.inspect.rewrites import rewrites_of
from jtorch.compile.plan.fuse import Group, Step
from jtorch.compile.plan.plan import Plan, SlotAt, Task, Where
from jtorch.compile.plan.scratch import lifetimes, padded
from jtorch.core import config
from jtorch.core.dim import value_of


def program_entry(program: Any, role: str, ids: Ids) -> Entry:
    """What is known of ``program``, which a call runs as its ``role``: "call" or "backward"."""
    plan: Plan = program.plan
    graph = program.graph
    kernels = _kernels(program, ids)
    groups, group_of = _groups(plan, ids)
    steps = [_step(task, program.code.kernels.get(task), ids, kernels, group_of) for task in plan.tasks]
    places, nbytes = _places(plan, ids)
    return {
        "id": ids.new("p"), "role": role, "name": graph.name, "target": program.target.name,
        "inputs": [ids.value(v) for v in graph.inputs],
        "outputs": [ids.value(v) for v in graph.outputs],
        "equations": ids.all_equations(graph.eqns),
        "groups": groups, "steps": steps, "kernels": list(kernels.values()),
        "places": places, "arena_bytes": nbytes,
    }  # fmt: skip


def reasons_of(plan: Any, program: Any, entry: Entry, ids: Ids) -> list[Entry]:
    """Why neighbours are not in one group: each pair by the ids of their groups."""
    group_of = {e: group["id"] for group in entry["groups"] for e in group["equations"]}
    found = []
    for producer, consumer, var, reason in not_fused(plan, program):
        pair = [group_of.get(ids.equation(e)) for e in (producer, consumer)]
        found.append({"producer": pair[0], "consumer": pair[1], "value": ids.value(var), "reason": reason})
    return found


def rewrite_entries(graph: Any, program: Any, ids: Ids) -> list[Entry]:
    """Each change from ``graph`` to the graph of ``program``."""
    changes, final = rewrites_of(graph, int(config.get("FUEL")))
    ids.same(final, program.graph)
    return [
        {
            "id": ids.new("w"), "pass": c.stage, "rule": c.rule,
            "gone": ids.all_equations(c.gone), "come": ids.all_equations(c.come),
            "uses": [[ids.equation(a), ids.equation(b)] for a, b in c.uses],
        }
        for c in changes
    ]  # fmt: skip


def _kernels(program: Any, ids: Ids) -> dict[str, Entry]:
    """By their text: kernels of one text are one."""
    return {
        text: {"id": ids.new("k"), "name": kernel.entry, "source": text}
        for text, kernel in program.code.texts().items()
    }


def _groups(plan: Plan, ids: Ids) -> tuple[list[Entry], dict[Step, str]]:
    """The groups, and the id of that of each step."""
    found: dict[Group, Entry] = {}
    of: dict[Step, str] = {}
    entries: list[Entry] = []
    for task in plan.tasks:
        group = task.step.group
        entry = found.get(group) if group is not None else None
        if entry is None:
            entry = {
                "id": ids.new("g"), "style": str("call" if group is None else group.style),
                "domain": [] if group is None else [str(n) for n in group.domain],
                "equations": [],
            }  # fmt: skip
            entries.append(entry)
            if group is not None:
                found[group] = entry
        entry["equations"] += ids.all_equations(task.step.eqns)
        of[task.step] = entry["id"]
    return entries, of


def _step(task: Task, kernel: Any, ids: Ids, kernels: dict[str, Entry], group_of: dict[Step, str]) -> Entry:
    return {
        "id": ids.new("s"), "name": task.name, "kind": str(task.step.kind),
        "line": next((ids.line(e.source) for e in task.step.eqns if e.source is not None), None),
        "group": group_of[task.step], "kernel": None if kernel is None else kernels[kernel.source]["id"],
        "equations": ids.all_equations(task.step.eqns),
        "reads": sorted(map(ids.value, task.reads)), "writes": sorted(map(ids.value, task.writes)),
    }  # fmt: skip


def _places(plan: Plan, ids: Ids) -> tuple[list[Entry], int]:
    """Where each value lies, those in the arena with the first and the last step that need it; the arena's
    size in bytes, where sizes are symbols as it is in this run."""
    begins = _begins(plan)
    elsewhere = {v for v, place in plan.places.items() if place.kind is not Where.ARENA}
    born, dies = lifetimes(plan.tasks, elsewhere, plan.parts)
    found = []
    for var, place in plan.places.items():
        at = place.at
        if place.kind is Where.ARENA:
            at = begins[at.slot] + value_of(at.begin) if isinstance(at, SlotAt) else at
        entry = {"value": ids.value(var), "kind": str(place.kind), "at": int(at)}
        if var in born:
            entry |= {"born": born[var], "dies": dies[var]}
        found.append(entry)
    return found, begins[-1] if plan.slots else int(value_of(plan.arena_bytes))


def _begins(plan: Plan) -> list[int]:
    """Where each slot of the arena begins, and its end."""
    found = [0]
    for sizes in plan.slots:
        found.append(found[-1] + padded(max(int(value_of(n)) for n in sizes)))
    return found


def programs_of(plan: Any) -> Iterator[tuple[Any, str]]:
    """The programs of a compiled plan that there are by now, with their roles."""
    yield plan.program, "call"
    if plan.backward is not None:
        for programs in list(plan.backward.programs.values()):
            yield from ((program, "backward") for program in programs)
