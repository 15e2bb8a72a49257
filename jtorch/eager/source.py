"""The source text of the Tensor-level function of each op: unwrap, cast, compute, wrap, hang a node.

It is generated for the op's exact number of arguments and save list, because this path is what an eager
program pays for at each op: no loops over arguments, no dicts, one read of the context. For ``add``:

    def add(x, y):
        try:
            result = shortcut(x, y)    # where there is machine code: see eager/machine
        except Exception as error:
            raise explain(op, raw(x, y), error) from None
        if result is not None:
            return result
        context = CONTEXT.get()
        x_is = isinstance(x, Tensor)
        x_value = x._data if x_is else x
        ...
        try:
            out = context.table[0](x_value, y_value)
        except Exception as error:
            raise explain(op, (x_value, y_value), error) from None
        ...
        cell = [0]
        ...
        if (x_needs or y_needs) and context.grad:
            edges, saved, versions = ...
            result = on_tape(Node_, out, cell, edges, saved, versions)
        else:
            result = off_tape(out, cell)
        return result
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from jtorch.core.narrow import narrowed, rounds_in_between
from jtorch.core.op import BY_NAME, CASTING, Kind, Op
from jtorch.eager.node import watched
from jtorch.eager.reflected import METHODS
from jtorch.eager.signatures import extended, spelled_out

_PUBLIC_NAMES = {"x": "input", "y": "other"}  # PyTorch's names of the arguments of regular ops


def apply_source(op: Op, has_shortcut: bool) -> str:
    """The function that bodies, methods and operators call: arrays by position, statics by keyword."""
    if op.variadic:
        return _variadic_source(op)
    signature = ", ".join([*op.arrays, *(["*", *op.statics] if op.statics else [])])
    return _function(op, signature, [], has_shortcut)


def machine_source(op: Op) -> str:
    """The usual case of the same, for ``native/subset``: arrays and then statics by position. It gives
    None where Python must see to it, before the op computes.

    Ops that differ in names alone have one text: what is an op's own is called ``op``, ``Node_`` and
    ``INDEX``, and ``keywords`` are the names of its statics.
    """
    names, statics = op.arrays, op.statics
    lines = [
        f"def usual({', '.join([*names, *statics])}):",
        f"    context: Context = {'uncast' if op.autocast and op.autocast.cpu else 'usual'}_context()",
        "    if context is None:",
        "        return None",
    ]
    for n in names:
        lines.append(f"    {n}_is = isinstance({n}, Tensor)")
        lines.append(f"    {n}_value = {n}._data if {n}_is else {n}")
        lines += [f"    if {n}_value.__class__ is DeviceArray:", "        return None"]
    if op.dtype not in CASTING and not op.like_first:
        lines += [f"    if not {names[0]}_is:", "        return None"]
    lines += _order_lines(op, usual=True)
    lines += _cast_lines(op, usual=True)
    passed = ", ".join([*(f"{n}_value" for n in names), *(f"{s}={s}" for s in statics)])
    lines.append(f"    out = HOST_TABLE[INDEX]({passed})")
    lines += _wrap_lines(op, names)
    short = {n: f"a{k}" for k, n in enumerate(names)} | {s: f"s{k}" for k, s in enumerate(statics)}
    return _renamed("\n".join(lines) + "\n", short)


def _renamed(text: str, short: dict[str, str]) -> str:
    return re.sub(
        rf"(?<![\w.])({'|'.join(short)})(_value|_is|_needs)?\b", lambda m: short[m[1]] + (m[2] or ""), text
    )


def named_source(op: Op, has_shortcut: bool) -> str:
    """The same function under PyTorch's argument names and with ``out=``, for ops without a face:

    def exp(input, *, out=None):
        x = input
        if out is not None:
            return into(out, apply(x), "exp", (x,))
    """
    names = [_PUBLIC_NAMES.get(n, n) for n in op.arrays]
    statics = [s if d is inspect.Parameter.empty else f"{s}={d!r}" for s, d in op.statics.items()]
    signature = ", ".join([*names, "*", *statics, "out=None"])
    renamed = [f"    {a} = {n}" for a, n in zip(op.arrays, names, strict=True) if a != n]
    checked = []
    if op.tensors_only:
        classes = " is ".join([*(f"{n}.__class__" for n in names), "Tensor"])
        given = ", ".join(f"{n}={n}" for n in names)
        checked = [f"    if not ({classes}):", f"        check_tensors({op.public!r}, {given})"]
    return _function(op, signature, [*checked, *renamed, *_out_lines(op)], has_shortcut, op.public)


def _out_lines(op: Op) -> list[str]:
    passed = ", ".join([*op.arrays, *(f"{s}={s}" for s in op.statics)])
    # a loop over elements reads what it has written; others, as in PyTorch, are not asked
    loops = op.kind is Kind.ELEMENTWISE or (op.kind is Kind.COMPOSITE and op.in_place)
    read = f", ({_listed(list(op.arrays))})" if loops else ""
    apply = "apply" if op.autocast is None else "uncast(apply)"
    return ["    if out is not None:", f"        return into(out, {apply}({passed}), {op.public!r}{read})"]


def _function(
    op: Op, signature: str, prologue: list[str], has_shortcut: bool, public: str | None = None
) -> str:
    names = op.arrays
    values = _listed([f"{n}_value" for n in names])
    passed = ", ".join([*(f"{n}_value" for n in names), *(f"{s}={s}" for s in op.statics)])
    lines = [f"def {op.name}({signature}):", *prologue]
    if has_shortcut:
        given = ", ".join([*names, *op.statics])
        lines += [
            "    try:",
            f"        result = shortcut({given})",
            "    except Exception as error:",
            f"        raise explain(op, raw({_listed(list(names))}), error) from None",
            "    if result is not None:",
            "        return result",
        ]
    lines.append("    context = CONTEXT.get()")
    lines += _autocast_lines(op, public)
    lines += _unwrap_lines(names, public, _asked(op) if public else ())
    lines += _order_lines(op)
    lines += _cast_lines(op)
    lines += _level_lines(op)
    lines += [
        "    try:",
        f"        out = context.table[{op.index}]({passed})",
        "    except Exception as error:",
        f"        raise explain(op, ({values}), error) from None",
    ]
    lines += _wrap_lines(op, names)
    return "\n".join(lines) + "\n"


def _autocast_lines(op: Op, public: str | None) -> list[str]:
    """The lines by which an op of a class has autocast see to its arguments, unless users ask for a dtype."""
    if op.autocast is None:
        return []
    face = op.face_function if public else None
    asks = face is not None and "dtype" in inspect.signature(face).parameters
    statics = ", ".join(f"{s!r}: {s}" for s in op.statics)
    given = f"({_listed(list(op.arrays))}), {{{statics}}}"
    return [
        f"    if context.autocast is not None{' and dtype is None' if asks else ''}:",
        f"        return autocast({tuple(op.autocast)!r}, apply, context, {given})",
    ]


def _level_lines(op: Op) -> list[str]:
    """The lines by which tangents are carried along where a level of forward mode is in force."""
    statics = ", ".join(f"{s!r}: {s}" for s in op.statics)
    return [
        "    if context.level is not None:",
        f"        return with_tangents(op, context, ({_listed(list(op.arrays))}), {{{statics}}})",
    ]


def _joined_lines(op: Op) -> str:
    """The same of an op over a list, of its public function alone: the library puts parts of one tensor
    together."""
    if op.autocast is None:
        return ""
    statics = ", ".join(f"{s!r}: statics[{s!r}]" for s in op.statics)
    call = f"autocast({tuple(op.autocast)!r}, apply, context, tuple(arrays), {{{statics}}})"
    return f"    context = CONTEXT.get()\n    if context.autocast is not None:\n        return {call}\n"


def _asked(op: Op) -> tuple[str, ...]:
    """What the public function takes beside its first argument."""
    if op.face_function is None:
        return (*op.arrays[1:], *op.statics)
    code = op.face_function.__code__
    return code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]


def _unwrap_lines(names: tuple[str, ...], public: str | None, others: tuple[str, ...]) -> list[str]:
    """``public``: the name of the function, where users call it, with ``others`` as its further arguments:
    PyTorch's take no number alone."""
    if len(names) == 1:  # nearly always a tensor: a try costs it nothing, isinstance 0.04 us
        (n,) = names
        lines = ["    try:", f"        {n}_value, {n}_is = {n}._data, True"]
        if public is None:
            return [*lines, "    except AttributeError:", f"        {n}_value, {n}_is = {n}, False"]
        given = "".join(f", {other!r}: {other}" for other in others)
        refused = f"        return overridden({public!r}, {{'input': {n}{given}}}, error)"
        return [*lines, "    except AttributeError as error:", refused]
    lines = []
    for n in names:
        lines.append(f"    {n}_is = isinstance({n}, Tensor)")
        lines.append(f"    {n}_value = {n}._data if {n}_is else {n}")
    return lines


