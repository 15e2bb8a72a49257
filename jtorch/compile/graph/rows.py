"""Whether a graph makes each row of its results from the same row of its inputs, as it would for any number
of rows. Rows lie along the first axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from jtorch.compile.graph.ir import Atom, Eqn, Literal, Var
from jtorch.core.op import Kind, Op


def row_by_row(eqns: Sequence[Eqn], inputs: Iterable[Var], results: Iterable[Atom]) -> bool:
    """Whether rows of ``inputs`` become rows of ``results``. What else the equations read is the same for all
    rows: it has fewer axes, or one of size 1 there.
    """
    rows = set(inputs)
    for eqn in eqns:
        if not rows.isdisjoint(eqn.inputs):  # type: ignore[arg-type] # literals are none of them
            if not _keeps_rows(eqn, rows):
                return False
            rows.update(eqn.outputs)
    return rows.issuperset(results)


def _tells_positions(op: Op) -> bool:
    """Whether its elements depend on where they are."""
    return op.text is not None and ("{position}" in op.text or "{index}" in op.text)


def _keeps_rows(eqn: Eqn, rows: set[Var]) -> bool:
    op, statics, out = eqn.op, eqn.statics, eqn.outputs[0]
    (given, *_) = [a for a in eqn.inputs if a in rows]
    if not given.shape or not out.shape or out.shape[0] != given.shape[0]:
        return False
    if op.kind is Kind.ELEMENTWISE:
        return not _tells_positions(op)
    if op.kind is Kind.REDUCTION:
        return "axis" in statics and 0 not in statics["axis"]
    kept = {
        "expand": len(out.shape) == len(given.shape), "reshape": True,
        "permute": _first(statics, "axes") == 0,
        "unsqueeze": 0 not in statics.get("axes", ()), "squeeze": 0 not in statics.get("axes", ()),
        "flip": 0 not in statics.get("axes", ()), "slice": True, "select": statics.get("axis") != 0,
        "cat": statics.get("axis") != 0, "pad": _first(statics, "low") == _first(statics, "high") == 0,
    }  # fmt: skip
    return kept.get(op.name, False)


def _first(statics: dict[str, Any], name: str) -> Any:
    return next(iter(statics.get(name, ())), None)


def same_but_for_rows(a: Sequence[Eqn], b: Sequence[Eqn], n: Any, m: Any) -> bool:
    """Whether the equations are the same but for ``n`` (a number of rows, or a shape) in place of ``m``."""
    if len(a) != len(b):
        return False
    pairs: dict[Any, Any] = {}
    for x, y in zip(a, b, strict=True):
        if x.op is not y.op or not _alike(x.statics, y.statics, n, m):
            return False
        if _tells_positions(x.op) and x.statics != y.statics:  # as many as there are rows
            return False
        if len(x.inputs) != len(y.inputs) or len(x.outputs) != len(y.outputs):
            return False
        for u, v in zip(x.inputs, y.inputs, strict=True):
            if isinstance(u, Literal) or isinstance(v, Literal):
                if repr(u) != repr(v):
                    return False
            elif pairs.setdefault(u, v) is not v:
                return False
        pairs.update(zip(x.outputs, y.outputs, strict=True))
    return True


def _alike(x: Any, y: Any, n: Any, m: Any) -> bool:
    if type(x) is type(n) is type(y) and x == n and y == m:
        return True
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(_alike(x[k], y[k], n, m) for k in x)
    if isinstance(x, tuple):
        return isinstance(y, tuple) and len(x) == len(y) and all(map(_alike, x, y, repeat(n), repeat(m)))
    return type(x) is type(y) and x == y
