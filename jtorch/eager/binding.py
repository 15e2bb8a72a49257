"""From a declaration to functions: the Tensor-level one, and the public one in PyTorch's signature.

Their source is generated (see ``source.py``) and compiled at the first call: importing jtorch would cost
0.2 s more if all of it were compiled then.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.narrow import narrowed
from jtorch.core.number_ranges import is_operand
from jtorch.core.op import BY_NAME, TABLE, Kind, Op
from jtorch.eager import messages, results, shortcuts
from jtorch.eager.autocasting import computed, uncast
from jtorch.eager.joined import joined
from jtorch.eager.node import node_class
from jtorch.eager.python_values import wrap_number
from jtorch.eager.reflected import answer, is_asked, overridden, speaks_for_itself
from jtorch.eager.signatures import accepting_source
from jtorch.eager.sixteen_bits import HALVES, any_half, any_half_of_host, as_one, is_half, through_float32
from jtorch.eager.source import apply_source, faced_source, named_source
from jtorch.eager.tensor import Tensor, wrap
from jtorch.eager.unusual import WATCHERS, expect_complex, look_at
from jtorch.ops import axes

APPLY: dict[str, Callable] = {}  # op name -> function of Tensors and statics, as bodies call it


def apply_variadic(op: Op, inputs: tuple, statics: dict[str, Any]) -> Tensor:
    """The Tensor-level function of an op whose last array argument is a list."""
    context = op_module.CONTEXT.get()
    if context.level is not None:
        return with_tangents(op, context, inputs, statics)
    values: tuple = tuple([t._data if isinstance(t, Tensor) else t for t in inputs])
    if op.dtype == "promote" and not _are_alike(values):
        values = cast_all(op, context, values)
    try:
        out = context.table[op.index](*values, **statics)
    except Exception as error:
        raise explain(op, values, error) from None
    result = wrap(out if out.__class__ is np.ndarray else context.evaluator.as_value(out))
    if not (context.grad and op.vjp_function and _needs_gradient(inputs)):
        return result
    fixed = len(op.arrays) - 1
    by_name = dict(zip(op.arrays, (*values[:fixed], values[fixed:]), strict=True)) | statics
    by_name["needs"] = tuple(isinstance(t, Tensor) and t._requires_grad for t in inputs)
    by_name["out"] = out
    for k, name in enumerate(op.arrays):
        value = by_name[name]
        many = op.variadic and k == fixed
        by_name[f"{name}_shape"] = tuple(v.shape for v in value) if many else value.shape
    saved = tuple(by_name[name] for name in op.save_list)
    kept = {n for n in op.save_list if n in op.arrays}
    keepers = [t for k, t in enumerate(inputs) if op.arrays[min(k, fixed)] in kept]
    seen = [t for t in keepers if isinstance(t, Tensor)]
    versions = tuple(fact for t in seen for fact in (t._cell, t._cell[0] + 0))
    edges = tuple(
        (t._node or t, t._index) if isinstance(t, Tensor) and t._requires_grad else None for t in inputs
    )
    node = node_class(op)(edges, saved, versions, (out.shape, out.dtype))
    if WATCHERS:
        look_at(node)
    result._node, result._requires_grad = node, True
    return result


def _needs_gradient(inputs: tuple) -> bool:
    for t in inputs:  # noqa: SIM110  three times as fast as any()
        if isinstance(t, Tensor) and t._requires_grad:
            return True
    return False


def _are_alike(values: tuple) -> bool:
    """Whether they are arrays of one dtype, which nothing need be done to."""
    first = values[0]
    if first.__class__ is not np.ndarray:
        return False
    dtype = first.dtype
    for value in values:  # noqa: SIM110  three times as fast as all()
        if value.__class__ is not np.ndarray or value.dtype is not dtype:
            return False
    return True


def cast_all(op: Op, context: Any, values: tuple, of_tensors: tuple = ()) -> tuple:
    """``values`` brought to the dtype that the op computes in, as its declaration says; NotImplemented where
    the second one is to say what comes out, see ``reflected.py``.

    ``of_tensors`` says which of them tensors had: a NumPy array among the others is not weak without dims.
    """
    skip = 1 if op.dtype == "where" else 0
    key = _key(op, values, of_tensors)
    known = _TARGETS.get(key)
    if known is not None:
        return (*values[:skip], *[_cast(op, context, v, known) for v in values[skip:]])
    if len(values) == 2 and (is_asked(op.name, values[1]) or speaks_for_itself(op.name, values[0])):
        return NotImplemented  # type: ignore[return-value]
    # NumPy's numbers are weak, as Python's are, and so is what stands for one
    values = tuple(
        v.item() if isinstance(v, np.generic) or getattr(v, "is_number", False) else v for v in values
    )
    there = values[skip:] if op.kind is Kind.ELEMENTWISE else [v for v in values[skip:] if v is not None]
    if not all(map(is_operand, there)):
        raise TypeError(messages.bad_argument(op, values))
    tensors = [(v.dtype, v.ndim) for v in values[skip:] if hasattr(v, "dtype")]
    if not all(of_tensors) and len(tensors) > 1:
        pairs = list(zip(values, of_tensors, strict=True))[skip:]
        if any(not known and hasattr(v, "dtype") for v, known in pairs):
            tensors = [(_beside_array(op, [d for d, _ in tensors]), 1)]
    numbers: list[Any] = [v for v in values[skip:] if isinstance(v, (bool, int, float, complex))]
    numbers += [v.as_runtime_scalar for v in values[skip:] if hasattr(v, "as_runtime_scalar")]
    if not tensors and not numbers:
        raise TypeError(messages.bad_argument(op, values))
    target = dt.promote(tensors, numbers)
    if op.ordered and target.kind == "c":
        raise NotImplementedError(messages.not_ordered(op, target))
    if op.refuses_bools:
        messages.check_bools(op, values, target)
        messages.check_power(op, values, target)
    if target.kind == "c":
        expect_complex()
    if op.dtype == "float":
        target = dt.to_float(target)
    elif op.dtype == "sum" and target.kind in "biu":
        target = _INT64
    if op.dtype == "floating" and target.kind in "biu":
        raise RuntimeError(messages.not_floating(op, target))
    cast = (*values[:skip], *(_cast(op, context, v, target) for v in values[skip:]))
    if op.fitting:  # a base, or an exponent, stays the number that it is: of a base the logarithm is taken
        cast = tuple(float(v) if c.__class__ is _SIXTEEN else c for c, v in zip(cast, values, strict=True))
    if key is not None and target.kind != "c":
        _TARGETS[key] = target
    return cast


_SIXTEEN = dt.BFLOAT16.type
_TARGETS: dict[Any, np.dtype] = {}  # what ``cast_all`` casts to, where classes and dtypes say it


def _key(op: Op, values: tuple, of_tensors: tuple) -> Any:
    """What tells the dtype that ``values`` are brought to; None where more than classes and dtypes does."""
    if op.fitting:
        return None
    key: list[Any] = [op, dt.get_default_dtype()]
    for k, value in enumerate(values):
        kind = value.__class__
        if kind is np.ndarray and (not of_tensors or of_tensors[k]):
            key += value.dtype, not value.ndim
            is_bool = value.dtype.kind == "b"
        elif kind is int or kind is float or kind is bool:
            key.append(kind)
            is_bool = kind is bool
        else:
            return None
        if is_bool and op.refuses_bools:
            return None
    return tuple(key)


def _beside_array(op: Op, dtypes: list[np.dtype]) -> np.dtype:
    """The dtype of a tensor's arithmetic with NumPy's arrays, which is NumPy's: float64 for int64 beside
    float32."""
    target = dt.promoted_by_numpy(dtypes)
    return _FLOAT64 if op.dtype == "float" and target.kind in "biu" else target


def _cast(op: Op, context: Any, value: Any, target: np.dtype) -> Any:
    if hasattr(value, "dtype"):
        return value if value.dtype is target else context.table[_CAST.index](value, dtype=target)
    if value is None:
        return None
    if isinstance(value, (bool, int, float, complex)):
        return wrap_number(value, target)
    if hasattr(value, "as_runtime_scalar"):
        return value
    raise TypeError(messages.bad_argument(op, (value,)))


def explain(op: Op, values: tuple, error: Exception) -> Exception:
    """NumPy's error as PyTorch words it, where the shapes or dtypes tell what went wrong."""
    return messages.explain(op, values, error)


