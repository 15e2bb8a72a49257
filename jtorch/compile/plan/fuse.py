"""Fusion: from a graph to steps, each of which becomes one kernel, one product or one host call.

Every loop equation begins as a group of its own; groups are merged along the edges from producer to consumer
where ``can_fuse`` (is it right?) and ``profit`` (is it better?) agree. Neither asks for a size, so a
new batch size meets the same kernels.

A group runs over one *domain* (a shape) of which some axes may be *reduced*:

    map      no reduction                        elementwise chains, gathers, pads
    row      the last axis is reduced            softmax, layer_norm, losses: a row stays in cache
    column   the last axis is kept               bias gradients: sums accumulate in memory
    scatter  sums into computed positions        the gradient of an embedding
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from jtorch.compile.graph.access import Coordinates, is_alias, is_stack
from jtorch.compile.graph.conversions import made_again
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Var
from jtorch.compile.graph.passes import Fuel
from jtorch.compile.graph.reads import (
    Reader,
    computed_over,
    coordinates_of,
    is_repeated,
    place_of,
    runs_in_loops,
)
from jtorch.core.dtypes import is_float
from jtorch.core.op import Kind, Op

MAX_ARRAYS = 24  # arrays that one kernel reads or writes: each is a pointer in a register or on the stack
MAX_VIEWS = 46  # parts of arrays that it reads, each of which has an address: beyond, the loop spills
MAX_EQNS = 200  # compile time grows faster than the kernel


class Style(enum.StrEnum):
    """How a group's loops are laid out, which is what fusion must agree on."""

    MAP = "map"  # each element by itself
    ROW = "row"  # sums along the last axis: a row stays in the cache
    COLUMN = "column"  # sums over earlier axes, side by side in memory
    SCATTER = "scatter"  # adds to computed places
    CALL = "call"  # no loops: a library does it


class StepKind(enum.StrEnum):
    LOOP = "loop"  # a kernel
    GEMM = "gemm"  # a product of matrices, by BLAS or by our own kernel
    SCAN = "scan"  # a loop whose turns have a plan of their own
    HOST = "host"  # a library call from Python


