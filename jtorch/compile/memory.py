"""Where everything lives and when it runs: in-place updates, the order of steps, the arena.

Each variable gets a *place*: the memory of a graph input, a result that leaves the call, a gradient buffer of
the plan, or an offset in the arena. Written-back outputs go straight into the memory they
update where no reader of the old value comes later; otherwise they are computed aside and copied at the end.
No memory that the caller sees is written before the last step that can fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from jtorch.compile.access import layout_of
from jtorch.compile.codegen.source import Kernel, write_kernel
from jtorch.compile.fuse import Fused, Group, Step
from jtorch.compile.ir import Eqn, Graph, Var
from jtorch.compile.loops import Gather, Load, Nest, Store, build_nest
from jtorch.op import BY_NAME

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


@dataclass(frozen=True, slots=True)
class Place:
    """Memory. ``kind`` is "input", "result", "grad" or "arena"; ``at`` a number, or bytes for the arena."""

    kind: str
    at: int


@dataclass(frozen=True, slots=True)
class Target:
    """What becomes of one output of the graph: "result", "grad", or "write" into input ``index``."""

    kind: str
    index: int


@dataclass(eq=False)
class Task:
    """A step with everything known about it but its addresses."""

    step: Step
    reads: frozenset[Var]
    writes: frozenset[Var]
    nest: Nest | None = None
    kernel: Kernel | None = None
    visible: bool = False  # writes memory the caller sees

    @property
    def can_fail(self) -> bool:
        if self.nest is None:
            return self.step.kind == "host"
        checked = any(isinstance(v, Gather) and v.bound is not None for v in self.nest.values())
        return checked or any(e.op.check and e.outputs[0].dtype.kind in "iu" for e in self.step.eqns)


@dataclass(frozen=True, eq=False)
class Plan:
    """Tasks in order, a place for each variable in memory, and the size of the arena in bytes."""

    fused: Fused
    targets: tuple[Target, ...]
    tasks: tuple[Task, ...]
    places: dict[Var, Place]
    arena_bytes: int


def plan_memory(graph: Graph, fused: Fused, targets: Iterable[Target]) -> Plan:
    """Give every variable its place and every step its turn."""
    return _Planner(graph, fused, list(targets)).plan()


class _Planner:
    def __init__(self, graph: Graph, fused: Fused, targets: list[Target]) -> None:
        self.graph = graph
        self.fused = fused
        self.targets = targets
        self.places: dict[Var, Place] = {v: Place("input", k) for k, v in enumerate(graph.inputs)}
        self.tasks = [self._task(s) for s in fused.steps]
        self.writer = {v: t for t in self.tasks for v in t.writes}
        self.after: dict[Task, set[Task]] = {t: self._producers(t) for t in self.tasks}

    def plan(self) -> Plan:
        self._place_outputs()
        self._failures_first()
        for task in self.tasks:
            if task.nest is not None:
                task.kernel = write_kernel(task.nest, lambda v: self.places.get(v, v))
        order = self._ordered()
        arena = self._allocate(order)
        return Plan(self.fused, tuple(self.targets), tuple(order), self.places, arena)

    # -- tasks -------------------------------------------------------------------------------------------

    def _task(self, step: Step) -> Task:
        if step.kind == "loop":
            nest = build_nest(step, self.fused)
            reads = {v.var for v in nest.values() if isinstance(v, (Load, Gather))}
            writes = {s.var for s in nest.stores} | {s.var for s in nest.scatters}
            if nest.style == "column":
                writes |= {r.var for r in nest.reductions}
            return Task(step, frozenset(reads - writes), frozenset(writes), nest)
        (eqn,) = step.eqns
        owners = [layout_of(a, self.fused.find) for a in eqn.inputs if isinstance(a, Var)]
        return Task(step, frozenset(o.owner for o in owners if o), frozenset(eqn.outputs))

    def _producers(self, task: Task) -> set[Task]:
        return {self.writer[v] for v in task.reads if v in self.writer}

    def _readers(self, var: Var) -> set[Task]:
        return {t for t in self.tasks if var in t.reads}

    # -- outputs -----------------------------------------------------------------------------------------

    def _place_outputs(self) -> None:
        for atom, target in zip(self.graph.outputs, self.targets, strict=True):
            assert isinstance(atom, Var)
            if target.kind == "write":
                old = self.graph.inputs[target.index]
                if not self._write_in_place(atom, old):
                    self._write_at_the_end(atom, self.places[old], self._readers(old))
            elif target.kind == "grad" and self._failure_depends(self.writer[atom]):
                self._write_at_the_end(atom, Place("grad", target.index), set())
            else:
                self.places[atom] = Place(target.kind, target.index)
                self.writer[atom].visible = target.kind == "grad"

    def _write_in_place(self, var: Var, old: Var) -> bool:
        """Let the step that makes ``var`` write it over ``old``, if nobody reads ``old`` later."""
        task = self.writer[var]
        if self._failure_depends(task) or (old in task.reads and not overwrites_safely(task, var, old)):
            return False
        readers = self._readers(old) - {task}
        if any(self._depends(r, task) for r in readers):
            return False
        self.after[task] |= readers
        self.places[var] = self.places[old]
        task.visible = True
        return True

    def _failure_depends(self, task: Task) -> bool:
        """Whether a step that can fail is, or comes after, ``task``."""
        return any(t.can_fail and self._depends(t, task) for t in self.tasks)

    def _write_at_the_end(self, var: Var, place: Place, readers: set[Task]) -> None:
        """Copy ``var`` to ``place`` when everything that reads what is there now has run."""
        out = Var(var.type, var.hint)
        eqn = Eqn(BY_NAME["clone"], (var,), {}, (out,))
        group = Group([eqn], var.shape)
        made_by = {**self.fused.made_by, out: eqn}
        steps = (*self.fused.steps, Step("loop", (eqn,), group))
        self.fused = replace(
            self.fused, steps=steps, stored=self.fused.stored | {out}, made_by=made_by
        )
        task = self._task(steps[-1])
        self.tasks.append(task)
        self.writer[out] = task
        self.after[task] = self._producers(task) | readers
        self.places[out] = place
        task.visible = True

    def _depends(self, task: Task, on: Task) -> bool:
        stack, seen = [task], set()
        while stack:
            t = stack.pop()
            if t is on:
                return True
            if t not in seen:
                seen.add(t)
                stack += self.after[t]
        return False

    def _failures_first(self) -> None:
        """What the caller sees changes only after the last step that can fail."""
        failing = [t for t in self.tasks if t.can_fail]
        for task in self.tasks:
            if task.visible:
                self.after[task] |= {f for f in failing if f is not task and not self._depends(f, task)}

    # -- order ---------------------------------------------------------------------------------------------

    def _ordered(self) -> list[Task]:
        """Topological; hidden work first, then visible writes, equal kernels side by side."""
        waiting = {t: len(self.after[t]) for t in self.tasks}
        followers: dict[Task, list[Task]] = {t: [] for t in self.tasks}
        for task, before in self.after.items():
            for b in before:
                followers[b].append(task)
        place = {t: k for k, t in enumerate(self.tasks)}
        ready = [t for t in self.tasks if not waiting[t]]
        order: list[Task] = []
        while ready:
            last = order[-1].kernel if order else None
            ready.sort(key=lambda t: (not _same_kernel(t, last), t.visible, place[t]))
            task = ready.pop(0)
            if task.visible and not _same_kernel(task, last) and any(not t.visible for t in ready):
                hidden = next(t for t in ready if not t.visible)
                ready.remove(hidden)
                ready.append(task)
                task = hidden
            order.append(task)
            for f in followers[task]:
                waiting[f] -= 1
                if not waiting[f]:
                    ready.append(f)
        assert len(order) == len(self.tasks), "the schedule has a cycle"
        return order

    # -- the arena -----------------------------------------------------------------------------------------

    def _allocate(self, order: list[Task]) -> int:
        """Offsets for everything that has no place yet, reusing memory nobody reads any more."""
        born: dict[Var, int] = {}
        dies: dict[Var, int] = {}
        for k, task in enumerate(order):
            for var in task.writes:
                if var not in self.places:
                    born[var] = dies[var] = k
            for var in task.reads:
                if var in born:
                    dies[var] = k
        taken: list[tuple[int, int, int, int]] = []  # (offset, end, born, dies)
        top = 0
        for var in sorted(born, key=lambda v: (-v.type.nbytes, born[v])):
            size = _padded(var.type.nbytes)
            clashes = sorted(t for t in taken if t[2] <= dies[var] and born[var] <= t[3])
            offset = _first_gap(clashes, size)
            taken.append((offset, offset + size, born[var], dies[var]))
            self.places[var] = Place("arena", offset)
            top = max(top, offset + size)
        return top


def _same_kernel(task: Task, kernel: Kernel | None) -> bool:
    return kernel is not None and task.kernel is not None and task.kernel.source == kernel.source


def _padded(nbytes: int) -> int:
    return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)


def _first_gap(clashes: list[tuple[int, int, int, int]], size: int) -> int:
    offset = 0
    for start, end, _, _ in clashes:
        if start - offset >= size:
            break
        offset = max(offset, end)
    return offset


def overwrites_safely(task: Task, var: Var, old: Var) -> bool:
    """Whether a loop step may store ``var`` over ``old``, which it reads: each element is read only where it
    is written, and not again in a later pass."""
    nest = task.nest
    if nest is None or nest.style in ("column", "scatter"):
        return False
    store: Store | None = next((s for s in nest.stores if s.var is var), None)
    if store is None or (nest.style == "row" and store.value.stage != nest.last_stage):
        return False
    for value in nest.values():
        if isinstance(value, Gather) and value.var is old:
            return False
        if isinstance(value, Load) and value.var is old and value.at != store.at:
            return False
    return True