def _listed(names: list[str]) -> str:
    """The inside of a tuple display."""
    return ", ".join(names) + ("," if len(names) == 1 else "")


def _cast_lines(op: Op, usual: bool = False) -> list[str]:
    """The lines that send anything but tensors of one fit dtype through ``cast_all``."""
    names = op.arrays
    if op.narrows is not None:
        return []
    if op.dtype not in CASTING:
        return _widening_lines(op, usual) if op.like_first else []
    lines = [f"    if not ({_all_fit(op, usual)}):"]
    test = None
    if takes_numbers(op) and not (usual and len(names) > 2):
        pairs = [(n, names[0]) for n in names[1:]] + ([names] if len(names) == 2 else [])
        for n, other in pairs:
            # x * 2 next to floats is x * 2.0: the common promotion, without the general way
            kind = f"{n}.__class__" if usual else f"type({n})"  # a symbol says int for both
            lines.append(f"        if {kind} is int and {other}_is and {_holds_floats(other, usual)}:")
            lines.append(f"            {n} = {n}_value = float({n})")
        test = _numbers_fit(op, usual)
    values = _listed([f"{n}_value" for n in names])
    of_tensors = _listed([f"{n}_is" for n in names])
    inner = [f"{values} = cast_all(op, context, ({values}), ({of_tensors}))"]
    if op.name in METHODS:
        inner = [
            inner[0].replace(values, "cast", 1),
            "if cast is NotImplemented:",
            f"    return answer(op.name, {', '.join(names)})",
            f"{values} = cast",
        ]
    if usual:
        inner = ["return None"]
    inner = [*(_usual_half_lines(op) if usual else _half_lines(op, values)), *inner]
    if test is None:
        return [*lines, *(f"        {line}" for line in inner)]
    return [*lines, f"        if not ({test}):", *(f"            {line}" for line in inner)]


