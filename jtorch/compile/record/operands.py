"""The operands of an op that is recorded: which are refused, and as which atoms the others are written down.

NumPy refuses dtypes and what is no number when an op runs; a recording runs nothing. So the op is asked once
for each combination of dtypes and types, on arrays without elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Literal, Var
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.record.leaks import leaked
from jtorch.compile.record.sym import Sym
from jtorch.core import sizes
from jtorch.core.dim import is_symbolic, value_of
from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import BY_NAME, Op
from jtorch.ops import xp

if TYPE_CHECKING:
    from jtorch.compile.record.trace import Tracer

_CAST, _EXPAND = BY_NAME["cast"], BY_NAME["expand"]
_TAKEN: set[tuple] = set()  # combinations that an op takes
_NUMBERS = (bool, int, float, complex)


def check_operands(op: Op, values: tuple, statics: dict[str, Any]) -> None:
    """Raise what computing ``op`` on such values raises. Raises TypeError for what is no number."""
    if op.dtype == "static":  # patterns and casts say themselves what they take
        return
    key = (op.index, *(getattr(v, "dtype", type(v)) for v in values))
    if key in _TAKEN:
        return
    op.body(xp, *map(_sample, values), **statics)
    for value in values:
        if not hasattr(value, "dtype") and not isinstance(value, (*_NUMBERS, Scalar)):
            raise TypeError(f"argument must be Tensor or a number, not {type(value).__name__}")
    _TAKEN.add(key)


def _sample(value: Any) -> Any:
    if hasattr(value, "dtype"):
        return np.empty(0, value.dtype)
    return value.as_runtime_scalar if isinstance(value, Scalar) else value_of(value)


def broadcast(tracer: Tracer, op: Op, values: tuple, statics: dict[str, Any]) -> list[Atom]:
    """Arguments as atoms of one dtype, each of the result's shape or without axes."""
    arrays = [v for v in values if isinstance(v, Sym)]
    shape = statics.get("shape") or sizes.broadcast(*(a.shape for a in arrays))
    dtype = _common_dtype(op, arrays, values, statics)
    atoms: list[Atom] = []
    for k, value in enumerate(values):
        wanted = None if op.dtype == "where" and k == 0 else dtype
        # a number that a pattern repeats (zeros, the seed gradient) is part of the program's structure
        atom = typed(tracer, value, wanted, static=op.dtype == "static")
        if isinstance(atom, Var) and atom.shape not in (shape, ()):
            (atom,) = tracer.emit(_EXPAND, [atom], {"shape": tuple(shape)})
        atoms.append(atom)
    return atoms


def _common_dtype(op: Op, arrays: list[Sym], values: tuple, statics: Any) -> np.dtype | None:
    if op.dtype == "static":  # cast, full, uniform...: each argument keeps its own
        return None if arrays else statics.get("dtype")
    own = arrays[1:] if op.dtype == "where" and isinstance(values[0], Sym) else arrays
    if not own:
        return np.dtype(np.float64)
    dtype = own[0].dtype
    if op.dtype not in ("logical", "index") and any(a.dtype != dtype for a in own):
        mixed = ", ".join(dict.fromkeys(str(a.dtype) for a in own))
        raise CompileError(
            f"{user_source()}: {op.name} of state of several dtypes ({mixed}), of which eager mode computes "
            "in one: bring it to one outside (a new optimizer after model.double())."
        )
    return None if op.dtype in ("logical", "index") else dtype


def typed(tracer: Any, value: Any, dtype: np.dtype | None, static: bool = False) -> Atom:
    if isinstance(value, Sym):
        return tracer.read(value)
    if isinstance(value, Scalar):
        if value.tracer is not tracer:
            raise leaked(value.tracer, (value,))
        if dtype is None or dtype == value.var.dtype:
            return value.var
        return tracer.emit(_CAST, [value.var], {"dtype": dtype})[0]
    if dtype is None:
        kind = np.bool_ if isinstance(value, bool) else np.int64 if isinstance(value, int) else np.float64
        dtype = np.dtype(kind)
    return Literal(sizes.cast(dtype, value), dtype, static and not is_symbolic(value))
