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

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch import dtypes as dt
from jtorch import op as op_module
from jtorch.eager import messages
from jtorch.eager.node import node_class
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
    """The test that sends the values through ``cast_all``: anything but tensors of one fit dtype."""
    names = op.arrays[1:] if op.dtype == "where" else op.arrays
    first = names[0]
    tests = [f"not {first}_is"]
    if op.dtype in ("float", "floating"):
        tests.append(f"{first}_value.dtype.kind != 'f'")
    for n in names[1:]:
        number = f"({n}.__class__ is float and {first}_value.dtype.kind == 'f')"
        same = f"({n}_is and {n}_value.dtype is {first}_value.dtype)"
        tests.append(f"not ({same} or {number} or {n} is None)")
    return " or ".join(tests)


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
            lines.append(f"    {o}_tensor._base = {first} if {first}._base is None else {first}._base")
        else:
            lines.append(f"    {o}_tensor._cell = [0]")
    result = "out_tensor" if op.n_outputs == 1 else ", ".join(f"{o}_tensor" for o in outs[:shown])
    if op.vjp_function is None or not op.differentiable:
        lines += [f"    {o}_tensor._node = None" for o in outs[:shown]]
        lines += [f"    {o}_tensor._requires_grad = False" for o in outs[:shown]]
        return [*lines, f"    return {result}"]
    assert names, f"{op.name} has a vjp but no array argument"
    wants = " or ".join(f"({n}_is and {n}._requires_grad)" for n in names)
    lines.append(f"    if context.grad and ({wants}):")
    edges = ", ".join(
        f"({n}._node or {n}, {n}._index) if {n}_is and {n}._requires_grad else None" for n in names
    )
    saved = ", ".join(_saved_expression(op, s, names) for s in op.save_list)
    versions = ", ".join(_version_expression(op, s) for s in op.save_list if _is_array(op, s))
    versions = f"({versions},)" if versions else "()"
    meta = ", ".join(f"({o}.shape, {o}.dtype)" for o in outs)
    meta = f"[{meta}]" if op.n_outputs > 1 else meta
    comma = "," if len(op.save_list) == 1 else ""
    lines.append(f"        node = Node_(({edges},), ({saved}{comma}), {versions}, {meta})")
    for o in outs[:shown]:
        fits = f"{o}.dtype.kind == 'f'" if op.n_outputs > 1 else "True"
        lines.append(f"        {o}_tensor._node = node if {fits} else None")
        lines.append(f"        {o}_tensor._requires_grad = {fits}")
    if op.aliases:
        lines.append("        note_view(out_tensor)")
    lines.append(f"        return {result}")
    for o in outs[:shown]:
        lines.append(f"    {o}_tensor._node = None")
        lines.append(f"    {o}_tensor._requires_grad = False")
    return [*lines, f"    return {result}"]


def _is_array(op: Op, name: str) -> bool:
    """Whether a saved name is an array somebody could change: an argument or a visible output."""
    if name in op.arrays or name == "out":
        return True
    return name[:3] == "out" and int(name[3:]) < op.n_outputs - op.hidden


def _saved_expression(op: Op, name: str, names: tuple[str, ...]) -> str:
    if name in names:
        return f"{name}_value"
    if name == "needs":
        parts = ", ".join(f"{n}_is and {n}._requires_grad" for n in names)
        return f"({parts},)"
    for n in names:
        if name == f"{n}_shape":
            return f"{n}_value.shape"
        if name == f"{n}_dtype":
            return f"{n}_value.dtype"
    return name  # an output or a static


def _version_expression(op: Op, name: str) -> str:
    if name in op.arrays:
        return f"({name}._cell, {name}._cell[0]) if {name}_is else UNCHANGED"
    return f"({name}_tensor._cell, 0)"


def _variadic_source(op: Op) -> str:
    """Ops over a list of tensors are fewer and larger: they go through one generic function."""
    statics = "".join(f", {s}" for s in op.statics)
    passed = ", ".join(f"{s!r}: {s}" for s in op.statics)
    return f"def {op.name}(*inputs{statics}):\n    return apply_variadic(op, inputs, {{{passed}}})\n"


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
    watched = [t for k, t in enumerate(inputs) if op.arrays[min(k, fixed)] in kept]
    versions = tuple((t._cell, t._cell[0]) for t in watched if isinstance(t, Tensor))
    edges = tuple(
        (t._node or t, t._index) if isinstance(t, Tensor) and t._requires_grad else None for t in inputs
    )
    node = node_class(op)(edges, saved, versions, (out.shape, out.dtype))
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


def note_view(view: Tensor) -> None:
    """Remember a differentiable view on the shared version cell: in-place ops must know of it."""
    import weakref

    view._cell.append(weakref.ref(view))


UNCHANGED = ([0], 0)  # the version of a number: it never changes
_CAST = BY_NAME["cast"]
_NAMESPACE = {
    "CONTEXT": op_module.CONTEXT, "Tensor": Tensor, "ndarray": np.ndarray, "new": object.__new__,
    "cast_all": cast_all, "explain": explain, "note_view": note_view, "apply_variadic": apply_variadic,
    "UNCHANGED": UNCHANGED,
}  # fmt: skip


def _make(op: Op) -> Callable:
    namespace = {**_NAMESPACE, "op": op, "Node_": node_class(op)}
    exec(compile(source(op), f"<jtorch eager {op.name}>", "exec"), namespace)
    return namespace[op.name]


for _op in TABLE:
    APPLY[_op.name] = _make(_op)


def public_function(op: Op) -> Callable:
    """What users call: the op's face (PyTorch's signature) before its Tensor-level function."""
    apply = APPLY[op.name]
    face = op.face_function
    if face is None:
        return apply

    def function(*args: Any, **kwargs: Any) -> Any:
        call = face(*args, **kwargs)
        if call.__class__ is not tuple:  # the face answered by itself
            return call
        arrays, statics = call
        return apply(*arrays, **statics)

    function.__name__ = function.__qualname__ = op.public or op.name
    function.__doc__ = face.__doc__ or op.body.__doc__
    function.__wrapped__ = face  # type: ignore[attr-defined]
    return function


class _TensorNamespace:
    """``xp`` over Tensors: bodies and gradients run through it can be differentiated again."""


TENSOR_XP = _TensorNamespace()
for _op in TABLE:
    if _op.kind is not Kind.COMPOSITE:
        setattr(TENSOR_XP, _op.name, APPLY[_op.name])
