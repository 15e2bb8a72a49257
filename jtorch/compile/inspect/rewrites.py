"""What each pass changed, and by which rule: the passes run once more over a recorded graph, with an account.

The account is a ``Fuel``, which passes ask for each rewrite anyhow, so that they know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Var
from jtorch.compile.graph.passes import PASSES, Fuel


@dataclass(frozen=True)
class Rewrite:
    """One change: the equations ``gone`` made room for ``come``, which stand where the first one stood, and
    ``uses`` are later equations that read another value now, each before and after."""

    stage: str
    rule: str
    gone: tuple[Eqn, ...]
    come: tuple[Eqn, ...]
    uses: tuple[tuple[Eqn, Eqn], ...] = ()


class _Account(Fuel):
    """Notes the rule by which an equation was rewritten: whoever burns fuel says it."""

    def __init__(self, amount: int) -> None:
        super().__init__(amount)
        self.rules: dict[Var, list[str]] = {}

    def burn(self, rule: Callable[[], str] | None = None, eqn: Eqn | None = None) -> bool:
        allowed = super().burn(rule, eqn)
        if allowed and rule is not None and eqn is not None:
            for var in eqn.outputs:
                self.rules.setdefault(var, []).append(rule())
        return allowed


def rewrites_of(graph: Graph, fuel: int) -> tuple[list[Rewrite], Graph]:
    """The changes from ``graph`` to what is fused and planned, in order, and that graph."""
    found: list[Rewrite] = []
    for run in (*PASSES, None):
        account = _Account(fuel)
        after = finalise(graph) if run is None else run(graph, account)
        name = "finalise" if run is None else run.__name__
        found += _changes(name, graph, after, account.rules)
        graph = after
        fuel = -1 if fuel < 0 else int(account.left)
    return found, graph


def _changes(stage: str, before: Graph, after: Graph, rules: dict[Var, list[str]]) -> list[Rewrite]:
    """What differs, equation by equation. One that stays may read other values, for which a change of the
    equation that made them is the reason: it is told with that."""
    now = {v: e for e in after.eqns for v in e.outputs}
    there = {v for e in before.eqns for v in e.outputs}
    came = _new_before(after.eqns, there)
    found: list[Rewrite] = []
    of_gone: dict[Var, int] = {}
    for eqn in before.eqns:
        kept = next((now[v] for v in eqn.outputs if v in now), None)
        if kept is not None and _is_same(eqn, kept) and not came.get(eqn.outputs[0]):
            continue
        rule = ", ".join(dict.fromkeys(r for v in eqn.outputs for r in rules.get(v, ())))
        if kept is None:
            of_gone.update(dict.fromkeys(eqn.outputs, len(found)))
            found.append(Rewrite(stage, rule or _USUAL.get(stage, stage), (eqn,), ()))
        elif rule or came.get(eqn.outputs[0]) or not _reads_others(eqn, kept, of_gone):
            new = (*came.get(eqn.outputs[0], ()), kept)
            found.append(Rewrite(stage, rule or _USUAL.get(stage, stage), (eqn,), new))
        else:
            reason = next(of_gone[a] for a in eqn.inputs if isinstance(a, Var) and a in of_gone)
            old = found[reason]
            found[reason] = Rewrite(old.stage, old.rule, old.gone, old.come, (*old.uses, (eqn, kept)))
    last = came.get(None)
    if last:
        found.append(Rewrite(stage, _USUAL.get(stage, stage), (), tuple(last)))
    return found


_USUAL = {
    "prune": "nothing needs it",
    "finalise": "memory needs a copy",
}


def _new_before(eqns: Sequence[Eqn], there: set[Var]) -> dict[Var | None, list[Eqn]]:
    """Equations that make new variables, by the output of the next one that was there before."""
    found: dict[Var | None, list[Eqn]] = {}
    waiting: list[Eqn] = []
    for eqn in eqns:
        if there.isdisjoint(eqn.outputs):
            waiting.append(eqn)
        elif waiting:
            found[eqn.outputs[0]] = waiting
            waiting = []
    if waiting:
        found[None] = waiting
    return found


def _is_same(a: Eqn, b: Eqn) -> bool:
    return a is b or (a.op is b.op and a.inputs == b.inputs and a.statics == b.statics)


def _reads_others(before: Eqn, after: Eqn, gone: dict[Var, int]) -> bool:
    """Whether the two differ in that they read something in the place of values that are gone."""
    same = before.op is after.op and before.statics == after.statics
    old: list[Atom] = [a for a in before.inputs if isinstance(a, Var) and a in gone]
    return same and bool(old)
