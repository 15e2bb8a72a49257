"""Fusion: from a graph to steps, each of which becomes one kernel, one BLAS call or one host call.

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

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from jtorch.compile.access import Affine, identity, is_alias, root_of, to_root
from jtorch.compile.ir import Eqn, Graph, Var
from jtorch.compile.passes import Fuel
from jtorch.op import Kind

KERNEL_DTYPES = frozenset(
    np.dtype(d) for d in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
)
MAX_ARRAYS = 24  # arrays that one kernel reads or writes: each is a pointer in a register or on the stack


@dataclass(eq=False)
class Group:
    """Equations that run in one loop nest."""

    eqns: list[Eqn]
    domain: tuple[int, ...]
    reduced: tuple[int, ...] | None = None
    style: str = "map"
    index: int = 0  # its place in topological order, for the cycle check
    after: set[Group] = field(default_factory=set)  # groups that must run before it

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(n for k, n in enumerate(self.domain) if k not in (self.reduced or ()))


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One unit of the schedule. ``kind`` is "loop", "gemm", "copy" or "host"."""

    kind: str
    eqns: tuple[Eqn, ...]
    group: Group | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """A graph cut into steps, in an order that respects every dependency."""

    graph: Graph
    steps: tuple[Step, ...]
    stored: frozenset[Var]  # variables that live in memory, as opposed to inside a kernel

    made_by: dict[Var, Eqn]

    def find(self, var: Var) -> Eqn | None:
        return self.made_by.get(var)


def definitions(graph: Graph) -> dict[Var, Eqn]:
    return {v: e for e in graph.eqns for v in e.outputs}


# -- what an equation is ---------------------------------------------------------------------------------


def runs_in_loops(eqn: Eqn) -> bool:
    """Whether a kernel can compute ``eqn``; what cannot becomes a library call."""
    atoms = (*eqn.inputs, *eqn.outputs)
    if any(a.dtype not in KERNEL_DTYPES for a in atoms):
        return False
    op = eqn.op
    if op.kind is Kind.ELEMENTWISE:
        return op.text is not None or op.integer_text is not None
    return op.kind is Kind.REDUCTION or (op.kind is Kind.VIEW and op.index_map is not None)


def is_number(eqn: Eqn) -> bool:
    """An elementwise equation without axes: repeated in every kernel that needs it."""
    return eqn.op.kind is Kind.ELEMENTWISE and not eqn.outputs[0].shape and eqn.op.check is None


def is_pattern(eqn: Eqn) -> bool:
    """An equation that reads no memory (``full``, ``iota``): repeated wherever it is needed."""
    return eqn.op.kind is Kind.ELEMENTWISE and not any(
        isinstance(a, Var) and a.shape for a in eqn.inputs
    ) and "shape" in eqn.statics and len(eqn.inputs) < 2  # fmt: skip


def is_repeated(eqn: Eqn) -> bool:
    return runs_in_loops(eqn) and (is_number(eqn) or is_pattern(eqn))


# -- grouping ----------------------------------------------------------------------------------------------


