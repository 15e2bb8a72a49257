"""Ops that kernels compute where somebody offers some: bodies of formulas, and gradients.

NumPy runs a formula op by op. Over large arrays each of them walks through memory, on one thread; over small
ones each takes longer to begin than to compute, so that those which networks consist of (``fuses_small``) go
to kernels at nearly every size. Eager mode works without: ``jtorch`` itself fills in what has them. What
goes there is decided by the sizes of arrays alone, so that the same call gives the same bits in every run and
at every moment.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numpy import ndarray

from jtorch.core.op import Kind, Op
from jtorch.ops.xp import _formulas

LEAST_SMALL = 32
"""Elements from which on kernels compute what networks consist of. They take a fifth of NumPy's time at any
size, but half a second the first time in a process, which few elements are rarely worth."""

LEAST, LEAST_SIMPLE = 1 << 12, 1 << 17
"""Elements; below, NumPy is done as soon as kernels would be. The second is that of relu, where and clamp,
which do next to nothing for an element: relu of 32,768 takes 7 us in NumPy and 19 in a kernel (its gradient
29 and 40), of 262,144 52 and 45 (102 and 80), of a million 199 and 63.
"""

LEAST_WIDE = 16
"""Elements of a row from which on kernels add up some of the axes (us, NumPy / here, float32): (200000, 3) by
columns 115 / 620, (512, 8, 16) by rows 7.5 / 6.8, (10000, 1000) 3300 / 2400, (128, 512) at once 11 / 3.8.
"""

Call = Callable[[tuple], Any]
_MOST = 512  # kinds of calls that are remembered of an op
_NEW: Any = object()


def call_of(function: Callable, values: tuple, statics: dict[str, Any], shapes: tuple[int, ...]) -> Any:
    """What gives ``function(xp, *values, **statics)`` of such ``values``, or NotImplemented; None where NumPy
    is to compute it. ``shapes`` counts which of the values are some."""
    find = _formulas.call_of()
    return None if find is None else find(function, values, statics, shapes)


def body(op: Op, at_once: Callable) -> Callable:
    """What computes ``op`` on arrays, where ``at_once`` is what does it by NumPy.

    For a softmax

        def function(x, *, axis):
            if x.__class__ is ndarray and x.size >= LEAST_SMALL and x.flags.c_contiguous:
                key = (x.shape, x.dtype, axis)
                call = calls.get(key, NEW)
                if call is NEW:
                    call = find(calls, key, (x,), dict(axis=axis))
                if call is not None:
                    found = call((x,))
                    if found is not NotImplemented:
                        return found
            return at_once(x, axis=axis)

    It is spelled out, because small arrays pay for each step of it.
    """
    if not op.fuses or op.renames or not isinstance(at_once, _FUNCTIONS):
        return at_once
    main = op.arrays[1 if op.dtype == "where" else 0]  # a condition may be small
    arrays, statics = ", ".join(op.arrays), ", ".join(op.statics)
    passed = "".join(f", {name}={name}" for name in op.statics)
    others = [name for name in op.arrays if name != main]
    tests = [f"{main}.__class__ is ndarray and {main}.size >= {_least(op)} and {main}.flags.c_contiguous"]
    # a result laid out like them is row-major
    tests += [f"({name}.__class__ is not ndarray or {name}.flags.c_contiguous)" for name in others]
    if op.fuses_wide:
        tests.append(f"(len(axis) == {main}.ndim or {main}.shape[-1] >= LEAST_WIDE)")
    key = [f"{main}.shape", f"{main}.dtype", *map(_key, others), *map(_fixed_key, op.statics)]
    return _made(
        f"def function({arrays}{', *, ' if statics else ''}{statics}):",
        f"    if {' and '.join(tests)}:",
        *_by_kernels(key, arrays, f"dict({passed.removeprefix(', ')})"),
        f"    return at_once({arrays}{passed})",
        at_once=at_once,
        find=functools.partial(_find, op.body, ()),
    )


def _key(name: str) -> str:
    return f"({name}.shape, {name}.dtype) if {name}.__class__ is ndarray else given({name})"


def _fixed_key(name: str) -> str:
    return name if name in _PLAIN else f"fixed({name})"


_PLAIN = (
    "axis",
    "axes",
    "keepdims",
    "reduction",
)  # ints, bools or texts, by contract: as keys they are alike


def _by_kernels(key: list[str], values: str, statics: str) -> list[str]:
    return [
        f"        key = ({', '.join(key)},)",
        "        call = calls.get(key, NEW)",
        "        if call is NEW:",
        f"            call = find(calls, key, ({values},), {statics})",
        "        if call is not None:",
        f"            found = call(({values},))",
        "            if found is not NotImplemented:",
        "                return found",
    ]


def _least(op: Op) -> str:
    """From how many elements on kernels compute it: the name of the number."""
    if op.fuses_small:
        return "LEAST_SMALL"
    return "LEAST_SIMPLE" if op.kind is Kind.ELEMENTWISE and not op.costly else "LEAST"


_FUNCTIONS = (functools.partial, type(lambda: None))  # not NumPy's own, which need no help


def _made(*lines: str, **names: Any) -> Any:
    """The function of that text, where it knows ``names`` and what stands in this file."""
    inner = "\n".join(f"    {line}" for line in lines)
    text = f"def made({', '.join(names)}, calls, NEW, given, fixed):\n{inner}\n    return function\n"
    namespace: dict[str, Any] = {}
    exec(compile(text, "<jtorch formulas>", "exec"), globals(), namespace)
    calls: dict[Any, Call | None] = {}
    _known.append(calls)
    return namespace["made"](**names, calls=calls, NEW=_NEW, given=_formulas.alike, fixed=_fixed)


_known: list[dict[Any, Call | None]] = []  # of all ops and gradients


def forget() -> None:
    """Ask anew who computes what."""
    for calls in _known:
        calls.clear()


def _fixed(value: Any) -> Any:
    """As ``alike``, of what kernels are made for: of numbers their digits, 0.0 is not -0.0, nor 1 True."""
    kind = value.__class__
    if kind is float:
        return value.hex()
    if kind is tuple or kind is list:
        return (tuple, *[_fixed(v) for v in value])
    return kind, value


def _find(
    function: Callable, shapes: tuple[int, ...], calls: dict[Any, Call | None], key: Any, values: tuple,
    statics: dict[str, Any],
) -> Call | None:  # fmt: skip
    """What computes calls of this ``key``, which ``calls`` remembers."""
    call = call_of(function, values, statics, shapes)
    if len(calls) >= _MOST:
        calls.clear()
    calls[key] = call
    return call


@functools.cache
def gradient(op: Op) -> Any:
    """The gradient of ``op`` as nodes call it."""
    vjp = op.vjp_function
    if vjp is None or not op.fuses or (op.fuses_wide and op.kind is Kind.REDUCTION):  # a view of ``g``
        return vjp
    saved = [f"saved{k}" for k in range(len(op.save_list))]
    passed = "".join(f", {name}" for name in saved)
    shapes = tuple(k for k, name in enumerate(op.save_list, 1) if name.endswith("_shape"))
    is_large = f"{{0}}.__class__ is ndarray and {{0}}.size >= {_least(op)}"
    of_one_number = f"{is_large.format('saved0')} and not g.ndim" if saved else "False"
    return _made(
        f"def function(xp, g{passed}):",
        f"    if (g.__class__ is list or {is_large.format('g')} or {of_one_number}) and suits(g, (",
        f"        {passed.removeprefix(', ')}{',' if saved else ''}",
        "    )):",
        *_by_kernels([_key(name) for name in ("g", *saved)], f"g{passed}", "{}"),
        f"    return vjp(xp, g{passed})",
        vjp=vjp,
        suits=functools.partial(_suits, op.fuses_small),
        find=functools.partial(_find, vjp, shapes),
    )


def _suits(is_small: bool, g: Any, saved: tuple) -> bool:
    given = g if g.__class__ is list else [g]
    largest = saved[0] if saved and g.__class__ is not list and not g.ndim else given[0]
    if largest.__class__ is not ndarray or largest.size < (LEAST_SMALL if is_small else LEAST):
        return False
    # an expanded gradient, as that of a sum, has no order
    expanded = all(_is_in_order(part) or 0 in part.strides for part in given)
    return expanded and all(map(_is_in_order, saved))


def _is_in_order(value: Any) -> bool:
    """Whether a result laid out like ``value`` is row-major."""
    return value.__class__ is not ndarray or value.flags.c_contiguous