def raw(*arguments: Any) -> tuple:
    """What the tensors among them hold."""
    return tuple(a._data if isinstance(a, Tensor) else a for a in arguments)


def shares_memory(value: Any, out: Any) -> bool:
    """Whether a reshape of ``value`` gave a view: also of no elements, if ``value`` is itself a view."""
    if out.__class__ is np.ndarray:
        behind = out.base is not None and out.base is getattr(value, "base", None)
        return behind or np.may_share_memory(value, out)
    return out.lies_in(value)  # what a recording handles knows its memory


def with_tangents(op: Op, context: Any, arrays: tuple, statics: dict[str, Any]) -> Any:
    """``op`` at a level of forward mode, which few programs enter."""
    from jtorch.eager.forward import with_tangents

    return with_tangents(op, context, arrays, statics)


UNCHANGED = [0]  # the version cell of a number: it never changes
_CAST = BY_NAME["cast"]
_INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)
NAMESPACE = {
    "__name__": __name__,  # what warning filters go by
    "CONTEXT": op_module.CONTEXT, "Tensor": Tensor, "ndarray": np.ndarray,
    "cast_all": cast_all, "answer": answer, "explain": explain, "raw": raw, "apply_variadic": apply_variadic,
    "not_ordered": messages.not_ordered,
    "UNCHANGED": UNCHANGED,
    "shares_memory": shares_memory,
    "WATCHERS": WATCHERS, "look_at": look_at, "expect_complex": expect_complex, "any_half": any_half,
    "any_half_of_host": any_half_of_host,
    "is_half": is_half, "HALVES": HALVES, "FLOAT32": np.dtype(np.float32), "FLOAT64": np.dtype(np.float64),
    "FLOAT16": np.dtype(np.float16), "BFLOAT16": dt.BFLOAT16, "as_one": as_one,
    "through_float32": through_float32, "ALL_AXES": axes.ALL,
    "not_a_tensor": messages.not_a_tensor, "overridden": overridden, "check_tensors": messages.check_tensors,
    "on_tape": results.on_tape, "off_tape": results.off_tape, "edge_of": results.edge_of,
    "with_tangents": with_tangents, "note_view": results.note_view, "joined": joined,
    "autocast": computed, "uncast": uncast,
}  # fmt: skip


