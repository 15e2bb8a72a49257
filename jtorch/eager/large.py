"""Ops over large arrays, which kernels compute where somebody offers some: bodies of formulas, and gradients.

Eager mode works without: ``jtorch`` itself fills in what has them. What goes there is decided by the sizes of
arrays alone, so that the same call gives the same bits in every run and at every moment.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numpy import ndarray

from jtorch.core.op import Kind, Op
from jtorch.ops.xp import _formulas

LEAST, LEAST_SIMPLE = 1 << 15, 1 << 17
"""Elements; below, NumPy is done before kernels would be. The second is that of relu, where and clamp, which
do next to nothing for an element: relu of 32,768 takes 7 us in NumPy and 19 in a kernel (its gradient 29 and
40), of 262,144 52 and 45 (102 and 80), of a million 199 and 63.
"""

Run = Callable[[Callable, tuple, dict[str, Any]], Any]
"""``run(function, values, statics)`` gives ``function(xp, *values, **statics)``, or NotImplemented."""


def _run() -> Run:
    return _formulas.kernels() or _nothing


def _nothing(function: Callable, values: tuple, statics: dict[str, Any]) -> Any:
    return NotImplemented


def body(op: Op, at_once: Callable) -> Callable:
    """What computes ``op`` on arrays, where ``at_once`` is what does it by NumPy.

    The arguments are spelled out: small arrays pay for one comparison.
    """
    if not op.fuses or op.renames or not isinstance(at_once, _FUNCTIONS):
        return at_once
    main = op.arrays[1 if op.dtype == "where" else 0]  # a condition may be small
    arrays, statics = ", ".join(op.arrays), ", ".join(op.statics)
    passed = "".join(f", {name}={name}" for name in op.statics)
    return _made(
        f"def function({arrays}{', *, ' if statics else ''}{statics}):",
        f"    if {main}.__class__ is ndarray and {main}.size >= {_least(op)}:",
        f"        found = by_kernels(({arrays},), dict({passed.removeprefix(', ')}))",
        "        if found is not NotImplemented:",
        "            return found",
        f"    return at_once({arrays}{passed})",
        at_once=at_once,
        by_kernels=functools.partial(_computed, op.body),
    )


def _least(op: Op) -> str:
    """From how many elements on kernels compute it: the name of the number."""
    return "LEAST_SIMPLE" if op.kind is Kind.ELEMENTWISE and not op.costly else "LEAST"


_FUNCTIONS = (functools.partial, type(lambda: None))  # not NumPy's own, which need no help


def _made(*lines: str, **names: Any) -> Any:
    """The function of that text, where it knows ``names`` and what stands in this file."""
    inner = "\n".join(f"    {line}" for line in lines)
    text = f"def made({', '.join(names)}):\n{inner}\n    return function\n"
    namespace: dict[str, Any] = {}
    exec(compile(text, "<jtorch large>", "exec"), globals(), namespace)
    return namespace["made"](**names)


def _computed(function: Callable, values: tuple, statics: dict[str, Any]) -> Any:
    return _run()(function, values, statics) if all(map(_is_in_order, values)) else NotImplemented


def _is_in_order(value: Any) -> bool:
    """Whether a result laid out like ``value`` is row-major."""
    return value.__class__ is not ndarray or value.flags.c_contiguous


@functools.cache
def gradient(op: Op) -> Any:
    """The gradient of ``op`` as nodes call it."""
    vjp = op.vjp_function
    if vjp is None or not op.fuses:
        return vjp
    saved = "".join(f", saved{k}" for k in range(len(op.save_list)))
    is_large = f"{{0}}.__class__ is ndarray and {{0}}.size >= {_least(op)}"
    of_one_number = f"{is_large.format('saved0')} and not g.ndim" if saved else "False"
    return _made(
        f"def function(xp, g{saved}):",
        f"    if g.__class__ is list or {is_large.format('g')} or {of_one_number}:",
        f"        found = by_kernels(g, ({saved.removeprefix(', ')}{',' if saved else ''}))",
        "        if found is not NotImplemented:",
        "            return found",
        f"    return vjp(xp, g{saved})",
        vjp=vjp,
        by_kernels=functools.partial(_gradient, vjp),
    )


def _gradient(vjp: Callable, g: Any, saved: tuple) -> Any:
    given = g if g.__class__ is list else [g]
    largest = saved[0] if saved and g.__class__ is not list and not g.ndim else given[0]
    if largest.__class__ is not ndarray or largest.size < LEAST:
        return NotImplemented
    # an expanded gradient, as that of a sum, has no order
    expanded = all(_is_in_order(part) or 0 in part.strides for part in given)
    if not expanded or not all(map(_is_in_order, saved)):
        return NotImplemented
    return _run()(vjp, (g, *saved), {})