def _order_lines(op: Op, usual: bool = False) -> list[str]:
    """The lines by which an op that casts nothing refuses complex numbers, as ``cast_all`` does."""
    if not op.ordered or op.dtype in CASTING:
        return []
    found = (
        "return None" if usual else f"raise NotImplementedError(not_ordered(op, {op.arrays[0]}_value.dtype))"
    )
    return [f"    if {op.arrays[0]}_value.dtype.kind == 'c':", f"        {found}"]


def _half_lines(op: Op, values: str) -> list[str]:
    """The lines that see to arguments of 16 bits: as one op where there is one, or in several steps."""
    widens = rounds_in_between(op) or bool(op.unrounded)
    if not (widens or op in narrowed()):
        return []
    statics = f"{{{', '.join(f'{s!r}: {s}' for s in op.statics)}}}"
    test = f"is_half({values})" if op.like_first else f"any_half({values})"
    if op.renames is not None and BY_NAME[op.renames].kind is Kind.CONTRACTION:
        test = f"any_half_of_host({values})"  # a device multiplies these
    lines = [f"if {test}:", f"    given, fixed = ({_listed(list(op.arrays))}), {statics}"]
    if op in narrowed():
        lines += [
            "    found = as_one(of_16_bits, op, context, given, fixed)",
            "    if found is not None:",
            "        return found",
        ]
    return [*lines, *(["    return through_float32(op, apply, given, fixed)"] if widens else [])]


def _usual_half_lines(op: Op) -> list[str]:
    """The same for machine code: as one op where all are tensors of one such dtype."""
    if op not in narrowed() or "dtype" in op.statics:
        return []
    first, *others = op.arrays
    dtype = f"{first}_value.dtype"
    alike = "".join(f" and ({n}_value.dtype is {dtype} if {n}_is else {_is_left_out(op, n)})" for n in others)
    return [
        f"if {first}_is and ({dtype} is FLOAT16 or {dtype} is BFLOAT16){alike}:",
        f"    return of_16_bits({', '.join([*op.arrays, *op.statics])})",
    ]


