"""``compiler.scan``: a loop over the first axis, with what a step hands on to the next one.

Eager mode runs it step by step. A recording holds it as one equation, see ``compile/record/loops.py``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from jtorch.core.memory_formats import contiguous_format
from jtorch.core.op import CONTEXT
from jtorch.eager.functions.joining import stack
from jtorch.eager.tensor import Tensor
from jtorch.eager.tree import flatten

_TENSORS = "{name}(): {what} must be made of tensors, got {given}"


class Steps:
    """The steps of a scan: ``step(carries, parts)`` calls the user's function with one step's flat lists of
    tensors, and gives (the next carries, what this step gives). Raises TypeError where those do not fit."""

    name, way_out = "scan", "carry it, or give it as y"

    def __init__(self, function: Callable, carry: Any, xs: Any) -> None:
        self.function, self.functions = function, (function,)
        self.carries, self._carry = flat(carry, "carry", "scan")
        self.xs, self._xs = _nothing() if xs is None else flat(xs, "xs", "scan")
        self._gives: Callable[[list[Any]], Any] = lambda given: None
        self._y: Any = None  # what the first step gave

    def step(self, carries: list[Tensor], parts: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """One call of the function."""
        returned = self.function(self._carry(carries), self._xs(parts))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError(
                "scan(): the function must return a tuple (carry, y), got "
                f"{told(returned) if isinstance(returned, tuple) else type(returned).__name__}"
            )
        carry, y = returned
        new, rebuild = flat(carry, "the carry that the function returns", "scan")
        if form(self._carry(carries)) != form(rebuild(new)):
            raise TypeError(
                f"scan(): the function got a carry of {told(self._carry(carries))} and returned one of "
                f"{told(carry)}: shapes, dtypes and containers must stay"
            )
        given, self._gives = _nothing() if y is None else flat(y, "y", "scan")
        if self._y is not None and form(y) != form(self._y[0]):
            raise TypeError(f"scan(): the function gave a y of {told(self._y[0])} and then one of {told(y)}")
        self._y = self._y or (y,)
        return new, given

    def result(self, carries: list[Tensor], ys: list[Tensor]) -> tuple[Any, Any]:
        """(carry, ys) as the function has them."""
        return self._carry(carries), self._gives(ys)


def _nothing() -> tuple[list[Any], Callable[[list[Any]], Any]]:
    return [], lambda leaves: None


def flat(tree: Any, what: str, name: str) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """(the tensors of ``what`` the loop of this name is handed, what makes the like of other ones)"""
    leaves, rebuild = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise TypeError(_TENSORS.format(name=name, what=what, given=f"a {type(leaf).__name__}"))
    return leaves, rebuild


def form(tree: Any) -> Any:
    """Containers, dtypes and shapes, which may be symbols: to be compared, not to be told."""
    if isinstance(tree, Tensor):
        return tree.dtype, tuple(tree.shape)
    if isinstance(tree, dict):
        return type(tree), [(k, form(v)) for k, v in tree.items()]
    return (type(tree), list(map(form, tree))) if isinstance(tree, (tuple, list)) else tree


def told(tree: Any) -> str:
    """Containers, dtypes and shapes, for an error."""
    if isinstance(tree, Tensor):
        return f"{tree.dtype}{list(tree.shape)}"
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{k!r}: {told(v)}' for k, v in tree.items())}}}"
    if isinstance(tree, (tuple, list)):
        inside = ", ".join(map(told, tree))
        return f"({inside})" if isinstance(tree, tuple) else f"[{inside}]"
    return str(tree)


def scan(
    f: Callable, carry: Any, xs: Any = None, *, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """``f`` over the first axis of ``xs``, see ``compiler.scan``."""
    steps = Steps(f, carry, xs)
    n = _length(steps.xs, length)
    found = CONTEXT.get().evaluator.scan(steps, n, bool(reverse))
    if found is None:
        found = _one_by_one(steps, n, reverse)
    return steps.result(*found)


def _length(xs: list[Tensor], length: int | None) -> int:
    if any(not x.ndim for x in xs):
        raise ValueError("scan(): xs need a first axis to go over, and one of them has none")
    sizes = [x.shape[0] for x in xs]
    if length is not None:
        sizes.append(length if isinstance(length, int) else operator.index(length))
    if not sizes:
        raise ValueError("scan(): without xs say how many steps: length=")
    first = sizes[0]
    if any(size != first for size in sizes[1:]):
        raise ValueError(f"scan(): the first axes of xs, and length, differ: {', '.join(map(str, sizes))}")
    if first < 1:
        raise ValueError("scan(): there must be one step at least, got none")
    return first


def _one_by_one(steps: Steps, n: int, reverse: bool) -> tuple[list[Tensor], list[Tensor]]:
    """(the last carries, what the steps give, stacked)"""
    xs = [x.contiguous() for x in steps.xs]
    carries: list[Tensor] = steps.carries
    rows: list[list[Tensor]] = []
    for t in reversed(range(n)) if reverse else range(n):
        carries, given = steps.step([c.contiguous() for c in carries], [x[t] for x in xs])
        rows.append(given)
    if reverse:
        rows.reverse()
    # memory of their own: what a step returns may be what it was given
    carries = [c.clone(memory_format=contiguous_format) for c in carries]
    return carries, [stack(list(parts)) for parts in zip(*rows, strict=True)]
