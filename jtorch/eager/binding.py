"""From a declaration to the Tensor-level function: unwrap, cast, compute, wrap, hang a node.

The function of each op is generated as source for its exact number of arguments and save list, because
this is the path every eager op takes: a generic loop over arguments costs more than NumPy's own call.
``print(source(op))`` shows it. For ``mul`` it begins

    def mul(x, y):
        context = CONTEXT.get()
        x_is = isinstance(x, Tensor)
        ...
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch import dtypes as dt
from jtorch import op as op_module
from jtorch.eager import anomaly, messages
from jtorch.eager.node import node_class, watched
from jtorch.eager.tensor import Tensor, wrap_number
from jtorch.op import BY_NAME, TABLE, Kind, Op

APPLY: dict[str, Callable] = {}  # op name -> function of Tensors and statics, as bodies call it


def source(op: Op) -> str:
    """The Python source of the Tensor-level function of ``op``."""
    return (_variadic_source if op.variadic else _plain_source)(op)


def _plain_source(op: Op) -> str:
    names = op.arrays
    comma = "," if len(names) == 1 else ""
    values = ", ".join(f"{n}_value" for n in names)
    passed = ", ".join([*(f"{n}_value" for n in names), *(f"{s}={s}" for s in op.statics)])
    signature = ", ".join([*names, *(["*", *op.statics] if op.statics else [])])
    lines = [f"def {op.name}({signature}):", "    context = CONTEXT.get()"]
    for n in names:
        lines.append(f"    {n}_is = isinstance({n}, Tensor)")
        lines.append(f"    {n}_value = {n}._data if {n}_is else {n}")
    if len(names) > 1 and op.dtype in ("promote", "float", "compare", "floating"):
        pairs = [(n, names[0]) for n in names[1:]] + ([names] if len(names) == 2 else [])
        for n, other in pairs:
            # x * 2 next to floats is x * 2.0: the common promotion, without the general way
            lines.append(
                f"    if {n}.__class__ is int and {other}_is and {other}_value.dtype.kind == 'f':"
            )
            lines.append(f"        {n} = {n}_value = float({n})")
    if op.dtype in ("promote", "float", "compare", "where", "floating"):
        lines.append(f"    if {_needs_cast(op)}:")
        lines.append(f"        {values}{comma} = cast_all(op, context, ({values},))")
    lines += [
        "    try:",
        f"        out = context.table[{op.index}]({passed})",
        "    except Exception as error:",
        f"        raise explain(op, ({values}{comma}), error) from None",
    ]
    lines += _wrap_lines(op, names)
    return "\n".join(lines) + "\n"


def _needs_cast(op: Op) -> str:
    """The test that sends the values through ``cast_all``: anything but tensors of one fit dtype.

    A float beside float tensors is fit, too: NumPy keeps it weak.
    """
    names = op.arrays[1:] if op.dtype == "where" else op.arrays
    first = names[0]
    fit = [f"{first}_is"]
    if op.dtype in ("float", "floating"):
        fit.append(f"{first}_value.dtype.kind == 'f'")
    for n in names[1:]:
        same = f"{n}_value.dtype is {first}_value.dtype if {n}_is"
        fit.append(f"({same} else {n} is None or {_weak(n, first)})")
    test = f"not ({' and '.join(fit)})"
    if len(names) == 2:
        test += f" and not ({names[1]}_is and {_weak(first, names[1])})"
    return test


def _weak(number: str, tensor: str) -> str:
    return f"({number}.__class__ is float and {tensor}_value.dtype.kind == 'f')"


def _wrap_lines(op: Op, names: tuple[str, ...]) -> list[str]:
    shown = op.n_outputs - op.hidden
    outs = ["out"] if op.n_outputs == 1 else [f"out{k}" for k in range(op.n_outputs)]
    lines = [] if op.n_outputs == 1 else [f"    {', '.join(outs)} = out"]
    for o in outs:
        lines.append(f"    if {o}.__class__ is not ndarray:")
        lines.append(f"        {o} = context.evaluator.as_value({o})")
    for k, o in enumerate(outs[:shown]):
        lines += [f"    {o}_tensor = new(Tensor)", f"    {o}_tensor._data = {o}"]
        lines += [f"    {o}_tensor._grad = {o}_tensor._hooks = {o}_tensor._base = None"]
        lines += [f"    {o}_tensor._index = {k}"]
        if op.aliases:
            first = names[0]
            lines.append(f"    {o}_tensor._cell = {first}._cell")
            lines.append(
                f"    {o}_tensor._base = {first} if {first}._base is None else {first}._base"
            )
        else:
            lines.append(f"    {o}_tensor._cell = [0]")
    result = "out_tensor" if op.n_outputs == 1 else ", ".join(f"{o}_tensor" for o in outs[:shown])
    if op.vjp_function is None or not op.differentiable:
        lines += [f"    {o}_tensor._node = None" for o in outs[:shown]]
        lines += [f"    {o}_tensor._requires_grad = False" for o in outs[:shown]]
        return [*lines, f"    return {result}"]
    assert names, f"{op.name} has a vjp but no array argument"
    lines += [f"    {n}_needs = {n}_is and {n}._requires_grad" for n in names]
    wants = " or ".join(f"{n}_needs" for n in names)
    # a cast to integers ends the tape
    floats = " and out.dtype.kind == 'f'" if op.dtype == "static" and op.n_outputs == 1 else ""
    lines.append(f"    if ({wants}) and context.grad{floats}:")
    edges = ", ".join(f"({n}._node or {n}, {n}._index) if {n}_needs else None" for n in names)
    saved = ", ".join(_saved_expression(op, s, names) for s in op.save_list)
    versions = ", ".join(_version_expression(op, s) for s in watched(op))
    meta = ", ".join(f"({o}.shape, {o}.dtype)" for o in outs)
    meta = f"[{meta}]" if op.n_outputs > 1 else meta
    comma = "," if len(op.save_list) == 1 else ""
    lines += [
        "        node = new(Node_)",
        f"        node.edges = ({edges},)",
        f"        node.saved = ({saved}{comma})",
        f"        node.versions = ({versions})",
        f"        node.metadata = {meta}",
        "        node.extras = None",
        "        if ANOMALY:",
        "            remember_stack(node)",
    ]
    for o in outs[:shown]:
        if op.n_outputs == 1:
            lines += [
                f"        {o}_tensor._node = node",
                f"        {o}_tensor._requires_grad = True",
            ]
        else:
            lines.append(f"        {o}_tensor._requires_grad = {o}.dtype.kind == 'f'")
            lines.append(f"        {o}_tensor._node = node if {o}_tensor._requires_grad else None")
    if op.aliases:
        lines += [
            "        cell = out_tensor._cell",
            "        cell.append(weak_reference(out_tensor))",
        ]
        lines += ["        if not len(cell) & 63:", "            forget_dead_views(cell)"]
    lines.append(f"        return {result}")
    for o in outs[:shown]:
        lines.append(f"    {o}_tensor._node = None")
        lines.append(f"    {o}_tensor._requires_grad = False")
    return [*lines, f"    return {result}"]


def _saved_expression(op: Op, name: str, names: tuple[str, ...]) -> str:
    if name in names:
        return f"{name}_value"
    if name == "needs":
        parts = ", ".join(f"{n}_needs" for n in names)
        return f"({parts},)"
    for n in names:
        if name == f"{n}_shape":
            return f"{n}_value.shape"
        if name == f"{n}_dtype":
            return f"{n}_value.dtype"
    return name  # an output or a static


def _version_expression(op: Op, name: str) -> str:
    if name in op.arrays:
        return f"{name}._cell if {name}_is else UNCHANGED, {name}._cell[0] + 0 if {name}_is else 0"
    return f"{name}_tensor._cell, 0"


def _variadic_source(op: Op) -> str:
    """Ops over a list of tensors are fewer and larger: they go through one generic function."""
    statics = "".join(f", {s}" for s in op.statics)
    passed = ", ".join(f"{s!r}: {s}" for s in op.statics)
    return (
        f"def {op.name}(*inputs{statics}):\n    return apply_variadic(op, inputs, {{{passed}}})\n"
    )


def apply_variadic(op: Op, inputs: tuple, statics: dict[str, Any]) -> Tensor:
    """The Tensor-level function of an op whose last array argument is a list."""
    context = op_module.CONTEXT.get()
    values = tuple(t._data if isinstance(t, Tensor) else t for t in inputs)
    if op.dtype == "promote":
        values = cast_all(op, context, values)
    try:
        out = context.table[op.index](*values, **statics)
    except Exception as error:
        raise explain(op, values, error) from None
    result = Tensor(context.evaluator.as_value(out))
    tensors = [t for t in inputs if isinstance(t, Tensor)]
    if not (context.grad and op.vjp_function and any(t._requires_grad for t in tensors)):
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
        (t._node or t, t._index) if isinstance(t, Tensor) and t._requires_grad else None
        for t in inputs
    )
    node = node_class(op)(edges, saved, versions, (out.shape, out.dtype))
    if anomaly.ACTIVE:
        anomaly.remember_stack(node)
    result._node, result._requires_grad = node, True
    return result


def cast_all(op: Op, context: Any, values: tuple) -> tuple:
    """``values`` brought to the dtype that the op computes in, as its declaration says."""
    skip = 1 if op.dtype == "where" else 0
    tensors = [(v.dtype, v.ndim) for v in values[skip:] if hasattr(v, "dtype")]
    numbers = [v for v in values[skip:] if isinstance(v, (bool, int, float))]
    numbers += [1.0 for v in values[skip:] if hasattr(v, "as_runtime_scalar")]
    if not tensors and not numbers:
        raise TypeError(messages.bad_argument(op, values))
    target = dt.promote(tensors, numbers)
    if op.dtype == "float":
        target = dt.to_float(target)
    if op.dtype == "floating" and target.kind != "f":
        raise RuntimeError(messages.not_floating(op, target))
    return (*values[:skip], *(_cast(op, context, v, target) for v in values[skip:]))


def _cast(op: Op, context: Any, value: Any, target: np.dtype) -> Any:
    if hasattr(value, "dtype"):
        return value if value.dtype is target else context.table[_CAST.index](value, dtype=target)
    if value is None:
        return None
    if isinstance(value, (bool, int, float)):
        return wrap_number(value, target)
    if hasattr(value, "as_runtime_scalar"):
        return value
    raise TypeError(messages.bad_argument(op, (value,)))


def explain(op: Op, values: tuple, error: Exception) -> Exception:
    """NumPy's error as PyTorch words it, where the shapes or dtypes tell what went wrong."""
    return messages.explain(op, values, error)


