"""Whether two results of one program are as equal as their precision allows.

Most differences fit a budget relative to the values. Some values are nothing but rounding errors (the
gradient of a bias before a batch norm is zero) and an optimizer may make full steps of them. So what
exceeds the budget is judged by the same graph in float64: a result may be wrong by as much as eager mode's
own is, times a factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.interpret import evaluate, read
from jtorch.compile.graph.ir import Eqn, Graph, Literal, Var
from jtorch.compile.inspect.stages import Values, differs
from jtorch.core.dtypes import is_float
from jtorch.core.op import BY_NAME
from jtorch.ops import xp

_FACTOR = 256.0  # noise in another order is a few times more or less, and squared by some optimizers
_F64 = np.dtype(np.float64)


class Tolerance:
    """Compares values of variables of ``graph``, which runs in float64 when that is needed first."""

    def __init__(self, graph: Graph, arguments: Sequence[Any], budget: Mapping[str, float]) -> None:
        self.graph = graph
        self.arguments = arguments
        self.budget = budget
        self._plain: Values | None = None
        self._exact: Values | None = None

    def differs_from_eager(self, expected: Any, found: Any, atom: Any = None) -> str | None:
        """how ``found`` is worse than eager mode's ``expected``; ``atom`` is what both are, if known."""
        told = differs(expected, found, self.budget)
        if told is None or not isinstance(atom, Var):
            return told
        plain = self.plain().get(atom)
        if self.differs(plain, expected, atom) is not None:
            return told  # a recording that is not what eager mode did is no measure of it
        # eager mode's kernels may round otherwise than the recording by NumPy: either's noise will do
        return self.differs(expected, found, atom) and self.differs(plain, found, atom)

    def differs(self, expected: Any, found: Any, atom: Any = None) -> str | None:
        """The same for two ways to run the recorded graph."""
        told = differs(expected, found, self.budget)
        if told is None or not isinstance(atom, Var) or expected is None or found is None:
            return told
        exact = self.exact().get(atom)
        a, b = np.asarray(expected), np.asarray(found)
        if exact is None or not is_float(a.dtype) or (a.dtype, a.shape) != (b.dtype, b.shape):
            return told
        return None if self._is_noise(a, b, exact) else told

    def _is_noise(self, a: np.ndarray, b: np.ndarray, exact: np.ndarray) -> bool:
        if not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(exact).all()):
            return False
        allowed = _FACTOR * np.abs(a - exact).max(initial=0.0)
        allowed += self.budget.get(a.dtype.name, 0.0) * np.abs(exact).max(initial=0.0)
        return bool(np.abs(b - exact).max(initial=0.0) <= allowed)

    def rounded(self, number: float, atom: Any) -> Any:
        """A number that ``.item()`` gave, in the precision that it was computed in: that of the tensors that
        ``atom`` is made of."""
        made_by = {var: eqn for eqn in self.graph.eqns for var in eqn.outputs}
        stack, seen = [atom], {atom}
        while stack:
            eqn = made_by.get(stack.pop())
            for a in (a for a in (eqn.inputs if eqn is not None else ()) if isinstance(a, Var)):
                if is_float(a.dtype) and a.dtype.itemsize < _F64.itemsize:
                    return a.dtype.type(number)
                if not a.shape and a not in seen:
                    seen.add(a)
                    stack.append(a)
        return number

    def plain(self) -> Values:
        """Every variable of the graph, interpreted."""
        if self._plain is None:
            self._plain = evaluate(self.graph, self.arguments)
        return self._plain

    def exact(self) -> Values:
        """Every variable of the graph, computed in float64."""
        if self._exact is None:
            self._exact = evaluate_in_double(self.graph, self.arguments)
        return self._exact


def evaluate_in_double(graph: Graph, arguments: Sequence[Any]) -> Values:
    """The value of every variable with floats as float64; random numbers stay those of the graph's dtype."""
    values: Values = {}
    for var, argument in zip(graph.inputs, arguments, strict=True):
        values[var] = _double(np.asarray(argument, var.dtype))
    with np.errstate(all="ignore"):
        for eqn in graph.eqns:
            outs = _computed(eqn, values)
            for var, value in zip(eqn.outputs, outs, strict=True):
                values[var] = _double(np.asarray(value)).reshape(var.shape)
    return values


def _computed(eqn: Eqn, values: Values) -> Sequence[Any]:
    if BY_NAME.get(eqn.op.name) is not eqn.op:  # a disabled callee, which is given what it is given in a call
        inputs = [np.asarray(_input(a, values, False), a.dtype) for a in eqn.inputs]
        return _outputs(eqn, eqn.op.body(xp, *inputs, **eqn.statics))
    follows = any(isinstance(a, Var) and is_float(a.dtype) for a in eqn.inputs)
    statics = {k: _F64 if follows and _is_float(v) else v for k, v in eqn.statics.items()}
    inputs = [_input(a, values, follows) for a in eqn.inputs]
    return _outputs(eqn, eqn.op.body(xp, *inputs, **statics))


def _outputs(eqn: Eqn, out: Any) -> Sequence[Any]:
    return out if len(eqn.outputs) > 1 else (out,)


def _input(atom: Any, values: Values, follows: bool) -> Any:
    if isinstance(atom, Literal):
        return np.float64(atom.value) if follows and is_float(atom.dtype) else read(values, atom)
    return values[atom]


def _is_float(value: Any) -> bool:
    return isinstance(value, np.dtype) and is_float(value)


def _double(value: np.ndarray) -> np.ndarray:
    return value.astype(_F64) if is_float(value.dtype) else value
