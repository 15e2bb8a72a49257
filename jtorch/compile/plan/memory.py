"""Where everything lives and when it runs: in-place updates, the order of steps, the arena.

Each variable gets a *place*: the memory of a graph input, a result that leaves the call, a gradient buffer of
the plan, or an offset in the arena. Written-back outputs go straight into the memory they
update where no reader of the old value comes later; otherwise they are computed aside and copied at the end.
No memory that the caller sees is written before the last step that may stop with an error; a step that checks
only what others have checked before is none.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from jtorch.compile.graph.access import layout_of
from jtorch.compile.graph.at_sizes import has_symbols
from jtorch.compile.graph.halves import widens
from jtorch.compile.graph.ir import Eqn, Graph, Var
from jtorch.compile.graph.reads import runs_in_loops
from jtorch.compile.plan.fuse import Fused, Group, Step, StepKind, Style
from jtorch.compile.plan.in_place import overwrites_safely
from jtorch.compile.plan.joins import memory_of, owner_of, stacked
from jtorch.compile.plan.loops import Gather, Load, build_nest
from jtorch.compile.plan.plan import Destination, Part, Place, Plan, Run, Schedule, Task, Use, Where
from jtorch.compile.plan.scratch import lay_out, overwriting
from jtorch.compile.plan.slots import slots_of
from jtorch.compile.plan.steps import steps_of
from jtorch.compile.plan.tiles import Memory, runs_of
from jtorch.core.op import BY_NAME

_BACKGROUND = "background"  # the queue of what runs there


def plan_memory(graph: Graph, fused: Fused, destinations: Iterable[Destination]) -> Plan:
    """Give every variable its place and every step its turn."""
    return _Planner(graph, fused, list(destinations)).plan()


class _Planner:
    def __init__(self, graph: Graph, fused: Fused, destinations: list[Destination]) -> None:
        self.graph = graph
        self.steps, self.stored, self.made_by = [*fused.steps], {*fused.stored}, {**fused.made_by}
        self.fused = Fused(graph, self.steps, self.stored, self.made_by)  # as it is by now
        self.destinations = destinations
        self.places: dict[Var, Place] = {v: Place(Where.INPUT, k) for k, v in enumerate(graph.inputs)}
        self.tasks: list[Task] = []
        self.after: dict[Task, set[Task]] = {}
        self.before: dict[Task, set[Task]] = {}
        self.writer: dict[Var, Task] = {}
        self.readers: dict[Var, set[Task]] = {}
        self.parts: dict[Var, Part] = {}
        self.makers: dict[Var, list[Task]] = {}  # of what is made in parts
        for step in fused.steps:
            self._add(step, self.fused)
        self.failing = set(self._failing())
        self.before_failing = _closure(self.failing, self.after)

    def plan(self) -> Plan:
        self._place_outputs()
        self._failures_first()
        for task in [*self.tasks]:
            self._join_in_place(task)
        self._background_first()
        order = self._ordered()
        over = overwriting(order, self.places, self.parts)
        runs: list[Run] = []
        begins: dict[Var, Any]
        schedule = None
        if has_symbols(self.graph):
            begins, slots = slots_of(order, self.places, self.parts, over)
            arena = 0
            self._read_before(order, over)
            schedule = Schedule(self.after, over)
        else:
            order, runs = self._in_runs(order, over)
            begins, arena = lay_out(order, self.places, self.parts, over, runs)
            slots = ()
        self.places.update({var: Place(Where.ARENA, at) for var, at in begins.items()})
        outs = tuple(self.destinations)
        found = tuple(runs), slots, schedule
        fused = Fused(self.graph, tuple(self.steps), frozenset(self.stored), self.made_by)
        return Plan(fused, outs, tuple(order), self.places, arena, self.parts, *found)

    # -- tasks -------------------------------------------------------------------------------------------

    def _add(self, step: Step, fused: Fused) -> Task:
        """The task of a step, which comes after those that make what it reads."""
        task = _task(step, fused)
        self.tasks.append(task)
        self.after[task], self.before[task] = set(), set()
        self.writer.update((v, task) for v in task.writes)
        for var in task.reads:
            self.readers.setdefault(var, set()).add(task)
            self._order(self.makers.get(var) or [self.writer[var]] if var in self.writer else (), task)
        return task

    def _order(self, first: Iterable[Task], second: Task) -> None:
        for task in first:
            self.after[second].add(task)
            self.before[task].add(second)

    def _failing(self) -> Iterator[Task]:
        """The steps that may stop with an error. One that only checks what others have checked may not: it
        comes after them. So a gradient is added up where an index says by which the forward pass has read."""
        made: dict[tuple, Task] = {}
        for task in self.tasks:
            checks = task.checks
            if checks and checks <= made.keys():
                self._order({made[check] for check in checks}, task)
            elif task.can_fail:
                yield task
                made |= {check: task for check in checks if check not in made}

    # -- outputs -----------------------------------------------------------------------------------------

    def _place_outputs(self) -> None:
        for atom, destination in zip(self.graph.outputs, self.destinations, strict=True):
            assert isinstance(atom, Var)
            if destination.kind is Use.WRITE:
                old = self.graph.inputs[destination.index]
                if not self._write_in_place(atom, old):
                    self._write_at_the_end(atom, self.places[old], self.readers.get(old, set()))
            elif destination.kind is Use.GRAD and self.writer[atom] in self.before_failing:
                self._write_at_the_end(atom, destination.place, set())
            else:
                self.places[atom] = destination.place
                self.writer[atom].visible |= destination.kind is Use.GRAD  # a step may write in place, too

    def _write_in_place(self, var: Var, old: Var) -> bool:
        """Let the step that makes ``var`` write it over ``old``, if nobody reads ``old`` later."""
        task = self.writer[var]
        if task in self.before_failing or (old in task.reads and not overwrites_safely(task, var, old)):
            return False
        readers = self.readers.get(old, set()) - {task}
        if not readers.isdisjoint(_closure({task}, self.before)):
            return False
        self._order(readers, task)
        self.places[var] = self.places[old]
        task.visible = True
        return True

    def _write_at_the_end(self, var: Var, place: Place, readers: set[Task]) -> None:
        """Copy ``var`` to ``place`` when everything that reads what is there now has run."""
        # a number is copied too, not computed again: what it was made of may have changed by then
        out = self._copy(var, again=False)
        task = self.writer[out]
        self._order(readers - {task}, task)
        self.places[out] = place
        task.visible = True

    def _copy(self, var: Var, again: bool = True) -> Var:
        """Another variable with the elements of ``var``, and the step that makes it: from memory or, where
        ``again``, by what made ``var``, if that is no step of its own."""
        out, step = self._copied(var)
        self.steps.append(step)
        self._add(step, self.fused if again else replace(self.fused, made_by={out: self.made_by[out]}))
        return out

    def _copied(self, var: Var) -> tuple[Var, Step]:
        """Such a variable, stored and made by its step."""
        out = Var(var.type, var.hint)
        eqn = Eqn(BY_NAME["clone"], (var,), {}, (out,))
        looped = runs_in_loops(eqn)
        step = Step(StepKind.LOOP, (eqn,), Group([eqn], var.shape)) if looped else Step(StepKind.HOST, (eqn,))
        self.stored.add(out)
        self.made_by[out] = eqn
        return out, step

    def _failures_first(self) -> None:
        """What the caller sees changes only after the last step that can fail. No such step waits for a
        visible one, so this makes no cycle."""
        for task in self.tasks:
            if task.visible:
                self._order(self.failing - {task}, task)

    def _join_in_place(self, task: Task) -> None:
        """Leave a step out that only copies what others may write where it belongs."""
        eqn = stacked(task)
        if eqn is None or not self._has_free_memory(eqn.outputs[0]):
            return
        parts: list[Var | None] = []
        for atom in eqn.inputs:
            assert isinstance(atom, Var)
            owner = owner_of(atom, self.fused.find)
            alone = owner is not None and owner not in parts and self._has_free_memory(owner)
            parts.append(owner if alone else None)
            if not alone and not self._reads_no_more(atom, task):
                return
        (whole,) = eqn.outputs
        begin = 0
        makers = self.makers[whole] = []
        others = len(self.tasks)
        for atom, part in zip(eqn.inputs, parts, strict=True):
            var = self._copy(atom) if part is None else part  # type: ignore[arg-type]
            self.parts[var] = Part(whole, begin)
            begin += var.type.nbytes
            makers.append(self.writer[var])
        for reader in self.before[task]:
            self._order(makers, reader)
        copies = self.tasks[others:]
        del self.tasks[others:]
        self._replace(task, copies)

    def _reads_no_more(self, var: Var, task: Task) -> bool:
        """Whether a copy of ``var`` reads what ``task`` reads: only of that it is known that it is not
        overwritten before. A copy of a number computes it again, from what may have changed by then."""
        out, step = self._copied(var)
        reads = _task(step, self.fused).reads
        self.stored.discard(out)
        del self.made_by[out]
        return reads <= task.reads

    def _replace(self, task: Task, copies: list[Task]) -> None:
        """Put others in the place of a step: that in the program's order."""
        for var in task.reads:
            self.readers[var].discard(task)
        for other in self.after.pop(task):
            self.before[other].discard(task)
        for other in self.before.pop(task):
            self.after[other].discard(task)
        place = self.tasks.index(task)
        self.tasks[place : place + 1] = copies

    def _has_free_memory(self, var: Var) -> bool:
        """Whether a kernel of this plan or a product makes it, in memory that nobody has chosen yet."""
        if var in self.places or var in self.parts or var in self.makers or var not in self.writer:
            return False
        return self.writer[var].step.kind is not StepKind.HOST

    # -- order ---------------------------------------------------------------------------------------------

    def _background_first(self) -> None:
        """What runs in the background begins in the program's order, and nobody reads it before all of that
        has begun that stands before the reader: so it has the time of what stands between."""
        begun = [t for t in self.tasks if t.in_background]
        place = {t: k for k, t in enumerate(self.tasks)} if begun else {}
        for first, second in itertools.pairwise(begun):
            self._order([first], second)
        for task in begun:
            for reader in [r for v in task.writes for r in self.readers.get(v, ())]:
                self._order([t for t in begun if place[t] < place[reader]], reader)

    def _ordered(self) -> list[Task]:
        """Topological, in the program's order but that nests that are alike stand side by side."""
        waiting = {t: len(self.after[t]) for t in self.tasks}
        ready = _Ready(self.tasks, hidden_first=any(t.in_background for t in self.tasks))
        for free in self.tasks:
            if not waiting[free]:
                ready.add(free)
        order: list[Task] = []
        while (task := ready.next(order[-1] if order else None)) is not None:
            order.append(task)
            for follower in self.before[task]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    ready.add(follower)
        assert len(order) == len(self.tasks), "the schedule has a cycle"
        return order

    def _in_runs(self, order: list[Task], over: dict[Var, Var]) -> tuple[list[Task], list[Run]]:
        """The order with its runs in one piece. While something runs in the background, whoever waits for it
        ends what the executor does in one go."""
        if any(t.in_background for t in order):
            return order, []
        self._read_before(order, over)
        memory = Memory(self.parts, over)
        return runs_of(steps_of(order, self.fused.find, memory), self.after)

    def _read_before(self, order: list[Task], over: dict[Var, Var]) -> None:
        """Have what is written over be read before, as it was."""
        touching: dict[Var, list[Task]] = {}
        for task in order:
            for var in {memory_of(v, self.parts) for v in (*task.reads, *task.writes)}:
                touching.setdefault(var, []).append(task)
        for var, old in over.items():
            self._order([t for t in touching[old] if t is not self.writer[var]], self.writer[var])