def forget_dead_views(cell: list) -> None:
    """Drop the references to views that are gone: done now and then, or a parameter's cell only grows.

    Differentiable views are kept on the version cell they share because in-place ops must know of them.
    """
    cell[1:] = [r for r in cell[1:] if r() is not None]


UNCHANGED = [0]  # the version cell of a number: it never changes
_CAST = BY_NAME["cast"]
_NAMESPACE = {
    "__name__": __name__,  # what warning filters go by
    "CONTEXT": op_module.CONTEXT, "Tensor": Tensor, "ndarray": np.ndarray, "new": object.__new__,
    "cast_all": cast_all, "explain": explain, "apply_variadic": apply_variadic, "UNCHANGED": UNCHANGED,
    "weak_reference": weakref.ref, "forget_dead_views": forget_dead_views,
    "ANOMALY": anomaly.ACTIVE, "remember_stack": anomaly.remember_stack,
}  # fmt: skip


def _make(op: Op) -> Callable:
    namespace: dict[str, Any] = {**_NAMESPACE, "op": op, "Node_": node_class(op)}
    exec(compile(source(op), f"<jtorch eager {op.name}>", "exec"), namespace)
    return namespace[op.name]


for _op in TABLE:
    APPLY[_op.name] = _make(_op)


def public_function(op: Op) -> Callable:
    """What users call: the op's face (PyTorch's signature) before its Tensor-level function."""
    apply, face = APPLY[op.name], op.face_function
    if face is None:
        return apply
    namespace: dict[str, Any] = {"__name__": __name__, "apply": apply, "face": face}
    exec(compile(public_source(op, namespace), f"<jtorch public {op.name}>", "exec"), namespace)
    function = namespace["function"]
    function.__name__ = function.__qualname__ = op.public or op.name
    function.__doc__ = face.__doc__ or op.body.__doc__
    function.__wrapped__ = face
    return function


