"""The nouns of the planner: a task, a place in memory, what becomes of an output, and the plan they make up.

Whoever cuts, orders or places reads and writes these; none of them decides anything.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jtorch.compile.graph.ir import Var
from jtorch.compile.graph.reads import checks_of, is_checked, may_fail
from jtorch.compile.plan.fuse import Fused, Step, StepKind
from jtorch.compile.plan.loops import Gather, Nest
from jtorch.core.pieces import Piece


class Where(enum.StrEnum):
    """Whose memory it is."""

    INPUT = "input"  # that of an input of the graph
    RESULT = "result"  # made for one call, and leaves it
    GRAD = "grad"  # a gradient buffer that the plan keeps
    ARENA = "arena"  # scratch memory


class SlotAt(NamedTuple):
    """So many bytes from the beginning of a slot of the arena."""

    slot: int
    begin: Any


@dataclass(frozen=True, slots=True)
class Place:
    """Memory: ``at`` is a number, or bytes from the start of the arena; there a ``SlotAt`` where sizes are
    symbols."""

    kind: Where
    at: Any


class Use(enum.StrEnum):
    """What an output of the graph is there for."""

    RESULT = "result"
    GRAD = "grad"
    WRITE = "write"  # the new content of an input


@dataclass(frozen=True, slots=True)
class Destination:
    """What becomes of one output of the graph: ``index`` counts results, gradients, or inputs."""

    kind: Use
    index: int

    @property
    def place(self) -> Place:
        """The memory that has it after the call."""
        return Place(_PLACE_OF[self.kind], self.index)


_PLACE_OF = {Use.RESULT: Where.RESULT, Use.GRAD: Where.GRAD, Use.WRITE: Where.INPUT}


@dataclass(eq=False, repr=False)
class Task:
    """A step with everything known about it but its addresses."""

    step: Step
    reads: frozenset[Var]
    writes: frozenset[Var]
    nest: Nest | None = None
    visible: bool = False  # writes memory the caller sees
    can_fail: bool = field(init=False)  # may stop with an error, unless another made its checks before

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    @property
    def name(self) -> str:
        """What it does: the name of its nest, or that of the op that a library computes."""
        return self.nest.name if self.nest is not None else self.step.eqns[0].op.name

    @property
    def in_background(self) -> bool:
        """Whether it only begins at its turn, and is waited for by who reads what it gives."""
        return self.step.kind is StepKind.HOST and self.step.eqns[0].op.start is not None

    @property
    def checks(self) -> frozenset[tuple]:
        """What its kernel makes sure of, for all elements; nothing where that is not known or not all."""
        if self.nest is None or 0 in self.nest.sizes:  # x[ids] checks nothing where x has no columns
            return frozenset()
        found = [checks_of(eqn) for eqn in self.step.eqns]
        if any(is_checked(e) and not c for e, c in zip(self.step.eqns, found, strict=True)):
            return frozenset()
        return frozenset().union(*found)

    def __post_init__(self) -> None:
        """A library call, a checked index or an integer division may fail, and so may a loop with one."""
        if self.nest is None:
            (eqn,) = self.step.eqns
            self.can_fail = self.step.kind is StepKind.HOST or may_fail(eqn)
        else:
            checked = any(isinstance(v, Gather) and v.bound is not None for v in self.nest.values())
            self.can_fail = checked or any(map(is_checked, self.step.eqns))


class Part(NamedTuple):
    """Where a variable lies: in another one, so many bytes from its beginning."""

    whole: Var
    begin: int


class Run(NamedTuple):
    """Steps that follow each other, in so many ``tiles``: each is cut along an axis, tile k of it between
    numbers k and k + 1 of its ``edges``. ``local`` is memory of which each tile touches its own share,
    counted in bytes from its beginning, and no other step anything."""

    tasks: tuple[Task, ...]
    axes: tuple[str, ...]
    edges: tuple[Sequence[int], ...]
    tiles: int
    local: frozenset[Var]

    @property
    def pieces(self) -> dict[Task, list[Piece]]:
        """Those of each step, one for each tile."""
        cut = zip(self.tasks, self.axes, self.edges, strict=True)
        return {t: [Piece(axis, both) for both in itertools.pairwise(edges)] for t, axis, edges in cut}


class Schedule(NamedTuple):
    """For each task those that come before it, and what is written over what is needed no more."""

    after: Mapping[Task, set[Task]]
    over: dict[Var, Var]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Tasks in order, a place for each variable in memory, and the size of the arena in bytes. ``parts`` lie
    in the memory of others. The tasks of a run follow each other."""

    fused: Fused
    destinations: tuple[Destination, ...]
    tasks: tuple[Task, ...]
    places: dict[Var, Place]
    arena_bytes: int
    parts: dict[Var, Part]
    runs: tuple[Run, ...]
    slots: tuple[tuple[Any, ...], ...] = ()  # where sizes are symbols: the sizes that each must have
    schedule: Schedule | None = None  # and what is asked to find the runs of each call's sizes

    def __repr__(self) -> str:  # that of its fields would print each value as often as others read it
        return (
            f"<plan of {len(self.tasks)} steps over {self.arena_bytes} bytes of scratch memory; .tasks are "
            "the steps, .places says where values lie>"
        )