# -- functions that are compiled at their first call -------------------------------------------------


def _unborn(*args: Any, **kwargs: Any) -> Any:
    return born()(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821 - in the globals of each copy


def lazily(name: str, make: Callable[[dict[str, Any]], tuple[str, str]], doc: str | None = None) -> Callable:
    """A function called ``name`` whose source ``make(globals)`` gives, with its file name, when it is needed.

    The first call compiles it and gives this very function its code, so whoever holds it pays nothing later.
    """
    namespace: dict[str, Any] = {"__name__": __name__}
    function: Any = types.FunctionType(_unborn.__code__, namespace, name)
    function.__qualname__ = name  # what TypeErrors call it

    def born() -> Callable:
        text, file = make(namespace)
        made: dict[str, Any] = {}
        exec(compile(text, file, "exec"), namespace, made)
        (real,) = made.values()
        function.__defaults__, function.__kwdefaults__ = real.__defaults__, real.__kwdefaults__
        function.__code__ = real.__code__
        function.__dict__.pop("born", None)
        return function

    namespace["born"] = function.born = born
    function.__doc__ = doc
    return function


def compiled_now(function: Any) -> Callable:
    """``function``, and what it wraps, with their real code and signatures, for those who look into it
    instead of calling it."""
    inner = function
    while inner is not None:
        if hasattr(inner, "born"):
            inner.born()
        inner = getattr(inner, "__wrapped__", None)
    return function


def _apply_function(op: Op) -> Callable:
    def make(namespace: dict[str, Any]) -> tuple[str, str]:
        _fill(namespace, op)
        return apply_source(op, namespace["shortcut"] is not None), f"<jtorch eager {op.name}>"

    return lazily(op.name, make, op.body.__doc__)


def _fill(namespace: dict[str, Any], op: Op) -> None:
    namespace.update(NAMESPACE)
    namespace.update(op=op, apply=APPLY[op.name], Node_=node_class(op), shortcut=shortcuts.shortcut(op))
    if op in narrowed():
        namespace["of_16_bits"] = _apply_function(narrowed()[op])


for _op in TABLE:
    APPLY[_op.name] = _apply_function(_op)


def public_function(op: Op) -> Callable:
    """What users call: the op under PyTorch's argument names, or behind its face, with ``out=``."""
    face = op.face_function
    name = op.public or op.name
    if op.variadic and face is None:
        return APPLY[op.name]

    def make(namespace: dict[str, Any]) -> tuple[str, str]:
        _fill(namespace, op)
        namespace.update(face=face, into=into)
        fast = namespace["shortcut"] is not None
        text = named_source(op, fast) if face is None else faced_source(op, namespace, fast)
        return text, f"<jtorch public {name}>"

    function: Any = lazily(name, make, (face and face.__doc__) or op.body.__doc__)
    if face is not None:
        function.__wrapped__ = face
    return function


def accepting(function: Callable, out: bool = True, also: dict[str, str] | None = None) -> Callable:
    """``function`` with the keywords more that PyTorch's functions take: ``out``, NumPy's names, and those of
    ``also``, second names of its own parameters."""

    def make(namespace: dict[str, Any]) -> tuple[str, str]:
        namespace.update(function=function, into=into, uncast=uncast, overridden=overridden)
        name = function.__name__.rstrip("_") or function.__name__
        return accepting_source(name, function, namespace, out, also), f"<jtorch keywords of {name}>"

    made: Any = lazily(function.__name__, make, function.__doc__)
    made.__wrapped__ = function
    return made


def into(out: Any, result: Any, name: str, read: tuple = ()) -> Any:
    """``result`` written into the memory of ``out``, which is returned: PyTorch's ``out=``. ``read`` are the
    arguments of which none may overlap with it in part."""
    from jtorch.eager.inplace import write_out

    return write_out(out, result, name, read)


class _TensorNamespace:
    """``xp`` over Tensors: bodies and gradients run through it can be differentiated again."""


def _with_numpy_dtype(function: Callable) -> Callable:
    """``function`` for callers whose ``dtype`` is a Tensor's, where arrays have NumPy's."""

    def called(*values: Any, dtype: Any, **statics: Any) -> Any:
        return function(*values, dtype=dt.to_numpy(dtype), **statics)

    return called


TENSOR_XP = _TensorNamespace()
for _op in TABLE:
    if _op.kind is not Kind.COMPOSITE:
        _function = APPLY[_op.name]
        setattr(
            TENSOR_XP,
            _op.name,
            _with_numpy_dtype(_function) if "dtype" in _op.statics else _function,
        )
