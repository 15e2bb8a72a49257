"""Ops over large arrays, which kernels compute where somebody offers some: bodies of formulas, and gradients.

Eager mode works without: ``jtorch`` itself fills in what has them. What goes there is decided by the sizes of
arrays alone, so that the same call gives the same bits in every run and at every moment.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numpy import ndarray

from jtorch.core.op import Op

LEAST = 1 << 15
"""Elements; below, NumPy is done before kernels would be."""

Run = Callable[[Callable, tuple, dict[str, Any]], Any]
"""``run(function, values, statics)`` gives ``function(xp, *values, **statics)``, or NotImplemented."""

find: Callable[[], Run] | None = None


@functools.cache
def _run() -> Run:
    return find() if find is not None else _nothing


def _nothing(function: Callable, values: tuple, statics: dict[str, Any]) -> Any:
    return NotImplemented


def body(op: Op, at_once: Callable) -> Callable:
    """What computes ``op`` on arrays, where ``at_once`` is what does it by NumPy."""
    if not op.fuses or op.renames or not isinstance(at_once, _FUNCTIONS):
        return at_once

    main = 1 if op.dtype == "where" else 0  # a condition may be small

    def computed(*values: Any, **statics: Any) -> Any:
        x = values[main]
        if x.__class__ is ndarray and x.size >= LEAST and all(map(_is_in_order, values)):
            found = _run()(op.body, values, statics)
            if found is not NotImplemented:
                return found
        return at_once(*values, **statics)

    return computed


_FUNCTIONS = (functools.partial, type(lambda: None))  # not NumPy's own, which need no help


def _is_in_order(value: Any) -> bool:
    """Whether a result laid out like ``value`` is row-major."""
    return value.__class__ is not ndarray or value.flags.c_contiguous


@functools.cache
def gradient(op: Op) -> Any:
    """The gradient of ``op`` as nodes call it."""
    vjp = op.vjp_function
    if vjp is None or not op.fuses:
        return vjp

    def by_kernels(xp: Any, g: Any, *saved: Any) -> Any:
        x = saved[0] if saved and g.__class__ is ndarray and not g.ndim else g
        if x.__class__ is list:  # of several outputs
            x = x[0]
        if x.__class__ is ndarray and x.size >= LEAST and g.__class__ in _RAW and _are_in_order(g, saved):
            found = _run()(vjp, (g, *saved), {})
            if found is not NotImplemented:
                return found
        return vjp(xp, g, *saved)

    return by_kernels


_RAW = (ndarray, list)


def _are_in_order(g: Any, saved: tuple) -> bool:
    """Whether NumPy lays gradients out row-major: one that is expanded, as that of a sum is, has no order."""
    given = g if g.__class__ is list else (g,)
    return all(map(_is_in_order, saved)) and all(_is_in_order(part) or 0 in part.strides for part in given)
