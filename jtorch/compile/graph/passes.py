"""The passes over a graph: pure functions from graph to graph, in one list.

widen -> fold -> simplify -> share -> prune. Each leaves the graph's inputs and the order of its outputs
alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jtorch.compile.graph.halves import has_halves, widened
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Var, check, repeated
from jtorch.compile.graph.reads import checks_of, may_fail
from jtorch.compile.graph.rules import RULES
from jtorch.core import config
from jtorch.core.dim import is_symbolic
from jtorch.core.dtypes import is_float
from jtorch.core.op import Kind
from jtorch.core.sizes import cast, computed, exactly
from jtorch.ops import xp

_RULES_OF: dict[str, list] = {}
for _name, _rule in RULES:
    _RULES_OF.setdefault(_name, []).append(_rule)


class Fuel:
    """How many rewrites and fusions are still allowed: ``JTORCH_FUEL`` bisects a miscompile."""

    def __init__(self, amount: int) -> None:
        self.left = amount if amount >= 0 else float("inf")

    def burn(self, rule: Callable[[], str] | None = None, eqn: Eqn | None = None) -> bool:
        """Whether one more is allowed; counts it. ``rule`` and ``eqn`` say which, for who keeps account."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True


def fold(graph: Graph, fuel: Fuel) -> Graph:
    """Compute what depends on literals only, and put literals where a ``full`` repeats one."""

    def rewrite(eqn: Eqn, define: Any) -> Atom | Eqn | None:
        if eqn.op.kind is not Kind.ELEMENTWISE:
            return None
        inputs = tuple([_as_literal(a, define) for a in eqn.inputs])
        literals = [a for a in inputs if isinstance(a, Literal)]
        if not literals:
            return None
        arity_kept = any(isinstance(a, Var) and a.shape for a in inputs) or not eqn.outputs[0].shape
        if len(literals) == len(inputs) and "shape" not in eqn.statics:
            return _folded(eqn, literals)
        changed = any(a is not b for a, b in zip(inputs, eqn.inputs, strict=True))
        return eqn.replace(inputs=inputs) if changed and arity_kept else None

    return _rewritten(graph, rewrite, fuel)


def _as_literal(atom: Atom, define: Any) -> Atom:
    eqn = define(atom) if atom.__class__ is Var else None
    if eqn is not None and "value" in eqn.op.arrays and isinstance(eqn.inputs[0], Literal):
        literal = eqn.inputs[0]
        return Literal(cast(atom.dtype, literal.value), atom.dtype, literal.static)
    return atom


def _folded(eqn: Eqn, literals: list[Literal]) -> Atom | Eqn | None:
    """The result of an op on numbers, as a literal, or repeated to the shape it had."""
    out, op, statics = eqn.outputs[0], eqn.op, eqn.statics
    dtypes = [a.dtype for a in literals]
    if not is_float(out.dtype) and out.dtype.kind != "c" and any(is_symbolic(a.value) for a in literals):
        return None  # a kernel computes integers as NumPy does, whatever they are

    def body(*values: Any) -> Any:
        return op.body(xp, *(d.type(v) for d, v in zip(dtypes, values, strict=True)), **statics)

    static = all(a.static for a in literals)
    try:
        literal = Literal(computed(out.dtype, body, [a.value for a in literals]), out.dtype, static)
    except RuntimeError:  # an integer by zero: each call has the error, with its line
        return None
    if not out.shape:
        return literal
    return repeated(literal, out, eqn.source)


def widen(graph: Graph, fuel: Fuel) -> Graph:
    """Compute in float32 what has floats of 16 bits. Not a matter of fuel: kernels know them no other way."""
    if not any(map(has_halves, graph.eqns)):
        return graph
    return _rewritten(graph, widened, Fuel(-1))


def simplify(graph: Graph, fuel: Fuel) -> Graph:
    """Apply the rows of ``rules.py`` until none fits."""

    def rewrite(eqn: Eqn, define: Any) -> Atom | Eqn | tuple[Eqn, ...] | None:
        for rule in _RULES_OF.get(eqn.op.name, ()):
            found = rule(eqn, define)
            if found is not None:
                last[0] = rule
                return found
        return None

    last: list[Callable] = [simplify]  # the rule that answered last
    return _rewritten(graph, rewrite, fuel, lambda: told(last[0]))


_COMPUTED = "numbers are computed"


def _an_equal_one() -> str:
    return "an equal equation was there"


def told(rule: Callable) -> str:
    """What a rule does, in words: its docstring, or its name."""
    doc = (rule.__doc__ or "").partition("\n")[0].strip()
    return doc or rule.__qualname__.partition(".")[0].strip("_").replace("_", " ")