class Fuser:
    """Merges groups along producer-consumer edges. State only lives for one call of ``fuse``."""

    def __init__(self, graph: Graph, fuel: Fuel) -> None:
        self.graph = graph
        self.fuel = fuel
        self.made_by = definitions(graph)
        self.outputs = {a for a in graph.outputs if isinstance(a, Var)}
        self.group_of: dict[Eqn, Group] = {}
        self.groups: list[Group] = []

    def find(self, var: Var) -> Eqn | None:
        return self.made_by.get(var)

    def run(self) -> list[Group]:
        for eqn in self.graph.eqns:
            if is_alias(eqn) or is_repeated(eqn):
                continue
            group = _single(eqn) if runs_in_loops(eqn) else Group([eqn], (), style="call")
            group.index = len(self.groups)
            self.groups.append(group)
            self.group_of[eqn] = group
            producers = self.producers(eqn)
            group.after = {self.group_of[p] for p in producers}
            if group.style != "call":
                for producer in producers:
                    self._try_merge(self.group_of[producer], self.group_of[eqn])
        self._merge_siblings()
        return self.groups

    def producers(self, eqn: Eqn) -> list[Eqn]:
        """The grouped equations whose results ``eqn`` needs, through views and repeated equations."""
        found: dict[Eqn, None] = {}
        stack = [a for a in eqn.inputs if isinstance(a, Var)]
        while stack:
            maker = self.find(root_of(stack.pop(), self.find))
            if maker is None:
                continue
            if maker in self.group_of:
                found[maker] = None
            else:
                stack += [a for a in maker.inputs if isinstance(a, Var)]
        return list(found)

    def _try_merge(self, a: Group, b: Group) -> None:
        if a is b or not can_fuse(a, b, self) or not profit(a, b, self) or not self.fuel.burn():
            return
        self._merge(a, b)

    def _merge(self, a: Group, b: Group) -> None:
        """Put the equations of ``b`` into ``a``."""
        merged = _merged_space(a, b)
        assert merged is not None
        a.eqns = a.eqns + b.eqns
        a.domain, a.reduced, a.style = merged
        a.after = (a.after | b.after) - {a, b}
        for eqn in b.eqns:
            self.group_of[eqn] = a
        self.groups.remove(b)
        for group in self.groups:
            if b in group.after:
                group.after = (group.after - {b}) | {a}
        a.eqns.sort(key=self._order)

    def _order(self, eqn: Eqn) -> int:
        if not hasattr(self, "_places"):
            self._places = {e: k for k, e in enumerate(self.graph.eqns)}
        return self._places[eqn]

    def _merge_siblings(self) -> None:
        """Groups over one domain that read the same memory share a loop: the read is done once."""
        for a in list(self.groups):
            for b in list(self.groups):
                if a is b or a not in self.groups or b not in self.groups or "call" in (a.style, b.style):
                    continue
                if a.domain == b.domain and self._reads(a) & self._reads(b):
                    self._try_merge(a, b)

    def _reads(self, group: Group) -> set[Var]:
        inputs = (a for e in group.eqns for a in e.inputs if isinstance(a, Var) and a.shape)
        own = {v for e in group.eqns for v in e.outputs}
        return {r for r in (root_of(v, self.find) for v in inputs) if r not in own}

    def leads_to(self, a: Group, b: Group, skip_direct: bool) -> bool:
        """Whether ``b`` depends on ``a``, not counting their direct edge if ``skip_direct``."""
        stack = [g for g in b.after if not (skip_direct and g is a)]
        seen = set()
        while stack:
            group = stack.pop()
            if group is a:
                return True
            if group not in seen:
                seen.add(group)
                stack += group.after
        return False


def _single(eqn: Eqn) -> Group:
    if eqn.op.kind is not Kind.REDUCTION:
        return Group([eqn], eqn.outputs[0].shape)
    source = eqn.inputs[0]
    assert isinstance(source, Var)
    if eqn.op.scatter is not None:
        return Group([eqn], source.shape, tuple(range(len(source.shape))), "scatter")
    axes = eqn.statics["axis"]
    last = len(source.shape) - 1
    picks = eqn.op.identity is None  # argmax: two accumulators, which memory does not hold
    return Group([eqn], source.shape, axes, "row" if last in axes or picks or not axes else "column")


def _merged_space(a: Group, b: Group) -> tuple[tuple[int, ...], tuple[int, ...] | None, str] | None:
    """The (domain, reduced axes, style) of ``a`` (producer) and ``b`` together, None if there is none."""
    if "scatter" in (a.style, b.style) and not (a.style == "map" and a.domain == b.domain):
        return None
    if a.reduced is None and b.reduced is None:
        return (a.domain, None, "map") if a.domain == b.domain else None
    if b.reduced is not None and a.reduced is None:
        return (b.domain, b.reduced, b.style) if a.domain == b.domain else None
    assert a.reduced is not None
    if b.reduced is not None:
        same = a.domain == b.domain and a.reduced == b.reduced and a.style == b.style
        return (a.domain, a.reduced, a.style) if same else None
    if b.domain == a.domain:
        return (a.domain, a.reduced, a.style) if a.style == "row" else None
    epilogue = b.domain in (a.kept, _keepdims(a.domain, a.reduced))
    return (a.domain, a.reduced, a.style) if epilogue else None