def public_source(op: Op, namespace: dict[str, Any]) -> str:
    """The source of the public function, in the face's own signature: for ``softmax``

        def function(input, dim=dim_default, dtype=dtype_default):
            arrays, statics = face(input, dim, dtype)
            return apply(*arrays, axis=statics["axis"])

    Spelled out, a call costs half of what ``*args`` and ``**kwargs`` would. Defaults go into ``namespace``.
    """
    signature, passed, star = [], [], False
    assert op.face_function is not None
    for p in inspect.signature(op.face_function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not star:
            signature.append("*")
            star = True
        if p.kind is p.VAR_POSITIONAL:
            signature.append(f"*{p.name}")
            star = True
        elif p.default is p.empty:
            signature.append(p.name)
        else:
            namespace[f"{p.name}_default"] = p.default
            signature.append(f"{p.name}={p.name}_default")
        only: dict[Any, str] = {p.KEYWORD_ONLY: f"{p.name}={p.name}", p.VAR_POSITIONAL: f"*{p.name}"}
        passed.append(only.get(p.kind, p.name))
    if op.variadic:
        call = "*arrays, " + ", ".join(f"{s}=statics[{s!r}]" for s in op.statics)
    else:
        values = [f"arrays[{k}]" for k in range(len(op.arrays))]
        call = ", ".join([*values, *(f"{s}=statics[{s!r}]" for s in op.statics)])
    return (
        f"def function({', '.join(signature)}):\n"
        f"    arrays, statics = face({', '.join(passed)})\n"
        f"    return apply({call})\n"
    )


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