def _widening_lines(op: Op, usual: bool = False) -> list[str]:
    """The lines of an op that casts nothing, but whose body must not compute in 16 bits."""
    first = op.arrays[0]
    if not usual:
        return [f"    {line}" for line in _half_lines(op, _listed([f"{n}_value" for n in op.arrays]))]
    inner = [*_usual_half_lines(op), "return None"]
    test = f"    if not ({first}_is and {_is_floating(op, first, usual)}):"
    return [test, *(f"        {line}" for line in inner)]


def takes_numbers(op: Op) -> bool:
    """Whether a Python number may stand beside the tensors of ``op`` as it is."""
    return op.dtype in CASTING and op.dtype not in ("where", "sum") and len(op.arrays) > 1


def needs_floats(op: Op) -> bool:
    """Whether only real floating-point tensors pass as they are."""
    if op.dtype not in CASTING:
        return op.like_first
    return op.dtype in ("float", "floating", "sum") or op.ordered or rounds_in_between(op)


def _all_fit(op: Op, usual: bool) -> str:
    """The test of the common case: tensors of one dtype (or None), of a kind that the op computes in."""
    names = op.arrays[1:] if op.dtype == "where" else op.arrays
    first = names[0]
    same = [f"{n}_value.dtype is {first}_value.dtype" for n in names[1:]]
    if len(names) == 2:
        fit = [f"{n}_is" for n in names] + same
    else:
        others = zip(names[1:], same, strict=True)
        fit = [f"{first}_is", *(f"({s} if {n}_is else {_is_left_out(op, n)})" for n, s in others)]
    if needs_floats(op):
        fit.append(_is_floating(op, first, usual))
    elif refuses_two_bools(op):
        fit.append(_is_no_bool(first))
    if op in narrowed() and not rounds_in_between(op):
        fit.append(_is_no_half(first))
    return " and ".join(fit)


def _is_no_half(name: str) -> str:
    dtype = f"{name}_value.dtype"
    return f"({dtype} is FLOAT32 or {dtype} is not FLOAT16 and {dtype} is not BFLOAT16)"


def _is_left_out(op: Op, name: str) -> str:
    """The test of an argument that need not be there; operands of arithmetic all are."""
    return "False" if op.kind is Kind.ELEMENTWISE else f"{name} is None"


def _is_floating(op: Op, name: str, usual: bool) -> str:
    """The test of a real floating-point dtype to compute in. Nearly always it is the one that costs least to
    ask for."""
    return _holds_floats(name, usual or rounds_in_between(op))


def _holds_floats(name: str, usual: bool) -> str:
    """``usual``: float16 and long doubles are not."""
    dtype = f"{name}_value.dtype"
    return f"({dtype} is FLOAT32 or {dtype}{' is FLOAT64' if usual else '.kind == ' + repr('f')})"


def _is_no_bool(name: str) -> str:
    return f"({name}_value.dtype is FLOAT32 or {name}_value.dtype.kind != 'b')"


def refuses_two_bools(op: Op) -> bool:
    """Whether two tensors of bools must be looked at: subtracting them, NumPy refuses by itself."""
    return op.refuses_bools is not None and op.refuses_bools.startswith('"')


def _numbers_fit(op: Op, usual: bool) -> str:
    """The test that a float beside float tensors passes, too: NumPy keeps it weak."""
    names = op.arrays
    first = names[0]
    # NumPy would round it to 16 bits
    usual = usual or bool(op.unrounded) or op.fitting or rounds_in_between(op)
    fit = [f"{first}_is"]
    if needs_floats(op):
        fit.append(_is_floating(op, first, usual))
    if op in narrowed() and not rounds_in_between(op):
        fit.append(_is_no_half(first))
    no_bools = f" and {_is_no_bool(first)}" if refuses_two_bools(op) else ""
    for n in names[1:]:
        same = f"{n}_value.dtype is {first}_value.dtype{no_bools} if {n}_is"
        fit.append(f"({same} else {_is_left_out(op, n)} or {_weak(n, first, usual)})")
    test = " and ".join(fit)
    if len(names) != 2:
        return test
    no_half = f"{_is_no_half(names[1])} and " if op in narrowed() and not usual else ""
    return f"{test} or {names[1]}_is and {no_half}{_weak(first, names[1], usual)}"


def _weak(number: str, tensor: str, usual: bool) -> str:
    return f"({number}.__class__ is float and {_holds_floats(tensor, usual)})"