def _task(step: Step, fused: Fused) -> Task:
    if step.kind is StepKind.LOOP:
        nest = build_nest(step, fused)
        reads = {v.var for v in nest.values() if isinstance(v, (Load, Gather))}
        writes = {s.var for s in nest.stores} | {s.var for s in nest.scatters}
        if nest.style is Style.COLUMN:
            writes |= {r.var for r in nest.reductions}
        return Task(step, frozenset(reads - writes), frozenset(writes), nest)
    (eqn,) = step.eqns
    owners = [layout_of(a, fused.find) for a in eqn.inputs if isinstance(a, Var)]
    return Task(step, frozenset(o.owner for o in owners if o), frozenset(eqn.outputs))


def _closure(tasks: set[Task], edges: dict[Task, set[Task]]) -> set[Task]:
    """``tasks`` and everything that can be reached from them."""
    found = set(tasks)
    stack = list(tasks)
    while stack:
        more = edges[stack.pop()] - found
        found |= more
        stack += more
    return found


class _Ready:
    """Tasks whose turn has come, asked for by what they are like and by place."""

    def __init__(self, tasks: list[Task], hidden_first: bool) -> None:
        self.hidden_first = hidden_first  # the first visible write waits for all that runs in the background
        self.place = {t: k for k, t in enumerate(tasks)}
        self.tasks = tasks
        nests = [(t, t.nest) for t in tasks if t.nest is not None and not all(map(widens, t.step.eqns))]
        self.likeness = {task: nest.likeness for task, nest in nests}  # conversions stay near their readers
        self.queues: dict[Hashable, list[int]] = {_BACKGROUND: [], True: [], False: []}
        self.taken: set[int] = set()

    def add(self, task: Task) -> None:
        queue = _BACKGROUND if task.in_background else self.hidden_first and task.visible
        heapq.heappush(self.queues[queue], self.place[task])
        if task in self.likeness:
            heapq.heappush(self.queues.setdefault(self.likeness[task], []), self.place[task])

    def next(self, last: Task | None) -> Task | None:
        """One that goes on in the background, else one like ``last``, a hidden one where those come first,
        any; the earliest."""
        same = [self.likeness[last]] if last in self.likeness else []
        names: list[Hashable] = [_BACKGROUND, *same, False, True]
        for name in names:
            queue = self.queues[name]
            while queue:
                place = heapq.heappop(queue)
                if place not in self.taken:
                    self.taken.add(place)
                    return self.tasks[place]
        return None
