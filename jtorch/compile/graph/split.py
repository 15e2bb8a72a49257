"""Cutting a joint graph in two: the forward pass, run now, and the backward pass, run when asked for.

The forward graph also gives what the backward graph reads of it. Views, patterns and numbers are not
handed over: they are repeated, since they cost nothing; nor is what floats of 16 bits are in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jtorch.compile.graph.access import is_alias
from jtorch.compile.graph.halves import widens
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Var, repeated
from jtorch.compile.graph.reads import is_repeated


@dataclass(frozen=True, eq=False)
class Split:
    """``forward`` returns its own outputs and then ``saved``; ``backward`` takes ``passed`` (inputs of the
    forward graph it reads too), ``saved`` and the cotangents."""

    forward: Graph
    backward: Graph
    passed: tuple[Var, ...]
    saved: tuple[Var, ...]


def split(joint: Graph, n_forward: int, cotangents: list[Var], passable: set[Var]) -> Split:
    """Cut ``joint``, whose first ``n_forward`` outputs belong to the forward pass and the rest to the
    backward pass. ``passable`` are the inputs that may be handed over as they are."""
    first = _needed(joint, joint.outputs[:n_forward])
    given = set(cotangents)
    boundary, wanted = _way_back(joint, n_forward, given, lambda eqn: eqn not in first or _costs_nothing(eqn))
    passed = tuple(v for v in boundary if v in passable)
    saved = tuple(v for v in boundary if v not in passable)
    forward = Graph(
        joint.name,
        tuple(v for v in joint.inputs if v not in given),
        tuple(e for e in joint.eqns if e in first),
        (*joint.outputs[:n_forward], *saved),
    )
    backward = Graph(
        f"{joint.name}_backward",
        (*passed, *saved, *cotangents),
        tuple(e for e in joint.eqns if e in wanted),
        joint.outputs[n_forward:],
    )
    return Split(forward, backward, passed, saved)


def _costs_nothing(eqn: Eqn) -> bool:
    return is_alias(eqn) or is_repeated(eqn) or widens(eqn)


def kept(joint: Graph, n_forward: int, cotangents: list[Var], early: frozenset[Var]) -> set[Var]:
    """What the backward pass of ``joint`` as it was recorded reads of memory that the forward pass, which
    computes ``early``, did not make: in eager mode, too, it looks there. Of other inputs it has a copy, or
    what was computed of them, however much of that passes have taken away since."""

    def is_done_there(eqn: Eqn) -> bool:
        return eqn.op.aliases or early.isdisjoint(eqn.outputs)

    boundary, _ = _way_back(joint, n_forward, set(cotangents), is_done_there)
    return set(boundary)


def _way_back(
    joint: Graph, n_forward: int, given: set[Var], is_done_there: Callable[[Eqn], bool]
) -> tuple[dict[Var, None], set[Eqn]]:
    """The variables at which the backward pass begins, and the equations that it computes."""
    made_by = {v: e for e in joint.eqns for v in e.outputs}
    wanted: set[Eqn] = set()
    boundary: dict[Var, None] = {}
    stack: list[Atom] = list(joint.outputs[n_forward:])
    while stack:
        atom = stack.pop()
        if isinstance(atom, Literal) or atom in given:
            continue
        eqn = made_by.get(atom)
        if eqn is None or not is_done_there(eqn):
            boundary[atom] = None
        elif eqn not in wanted:
            wanted.add(eqn)
            stack += eqn.inputs
    return boundary, wanted


def without(backward: Graph, cotangents: list[Var], absent: frozenset[int]) -> Graph:
    """``backward`` for a pass that brings no cotangents of these numbers. What rests on them alone is zero,
    for gradients are linear in them, and is not computed: zero times an infinite derivative would be NaN,
    and the tape does not go there at all."""
    if not absent:
        return backward
    rests_on = {v: {k} for k, v in enumerate(cotangents)}
    eqns: list[Eqn] = []
    for eqn in backward.eqns:
        found = set().union(*(rests_on.get(a, ()) for a in eqn.inputs if isinstance(a, Var)))
        rests_on.update(dict.fromkeys(eqn.outputs, found))
        eqns += [eqn] if not found or found - absent else [repeated(_zero(v), v) for v in eqn.outputs]
    return backward.replace(eqns=tuple(eqns))


def _zero(var: Var) -> Literal:
    return Literal(var.dtype.type(0).item(), var.dtype)


def _needed(graph: Graph, outputs: tuple[Atom, ...]) -> set[Eqn]:
    made_by = {v: e for e in graph.eqns for v in e.outputs}
    found: set[Eqn] = set()
    stack = list(outputs)
    while stack:
        atom = stack.pop()
        eqn = made_by.get(atom) if isinstance(atom, Var) else None
        if eqn is not None and eqn not in found:
            found.add(eqn)
            stack += eqn.inputs
    return found