def _wrap_lines(op: Op, names: tuple[str, ...]) -> list[str]:
    """The lines that make Tensors of what was computed, hung on the tape where gradients are wanted."""
    if op.n_outputs > 1:
        return _several_lines(op, names)
    lines = ["    if out.__class__ is not ndarray:", "        out = context.evaluator.as_value(out)"]
    lines.append(_cell_line(op, names))
    after = _memory_lines(op, names[0]) if op.aliases else []
    if op.vjp_function is None or not op.differentiable:
        return [*lines, "    result = off_tape(out, cell)", *after, "    return result"]
    lines += _needs_lines(op, names)
    # a cast to integers ends the tape
    floats = " and out.dtype.kind in 'fcV'" if op.dtype == "static" else ""
    lines.append(f"    if ({_wants(names)}) and context.grad{floats}:")
    lines += _complex_lines(op, "out")
    edges, saved, versions = _node_expressions(op, names)
    return [
        *lines,
        f"        result = on_tape(Node_, out, cell, {edges}, {saved}, {versions})",
        "    else:",
        "        result = off_tape(out, cell)",
        *after,
        "    return result",
    ]


def _complex_lines(op: Op, out: str) -> list[str]:
    """The lines that have complex gradients looked for from now on, where reals may become complex here."""
    if isinstance(op.dtype, str) and op.dtype != "static":
        return []
    return [f"        if {out}.dtype.kind == 'c':", "            expect_complex()"]


def _several_lines(op: Op, names: tuple[str, ...]) -> list[str]:
    """The same for ops with several outputs, which share one node."""
    outs = [f"out{k}" for k in range(op.n_outputs)]
    shown = outs[: op.n_outputs - op.hidden]
    lines = [f"    {', '.join(outs)} = out"]
    for o in outs:
        lines.append(f"    if {o}.__class__ is not ndarray:")
        lines.append(f"        {o} = context.evaluator.as_value({o})")
    lines += [f"    {o}_tensor = off_tape({o}, [0])" for o in shown]
    result = ", ".join(f"{o}_tensor" for o in shown)
    if op.vjp_function is None or not op.differentiable:
        return [*lines, f"    return {result}"]
    edges, saved, versions = _node_expressions(op, names)
    metadata = ", ".join(f"({o}.shape, {o}.dtype)" for o in outs)
    lines += [
        *_needs_lines(op, names),
        f"    if ({_wants(names)}) and context.grad:",
        *_complex_lines(op, outs[0]),
        f"        node = Node_({edges}, {saved}, {versions}, [{metadata}])",
        "        if WATCHERS:",
        "            look_at(node)",
    ]
    for k, o in enumerate(shown):
        lines += [
            f"        {o}_tensor._index = {k}",
            f"        if {o}.dtype.kind in 'fcV':",
            f"            {o}_tensor._node, {o}_tensor._requires_grad = node, True",
        ]
    return [*lines, f"    return {result}"]


def _cell_line(op: Op, names: tuple[str, ...]) -> str:
    """The version cell of the result: its own, or that of the memory it is a view of."""
    if not op.aliases:
        return "    cell = [0]"
    (source, *_) = names
    if not op.relabels:
        return f"    cell = {source}._cell"
    # a reshape that NumPy could only make by copying has memory of its own
    same = f"out.base is {source}_value or shares_memory({source}_value, out)"
    return f"    cell = {source}._cell if {same} else [0]"


def _memory_lines(op: Op, source: str) -> list[str]:
    how = ", ".join([source, "op", *op.statics])
    line = f"    note_view(result, {source}, ({how}) if context.grad else None)"
    return [f"    if cell is {source}._cell:", f"    {line}"] if op.relabels else [line]


def _needs_lines(op: Op, names: tuple[str, ...]) -> list[str]:
    assert names, f"{op.name} has a vjp but no array argument"
    return [f"    {n}_needs = {n}_is and {n}._requires_grad" for n in names]


def _wants(names: tuple[str, ...]) -> str:
    return " or ".join(f"{n}_needs" for n in names)


def _node_expressions(op: Op, names: tuple[str, ...]) -> tuple[str, str, str]:
    """The edges of a node, what it saves, and the versions of that."""
    edges = _listed([f"edge_of({n}) if {n}_needs else None" for n in names])
    saved = _listed([_saved_expression(op, s, names) for s in op.save_list]) if op.save_list else ""
    versions = ", ".join(_version_expression(op, s) for s in watched(op))
    return f"({edges})", f"({saved})", f"({versions})"


