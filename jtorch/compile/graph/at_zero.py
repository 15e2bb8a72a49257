"""Whether what is computed from some variables is zero where these are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from jtorch.compile.graph.ir import Atom, Eqn, Literal, Var
from jtorch.core.op import Kind
from jtorch.ops import xp

_OTHERS = (0.0, 1.0, -2.5)  # what is tried for values that are not from these variables


def are_zero_at_zero(eqns: Iterable[Eqn], variables: Iterable[Var]) -> bool:
    """Whether all results of ``eqns`` that rest on ``variables`` alone are zero for zeros, as far as is
    known: what is computed element by element is tried, the rest is known by its kind."""
    resting: set[Atom] = set(variables)
    zero: set[Atom] = set()  # what is so anyway
    for eqn in eqns:
        which = [a in resting or a in zero for a in eqn.inputs]
        if not resting.isdisjoint(eqn.inputs):
            if not _is_zero_at_zero(eqn, which):
                return False
            resting.update(eqn.outputs)
        elif _is_filled_with_zero(eqn) or (any(which) and _is_zero_at_zero(eqn, which)):
            zero.update(eqn.outputs)
    return True


def _is_filled_with_zero(eqn: Eqn) -> bool:
    if "shape" not in eqn.statics or len(eqn.inputs) != 1:
        return False
    return isinstance(eqn.inputs[0], Literal) and eqn.inputs[0].value == 0


def _is_zero_at_zero(eqn: Eqn, which: Sequence[bool]) -> bool:
    if eqn.op.kind is Kind.ELEMENTWISE:
        return all(_gives_zero(eqn, which, other) for other in _OTHERS)
    if eqn.op.kind is Kind.VIEW:
        return all(which)  # else parts of it are something else
    return eqn.op.kind in (Kind.REDUCTION, Kind.CONTRACTION)


def _gives_zero(eqn: Eqn, which: Sequence[bool], other: float) -> bool:
    values = [
        a.value if isinstance(a, Literal) else np.full(1, 0.0 if rests else other).astype(a.dtype)
        for a, rests in zip(eqn.inputs, which, strict=True)
    ]
    with np.errstate(all="ignore"):
        found = eqn.op.body(xp, *values, **eqn.statics)
    results = found if isinstance(found, tuple) else (found,)
    return not any(np.any(result) and not np.isnan(result).any() for result in results)