def _keepdims(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def can_fuse(a: Group, b: Group, fuser: Fuser) -> bool:
    """Legality: one loop nest can compute both, each value being read where it was just computed."""
    if a.style == "call" or b.style == "call":
        return False
    merged = _merged_space(a, b)
    if merged is None or fuser.leads_to(b, a, False) or fuser.leads_to(a, b, True):
        return False
    domain, reduced, style = merged
    inside = {v for e in (*a.eqns, *b.eqns) for v in e.outputs}
    results = {v for e in a.eqns if e.op.kind is Kind.REDUCTION for v in e.outputs}
    for eqn in b.eqns:
        if style == "column" and eqn.op.kind is Kind.REDUCTION and _depends(eqn, results, fuser):
            return False
        place = place_of(eqn, domain, reduced)
        if place is None or not _reads_in_place(eqn, place, inside, domain, reduced, fuser):
            return False
    return all(place_of(e, domain, reduced) is not None for e in a.eqns)


def _depends(eqn: Eqn, results: set[Var], fuser: Fuser) -> bool:
    return any(root_of(a, fuser.find) in results for a in eqn.inputs if isinstance(a, Var))


def place_of(
    eqn: Eqn, domain: tuple[int, ...], reduced: tuple[int, ...] | None
) -> tuple[Affine, ...] | None:
    """The coordinates, in loop positions over ``domain``, of what ``eqn`` computes at one position.

    A reduction computes over the whole domain. None where the shape fits neither the domain nor its
    kept axes.
    """
    shape = eqn.inputs[0].shape if eqn.op.kind is Kind.REDUCTION else eqn.outputs[0].shape  # type: ignore[union-attr]
    return coordinates_of(shape, domain, reduced)


def coordinates_of(
    shape: tuple[int, ...], domain: tuple[int, ...], reduced: tuple[int, ...] | None
) -> tuple[Affine, ...] | None:
    axes = identity(len(domain))
    if shape == domain:
        return axes
    if reduced is None:
        return None
    if shape == tuple(n for k, n in enumerate(domain) if k not in reduced):
        return tuple(c for k, c in enumerate(axes) if k not in reduced)
    if shape == _keepdims(domain, reduced):
        nowhere = Affine(0, (0,) * len(domain))
        return tuple(nowhere if k in reduced else c for k, c in enumerate(axes))
    return None


def _reads_in_place(
    eqn: Eqn, place: tuple[Affine, ...], inside: set[Var], domain: tuple[int, ...],
    reduced: tuple[int, ...] | None, fuser: Fuser,
) -> bool:  # fmt: skip
    """Whether each value of the group that ``eqn`` reads is read at the position where it is computed."""
    n = len(domain)
    for atom in eqn.inputs:
        if not isinstance(atom, Var) or not atom.shape:
            continue
        root, at = to_root(atom, place, n, fuser.find)
        maker = fuser.find(root)
        if maker is not None and maker not in fuser.group_of and not is_alias(maker):
            continue  # repeated equations are computed at any coordinates
        if root not in inside:
            if maker is not None and is_alias(maker) and _under_reshapes(root, fuser) & inside:
                return False  # a relabelled value must be in memory first
            continue
        assert maker is not None
        if eqn.op.index_map is not None:
            return False  # reads at other positions: the value must be in memory first
        if at != _result_place(maker, domain, reduced):
            return False
    return True


def _under_reshapes(var: Var, fuser: Fuser) -> set[Var]:
    found: set[Var] = set()
    maker = fuser.find(var)
    while maker is not None and is_alias(maker):
        var = root_of(maker.inputs[0], fuser.find)  # type: ignore[arg-type]
        found.add(var)
        maker = fuser.find(var)
    return found


def _result_place(maker: Eqn, domain: tuple[int, ...], reduced: tuple[int, ...] | None) -> object:
    return coordinates_of(maker.outputs[0].shape, domain, reduced)


def profit(a: Group, b: Group, fuser: Fuser) -> bool:
    """Benefit: a value stays in a register instead of going through memory, unless the kernel would
    need too many arrays."""
    arrays = {x for e in (*a.eqns, *b.eqns) for x in (*e.inputs, *e.outputs) if isinstance(x, Var)}
    inner = {v for e in (*a.eqns, *b.eqns) for v in e.outputs}
    if a.style == "column" and b.domain != a.domain:
        sums = {v for e in a.eqns if e.op.kind is Kind.REDUCTION for v in e.outputs}
        if sums & fuser.outputs:  # in memory anyway: an update of it joins the other parameters' kernel
            return False
    return len(arrays - inner) <= MAX_ARRAYS


# -- from groups to steps --------------------------------------------------------------------------------------


def fuse(graph: Graph, fuel: Fuel) -> Fused:
    """Cut ``graph`` into steps. The order is topological; the memory plan may refine it."""
    fuser = Fuser(graph, fuel)
    groups = fuser.run()
    stored = _stored(graph, fuser)
    steps = [_step(g) for g in _sorted(groups)]
    numbers = _lonely_numbers(graph, fuser, stored)
    return Fused(graph, (*steps, *numbers), frozenset(stored), fuser.made_by)


def _step(group: Group) -> Step:
    if group.style != "call":
        return Step("loop", tuple(group.eqns), group)
    (eqn,) = group.eqns
    blas = eqn.op.kind is Kind.CONTRACTION and eqn.outputs[0].dtype in (np.float32, np.float64)
    return Step("gemm" if blas else "host", (eqn,))


def _sorted(groups: list[Group]) -> list[Group]:
    done: dict[Group, None] = {}

    def visit(root: Group) -> None:
        stack = [(root, iter(sorted(root.after, key=lambda g: g.index)))]
        while stack:
            group, rest = stack[-1]
            child = next((g for g in rest if g not in done), None)
            if child is None:
                done[group] = None
                stack.pop()
            else:
                stack.append((child, iter(sorted(child.after, key=lambda g: g.index))))

    for group in groups:
        if group not in done:
            visit(group)
    return list(done)


def _stored(graph: Graph, fuser: Fuser) -> set[Var]:
    """Results that somebody reads from memory: outputs, and what other steps need."""
    outputs = {a for a in graph.outputs if isinstance(a, Var)}
    stored = outputs | {_memory_root(a, fuser) for a in outputs}
    for eqn in graph.eqns:
        group = fuser.group_of.get(eqn)
        if is_alias(eqn) or (group is None and eqn.outputs[0] not in outputs):
            continue  # views read nothing; repeated equations are read through by those that use them
        call = group is not None and group.style == "call"
        for root in _roots_needed(eqn, fuser, call):
            maker = fuser.find(root)
            if maker is None:
                continue
            if is_alias(maker):
                stored.add(_memory_root(root, fuser))
            elif maker not in fuser.group_of:
                if call:
                    stored.add(root)
            elif fuser.group_of[maker] is not group or call or eqn.op.index_map or eqn.op.scatter:
                stored.add(root)
    for group in {g for g in fuser.group_of.values() if g.style in ("column", "scatter")}:
        stored |= {v for e in group.eqns if e.op.kind is Kind.REDUCTION for v in e.outputs}  # sum in memory
    return {v for v in stored if fuser.find(v) is not None and not is_alias(fuser.find(v))}  # type: ignore[arg-type]


def _memory_root(var: Var, fuser: Fuser) -> Var:
    """The variable whose memory ``var`` is a view of, through relabellings too."""
    maker = fuser.find(var)
    while maker is not None and is_alias(maker):
        var = maker.inputs[0]  # type: ignore[assignment]
        maker = fuser.find(var)
    return var


def _roots_needed(eqn: Eqn, fuser: Fuser, call: bool) -> Iterable[Var]:
    """The grouped or relabelled variables that computing ``eqn`` reads, through repeated equations."""
    stack = [a for a in eqn.inputs if isinstance(a, Var)]
    while stack:
        root = root_of(stack.pop(), fuser.find)
        maker = fuser.find(root)
        if maker is not None and maker not in fuser.group_of and not is_alias(maker) and not call:
            stack += [a for a in maker.inputs if isinstance(a, Var)]
        yield root


def _lonely_numbers(graph: Graph, fuser: Fuser, stored: set[Var]) -> list[Step]:
    """Repeated equations whose results must be in memory too: each gets a step that stores it."""
    steps = []
    for eqn in graph.eqns:
        if eqn not in fuser.group_of and not is_alias(eqn) and any(v in stored for v in eqn.outputs):
            steps.append(Step("loop", (eqn,), Group([eqn], eqn.outputs[0].shape)))
    return steps