def _saved_expression(op: Op, name: str, names: tuple[str, ...]) -> str:
    if name in names:
        return f"{name}_value"
    if name == "needs":
        return f"({_listed([f'{n}_needs' for n in names])})"
    for n in names:
        if name == f"{n}_shape":
            return f"{n}_value.shape"
        if name == f"{n}_dtype":
            return f"{n}_value.dtype"
    return name  # an output or a static


def _version_expression(op: Op, name: str) -> str:
    if name in op.saved_for:
        test = f"{name}_is and {op.saved_for[name]}_needs"
        return f"{name}._cell if {test} else UNCHANGED, {name}._cell[0] + 0 if {test} else 0"
    if name in op.arrays:
        return f"{name}._cell if {name}_is else UNCHANGED, {name}._cell[0] + 0 if {name}_is else 0"
    return "cell, 0" if op.n_outputs == 1 else f"{name}_tensor._cell, 0"


def _variadic_source(op: Op) -> str:
    """Ops over a list of tensors are fewer and larger: they go through one generic function."""
    statics = "".join(f", {s}" for s in op.statics)
    passed = ", ".join(f"{s!r}: {s}" for s in op.statics)
    return f"def {op.name}(*inputs{statics}):\n    return apply_variadic(op, inputs, {{{passed}}})\n"


def _narrow_lines(op: Op, indent: str) -> list[str]:
    """Integers are added up in int64: who asks for a narrower dtype gets the low bits of that."""
    if op.dtype != "sum":
        return []
    passed = ", ".join([*op.arrays, *(f"{s}={s}" for s in op.statics)])
    return [
        f"{indent}if dtype is not None and dtype.numpy.kind in 'biu' and dtype.numpy.itemsize < 8:",
        f"{indent}    narrow = apply({passed}).to(dtype)",
        f"{indent}    return narrow if out is None else into(out, narrow, {op.public!r})",
    ]


def faced_source(op: Op, namespace: dict[str, Any], has_shortcut: bool) -> str:
    """The public function in the face's own signature: for ``softmax``

        def function(input, dim=dim_default, dtype=dtype_default, *, out=None):
            try:
                (x,), statics = face(input, dim, dtype)
                axis = statics["axis"]
            except AttributeError as error:
                raise not_a_tensor("softmax", {"input": input}, error) from None
            if out is not None:
                return into(out, apply(x, axis=axis), "softmax")
            context = CONTEXT.get()
            ...

    Spelled out, a call costs half of what ``*args`` and ``**kwargs`` would. Defaults go into ``namespace``.
    """
    assert op.face_function is not None
    parameters, passed = spelled_out(op.face_function, namespace)
    signature, aliases = extended(parameters, namespace, op.public or op.name)
    if op.variadic:
        call = "*arrays, " + ", ".join(f"{s}=statics[{s!r}]" for s in op.statics)
        at_once = [
            "    if out is None:",
            f"        result = joined({passed})",
            "        if result is not None:",
            "            return result",
        ]
        return (
            f"def function({signature}):\n{aliases}"
            + "".join(f"{line}\n" for line in at_once if op.joins)
            + f"    arrays, statics = face({passed})\n"
            "    if out is not None:\n"
            f"        return into(out, uncast(apply)({call}), {op.public!r}, arrays)\n"
            f"{_joined_lines(op)}"
            f"    return apply({call})\n"
        )
    if op.lean:
        wanted = _listed([*op.arrays, *op.statics])
        prologue = [f"{wanted} = face({passed})"]
        if op.usual_face:
            test, given = op.usual_face
            prologue = [f"if {test}:", f"    {wanted} = {given}", "else:", f"    {prologue[0]}"]
            prologue += _narrow_lines(op, "    ")
    else:
        prologue = [f"({_listed(list(op.arrays))}), statics = face({passed})"]
        prologue += [f"{s} = statics[{s!r}]" for s in op.statics] + _narrow_lines(op, "")
    code = op.face_function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = ", ".join(f"{n!r}: {n}" for n in names)
    checked = [
        "    try:",
        *(f"        {line}" for line in prologue),
        "    except AttributeError as error:",
        f"        return overridden({op.public or op.name!r}, {{{given}}}, error)",
    ]
    return _function(
        op, signature, [*aliases.splitlines(), *checked, *_out_lines(op)], has_shortcut, op.public
    )