def share(graph: Graph, fuel: Fuel) -> Graph:
    """Common subexpressions: equations that are equal become one."""
    seen: dict[Any, tuple[Var, ...]] = {}
    new: dict[Var, Atom] = {}
    eqns = []
    for eqn in graph.eqns:
        if new:
            eqn = eqn.with_inputs(new)
        inputs = eqn.inputs
        keys = tuple(id(a) if isinstance(a, Var) else (exactly(a.value), a.dtype, a.static) for a in inputs)
        if eqn.op.commutes:
            keys = tuple(sorted(keys, key=repr))
        statics = eqn.statics
        key: Any = (eqn.op, keys)
        if statics:
            key += tuple((name, exactly(statics[name])) for name in sorted(statics))
        known = seen.get(key)
        if known is not None and fuel.burn(_an_equal_one, eqn):
            new.update(zip(eqn.outputs, known, strict=True))
            continue
        seen[key] = eqn.outputs
        eqns.append(eqn)
    outputs = tuple(new.get(a, a) if isinstance(a, Var) else a for a in graph.outputs)
    return graph.replace(eqns=tuple(eqns), outputs=outputs)


def prune(graph: Graph, fuel: Fuel) -> Graph:
    """Drop equations that nothing needs."""
    needed = {a for a in graph.outputs if isinstance(a, Var)}
    kept = []
    for eqn in reversed(graph.eqns):
        for v in eqn.outputs:
            if v in needed:
                kept.append(eqn)
                needed.update(a for a in eqn.inputs if isinstance(a, Var))
                break
    return graph.replace(eqns=tuple(reversed(kept)))


def unread_checks(graph: Graph) -> list[Var]:
    """Outputs of equations that nothing needs, but that may be an error: one for each check that no other
    equation makes."""
    kept = set(prune(graph, Fuel(-1)).eqns)
    unread = [eqn.outputs[0] for eqn in graph.eqns if eqn not in kept and (checks_of(eqn) or may_fail(eqn))]
    if not unread:
        return []
    n = len(graph.outputs)
    shared = share(graph.replace(outputs=(*graph.outputs, *unread)), Fuel(-1))  # equal indices are one
    maker = {v: eqn for eqn in shared.eqns for v in eqn.outputs}
    needed = prune(shared.replace(outputs=shared.outputs[:n]), Fuel(-1)).eqns
    made = frozenset().union(*map(checks_of, needed))
    found = []
    for var, now in zip(unread, shared.outputs[n:], strict=True):
        eqn = maker[now]  # type: ignore[index]
        checks = checks_of(eqn)
        if not checks <= made or (may_fail(eqn) and eqn not in needed):
            made |= checks
            found.append(var)
    return found


def _rewritten(
    graph: Graph, rewrite: Callable, fuel: Fuel, rule: Callable[[], str] = lambda: _COMPUTED
) -> Graph:
    """One pass in order: ``rewrite`` gives an equation's replacement (or several, the last of which makes its
    outputs), or the atom its output becomes; ``rule`` why."""
    new: dict[Var, Atom] = {}
    definition: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []

    def define(atom: Atom) -> Eqn | None:
        return definition.get(atom) if isinstance(atom, Var) else None

    def keep(made: Eqn) -> None:
        eqns.append(made)
        for v in made.outputs:
            definition[v] = made

    for eqn in graph.eqns:
        if new:
            eqn = eqn.with_inputs(new)
        found: Atom | Eqn | tuple[Eqn, ...] | None = rewrite(eqn, define)
        while isinstance(found, (Eqn, tuple)) and fuel.burn(rule, eqn):
            *first, eqn = found if isinstance(found, tuple) else (found,)
            for made in first:
                keep(made)
            found = rewrite(eqn, define)
        if isinstance(found, (Var, Literal)) and fuel.burn(rule, eqn):
            new[eqn.outputs[0]] = found
            continue
        keep(eqn)
    outputs = tuple(new.get(a, a) if isinstance(a, Var) else a for a in graph.outputs)
    return graph.replace(eqns=tuple(eqns), outputs=outputs)


PASSES: tuple[Callable[[Graph, Fuel], Graph], ...] = (
    prune,
    widen,
    fold,
    simplify,
    fold,
    simplify,
    share,
    prune,
)


def optimise(graph: Graph, fuel: Fuel, observe: Callable[[str, Graph, float], None] | None = None) -> Graph:
    """Run every pass in order; ``observe(name, graph, seconds)`` is told of each."""
    checking = config.get("CHECK")
    for run in PASSES:
        start = time.perf_counter()
        graph = run(graph, fuel)
        if observe is not None:
            observe(run.__name__, graph, time.perf_counter() - start)
        if checking:
            check(graph)
    return graph