@dataclass(eq=False)
class Group:
    """Equations that run in one loop nest."""

    eqns: list[Eqn]
    domain: tuple[int, ...]
    reduced: tuple[int, ...] | None = None
    style: Style = Style.MAP
    after: set[Group] = field(default_factory=set)  # groups that must run before it
    before: set[Group] = field(default_factory=set)  # and those that must run after it
    first: int = 0  # the place in the graph of its first equation
    reach: int = 0  # and of the last one in it and in all that must run before it
    made: set[Var] = field(default_factory=set)  # what its equations compute
    read: set[Var] = field(default_factory=set)  # and what they read, each with a kernel of its own
    views: set[Var] = field(default_factory=set)  # of others, where each part of an array counts by itself
    needs: set[Var] = field(default_factory=set)  # what they depend on, numbers seen through
    late: set[Var] = field(default_factory=set)  # of a column kernel: its sums, and what waits for them
    stacks: bool = False  # what stands below each other, and is no result
    draws: bool = False  # random numbers
    strided: bool = False  # reads along the last axis what does not lie side by side

    @property
    def sums_in_memory(self) -> bool:
        return self.style in (Style.COLUMN, Style.SCATTER)

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(n for k, n in enumerate(self.domain) if k not in (self.reduced or ()))


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One unit of the schedule."""

    kind: StepKind
    eqns: tuple[Eqn, ...]
    group: Group | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """A graph cut into steps, in an order that respects every dependency."""

    graph: Graph
    steps: Sequence[Step]
    stored: Set[Var]  # variables that live in memory, as opposed to inside a kernel

    made_by: dict[Var, Eqn]

    def find(self, var: Var) -> Eqn | None:
        return self.made_by.get(var)


def fuse(graph: Graph, fuel: Fuel) -> Fused:
    """Cut ``graph`` into steps, in topological order; the memory plan may refine it."""
    fuser = Fuser(graph, fuel)
    fuser.run()
    stored = fuser.reader.stored(graph, fuser.group_of)
    groups = [*fuser.groups, *_lonely(graph, fuser, stored)]
    steps = tuple(_step(g) for g in _in_order(groups, fuser.reader))
    return Fused(graph, steps, frozenset(stored), fuser.reader.made_by)


_NOBODY: set[Eqn] = set()
_FARTHEST = 256  # groups between two, from which on nobody looks whether one leads to the other
_NEAREST = 8  # groups with which one that reads the same memory is tried


# -- grouping ----------------------------------------------------------------------------------------------


class Fuser:
    """Merges groups along producer-consumer edges. State only lives for one call of ``fuse``."""

    def __init__(self, graph: Graph, fuel: Fuel) -> None:
        self.graph = graph
        self.fuel = fuel
        self.reader = Reader(graph)
        self.outputs = {a for a in graph.outputs if isinstance(a, Var)}
        self.places = {e: k for k, e in enumerate(graph.eqns)}
        self.again = made_again(graph)
        self.group_of: dict[Eqn, Group] = {}
        self.groups: dict[Group, None] = {}
        self.users: dict[Var, set[Eqn]] = {}  # grouped equations that read a variable
        numbers = [v for v in self.outputs if (made := self.reader.find(v)) is not None and is_repeated(made)]
        self.kept = self.outputs | self.reader.behind_numbers(numbers)  # kernels that store a number read it

    def run(self) -> None:
        eqns = [e for e in self.graph.eqns if not is_alias(e) and not self.reader.is_repeated(e)]
        for eqn in eqns:
            for var in self.reader.grouped_inputs(eqn):
                self.users.setdefault(var, set()).add(eqn)
        for eqn in eqns:
            self._add(eqn)
        self._merge_siblings()

    def _add(self, eqn: Eqn) -> None:
        """A new group for ``eqn``, merged with those that make what it reads."""
        group = _single(eqn) if runs_in_loops(eqn) else Group([eqn], (), style=Style.CALL)
        group.first = group.reach = self.places[eqn]
        group.made.update(eqn.outputs)
        group.read.update(self.reader.memory_of(eqn))
        group.views.update(v for v in eqn.inputs if isinstance(v, Var))
        group.needs.update(self.reader.grouped_inputs(eqn))
        if eqn.op.kind is Kind.REDUCTION:
            group.late.update(eqn.outputs)
        group.stacks = is_stack(eqn) and self.outputs.isdisjoint(eqn.outputs)
        group.draws = eqn.op.draws
        group.strided = group.style != Style.CALL and self._reads_apart(eqn, group)
        self.groups[group] = None
        self.group_of[eqn] = group
        made_by = self.reader.made_by
        producers = [made_by[v] for v in self.reader.grouped_inputs(eqn) if v in made_by]
        for producer in producers:
            self._order(self.group_of[producer], group)
        for producer in producers:
            self.try_merge(self.group_of[producer], self.group_of[eqn])

    def _order(self, first: Group, second: Group) -> None:
        second.after.add(first)
        first.before.add(second)
        self._reaches(second, first.reach)

    def _reaches(self, group: Group, place: int) -> None:
        """Note that ``group`` waits for the equation at ``place``, and so does what waits for it."""
        stack = [group]
        while stack:
            group = stack.pop()
            if group.reach < place:
                group.reach = place
                stack += group.before

    def try_merge(self, a: Group, b: Group) -> bool:
        """Put ``b`` into ``a`` if that is right and pays."""
        if a is b or not can_fuse(a, b, self) or not profit(a, b, self) or not self.fuel.burn():
            return False
        merged = _merged_space(a, b)
        assert merged is not None
        a.late = _late_of(a, b, merged[0], self.reader) or set()
        a.domain, a.reduced, a.style = merged
        a.eqns = sorted(a.eqns + b.eqns, key=self.places.__getitem__)
        a.first = min(a.first, b.first)
        a.made |= b.made
        a.read |= b.read
        a.views = (a.views | b.views) - a.made
        a.needs |= b.needs
        a.draws, a.strided = a.draws or b.draws, a.strided or b.strided
        for eqn in b.eqns:
            self.group_of[eqn] = a
        del self.groups[b]
        for group in b.after:
            group.before.discard(b)
            if group is not a:
                self._order(group, a)
        for group in b.before:
            group.after.discard(b)
            if group is not a:
                self._order(a, group)
        self._reaches(a, b.reach)
        return True

    def _merge_siblings(self) -> None:
        """Groups over one domain that read the same element of the same memory share a loop: the read is
        done once."""
        readers: dict[object, dict[Eqn, None]] = {}
        for group in self.groups:
            if group.style != Style.CALL:
                for eqn in group.eqns:
                    for root, at in self._elements(eqn, group):
                        readers.setdefault((group.domain, root, at), {})[eqn] = None
        for eqns in readers.values():
            self._merge_among(dict.fromkeys(self.group_of[e] for e in eqns))

    def _merge_among(self, groups: Iterable[Group]) -> None:
        """Try each with the nearest ones before it: the steps of an unrolled loop all read its weights, and
        to try each with each took 3 of 8 seconds for 80 steps."""
        kept: list[Group] = []
        for group in groups:
            for other in reversed(kept[-_NEAREST:]):
                if group not in self.groups:
                    break
                if other in self.groups and not self.try_merge(other, group):
                    self.try_merge(group, other)
            if group in self.groups:
                kept.append(group)

    def _elements(self, eqn: Eqn, group: Group) -> Iterable[tuple[Var, Coordinates]]:
        """The elements of arrays of other groups that ``eqn`` reads at one loop position."""
        place = place_of(eqn, group.domain, group.reduced)
        assert place is not None
        for root, at in self.reader.elements(eqn, place, len(group.domain)):
            maker = self.reader.find(root)
            if at and (maker is None or is_alias(maker) or self.group_of[maker] is not group):
                yield root, at

    def _reads_apart(self, eqn: Eqn, group: Group) -> bool:
        """Whether neighbours along the last axis are read from memory in which they are none: by steps."""
        place, n = place_of(eqn, group.domain, group.reduced), len(group.domain)
        if place is None or not n:
            return False
        for _, at in self.reader.elements(eqn, place, n):
            *outer, inner = (c.strides[-1] for c in at) if at else (0,)
            if any(type(step) is not int or step for step in outer) or inner not in (0, 1):
                return True
        return False

    def needed_outside(self, eqns: set[Eqn]) -> set[Var]:
        """The results of ``eqns`` that others need."""
        made = (v for e in eqns for v in e.outputs)
        return {v for v in made if v in self.kept or not self.users.get(v, _NOBODY) <= eqns}

    def only_again(self, group: Group) -> bool:
        """Whether all that ``group`` does is to convert what was made much earlier."""
        return self.again.issuperset(group.eqns)

    def holds_rows_up(self, step: Group, sums: Group) -> bool:
        """Whether ``sums`` over all rows are added to others, as each step of a recurrence adds to the
        gradient of a bias, while a product reads what ``step`` computes, which is in memory anyway."""
        if step.reduced is not None or sums.style is not Style.COLUMN:
            return False
        found = (e for e in sums.eqns if e.op.kind is Kind.REDUCTION)
        return all(map(self._is_term, found)) and self._feeds_products(step)

    def _is_term(self, total: Eqn) -> bool:
        (var,), users = total.outputs, self.users.get(total.outputs[0], _NOBODY)
        return bool(users) and all(
            user.op.name == total.op.combine
            and any(self._is_total(a, total.op, 1) for a in user.inputs if a is not var)
            for user in users
        )

    def _is_total(self, atom: Atom, op: Op, deep: int) -> bool:
        """Whether the reduction ``op`` gives that, or a term of it."""
        made = self.reader.find(atom) if isinstance(atom, Var) else None
        if made is None or made.op.name != op.combine:
            return made is not None and made.op is op
        return deep > 0 and any(self._is_total(a, op, deep - 1) for a in made.inputs)

    def _feeds_products(self, group: Group) -> bool:
        users = (user for var in group.made for user in self.users.get(var, _NOBODY))
        return any(user.op.kind is Kind.CONTRACTION for user in users)

    def leads_to(self, a: Group, b: Group, skip_direct: bool) -> bool:
        """Whether ``b`` depends on ``a``, not counting their direct edge if ``skip_direct``; or whether so
        much lies between them that to find out would make the whole quadratic."""
        if not a.before or (skip_direct and a.before == {b}):
            return False
        stack = [g for g in b.after if not (skip_direct and g is a)]
        seen = set(stack)
        while stack:
            group = stack.pop()
            if group is a:
                return True
            # what ends, with all that it waits for, before ``a`` begins can read nothing of it
            more = [g for g in group.after if g.reach >= a.first and g not in seen]
            seen.update(more)
            stack += more
            if len(seen) > _FARTHEST:
                return True
        return False


def _single(eqn: Eqn) -> Group:
    if eqn.op.kind is not Kind.REDUCTION:
        return Group([eqn], computed_over(eqn))
    source = eqn.inputs[0]
    assert isinstance(source, Var)
    if eqn.op.scatter is not None:
        return Group([eqn], source.shape, tuple(range(len(source.shape))), Style.SCATTER)
    axes = eqn.statics["axis"]
    last = len(source.shape) - 1
    picks = eqn.op.identity is None  # argmax: two accumulators, which memory does not hold
    return Group([eqn], source.shape, axes, Style.ROW if last in axes or picks or not axes else Style.COLUMN)


def _merged_space(a: Group, b: Group) -> tuple[tuple[int, ...], tuple[int, ...] | None, Style] | None:
    """The (domain, reduced axes, style) of ``a`` (producer) and ``b`` together, None if there is none."""
    if Style.SCATTER in (a.style, b.style) and not (a.style == Style.MAP and a.domain == b.domain):
        return None
    if a.reduced is None:
        return (a.domain, b.reduced, b.style) if a.domain == b.domain else None
    if b.reduced is not None:
        same = a.domain == b.domain and a.reduced == b.reduced and a.style == b.style
        return (a.domain, a.reduced, a.style) if same else None
    return (a.domain, a.reduced, a.style) if b.domain in (a.domain, a.kept) else None


# -- may they? ---------------------------------------------------------------------------------------------


def can_fuse(a: Group, b: Group, fuser: Fuser) -> bool:
    """Legality: one loop nest can compute both, each value being read where it was just computed."""
    return obstacle(a, b, fuser) is None


def obstacle(a: Group, b: Group, fuser: Fuser) -> str | None:
    """Why one loop nest cannot compute both, None where it can."""
    if Style.CALL in (a.style, b.style):
        return "one of them is a library call"
    merged = _merged_space(a, b)
    if merged is None:
        return "their loops run over other shapes"
    if fuser.leads_to(b, a, False) or fuser.leads_to(a, b, True):
        return "a third step must run between them"
    domain, reduced, style = merged
    inside = a.made | b.made
    if style == Style.COLUMN and _late_of(a, b, domain, fuser.reader) is None:
        return "sums over leading axes are known only after the loop"
    if style == Style.SCATTER and not fuser.needed_outside({*a.eqns, *b.eqns}).isdisjoint(
        a.made
    ):  # a scatter kernel stores nothing but its sums
        return "others need a value that a scattering kernel would not store"
    if (b.domain, b.reduced) == (domain, reduced):
        inside = a.made  # what it reads of itself is read where it was
    places = ((e, place_of(e, domain, reduced)) for e in b.eqns)
    if not all(reads_in_place(e, at, inside, domain, reduced, fuser.reader) for e, at in places):
        return "a value is read at another position than where it is computed"
    return None


def _late_of(a: Group, b: Group, domain: tuple[int, ...], reader: Reader) -> set[Var] | None:
    """The sums of a column kernel that computes both, and what waits for them: it knows its sums only after
    its one pass. None where something over the whole domain would have to wait, too."""
    if a.late.isdisjoint(b.needs) and b.late.isdisjoint(a.needs):
        return a.late | b.late
    late: set[Var] = set()
    for eqn in sorted((*a.eqns, *b.eqns), key=reader.places.__getitem__):
        sums = eqn.op.kind is Kind.REDUCTION
        waits = not late.isdisjoint(reader.grouped_inputs(eqn))
        if waits and (sums or eqn.outputs[0].shape == domain):
            return None
        if waits or sums:
            late.update(eqn.outputs)
    return late


def reads_in_place(
    eqn: Eqn, place: Coordinates | None, inside: set[Var], domain: tuple[int, ...],
    reduced: tuple[int, ...] | None, reader: Reader,
) -> bool:  # fmt: skip
    """Whether each value of the group that ``eqn`` reads is read at the position where it is computed."""
    if place is None:
        return False
    if inside.isdisjoint(reader.grouped_inputs(eqn)):
        return True
    if not inside.isdisjoint(reader.behind_numbers(reader.memory_inputs(eqn))):
        return False
    for root, at in reader.elements(eqn, place, len(domain)):
        if root in inside and at != coordinates_of(root.shape, domain, reduced):
            return False
    return True


# -- should they? ------------------------------------------------------------------------------------------


def profit(a: Group, b: Group, fuser: Fuser) -> bool:
    """Benefit: a value stays in a register instead of going through memory, unless the kernel would
    need too many arrays."""
    return drawback(a, b, fuser) is None


def drawback(a: Group, b: Group, fuser: Fuser) -> str | None:
    """Why fusing them would not pay, None where it does."""
    if a.style == Style.COLUMN and b.domain != a.domain:
        sums = {v for e in a.eqns if e.op.kind is Kind.REDUCTION for v in e.outputs}
        if sums & fuser.outputs:  # in memory anyway: an update of it joins the other parameters' kernel
            return "the sums are results, in memory anyway"
    if fuser.again and (fuser.only_again(b) or (fuser.only_again(a) and a.made.isdisjoint(b.needs))):
        return "floats of 16 bits are kept as such until they are read again"
    if fuser.holds_rows_up(a, b) or fuser.holds_rows_up(b, a):
        return "sums over all rows would keep threads from going through a recurrence with some rows each"
    if (a.draws and b.strided) or (b.draws and a.strided):
        return "random numbers are drawn in vectors, which reading by steps makes none of"
    if a.stacks or b.stacks:
        return "what stands below each other is computed in its place, or copied there"
    if len(a.eqns) + len(b.eqns) > MAX_EQNS:
        return f"the kernel would have more than {MAX_EQNS} equations"
    if len(a.views) + len(b.views) > MAX_VIEWS and len((a.views | b.views) - a.made - b.made) > MAX_VIEWS:
        return f"the kernel would read more than {MAX_VIEWS} parts of arrays"
    if len(a.read) + len(b.read) + len(a.made) + len(b.made) <= MAX_ARRAYS:
        return None
    read = len((a.read | b.read) - a.made - b.made)
    if read + len(a.made) + len(b.made) <= MAX_ARRAYS:
        return None
    if read + len(fuser.needed_outside({*a.eqns, *b.eqns})) > MAX_ARRAYS:
        return f"the kernel would need more than {MAX_ARRAYS} arrays"
    return None


# -- from groups to steps
# --------------------------------------------------------------------------------------


def _step(group: Group) -> Step:
    if group.style != Style.CALL:
        return Step(StepKind.LOOP, tuple(group.eqns), group)
    (eqn,) = group.eqns
    if eqn.op.kind is Kind.SCAN:
        return Step(StepKind.SCAN, (eqn,))
    blas = eqn.op.kind is Kind.CONTRACTION and is_float(eqn.outputs[0].dtype)
    return Step(StepKind.GEMM if blas else StepKind.HOST, (eqn,))


def _lonely(graph: Graph, fuser: Fuser, stored: set[Var]) -> list[Group]:
    """Repeated equations whose results must be in memory too: each gets a group that stores it."""
    return [
        Group([e], e.outputs[0].shape, first=k)
        for k, e in enumerate(graph.eqns)
        if e not in fuser.group_of and not is_alias(e) and not stored.isdisjoint(e.outputs)
    ]


def _in_order(groups: list[Group], reader: Reader) -> list[Group]:
    """Topological order of the groups by what they read from memory and, where that leaves a choice, by
    place."""
    writer = {v: g for g in groups for e in g.eqns for v in e.outputs}
    groups = sorted(groups, key=lambda g: g.first)
    waiting: dict[Group, int] = {}
    followers: dict[Group, list[Group]] = {g: [] for g in groups}
    for group in groups:
        before = {writer[v] for e in group.eqns for v in reader.memory_of(e) if v in writer} - {group}
        waiting[group] = len(before)
        for b in before:
            followers[b].append(group)
    ready = [(g.first, k, g) for k, g in enumerate(groups) if not waiting[g]]
    heapq.heapify(ready)
    order: list[Group] = []
    while ready:
        *_, group = heapq.heappop(ready)
        order.append(group)
        for f in followers[group]:
            waiting[f] -= 1
            if not waiting[f]:
                heapq.heappush(ready, (f.first, len(order), f))
    assert len(order) == len(groups), "the groups wait for each other"
    return order
