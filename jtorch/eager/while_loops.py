"""``compiler.while_loop``: a loop that goes on while a condition holds, with what a turn hands on to the
next one.

Eager mode runs it turn by turn. A recording holds it as one equation, see ``compile/record/while_loops.py``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from jtorch.core import dtypes
from jtorch.core.memory_formats import contiguous_format
from jtorch.core.op import CONTEXT
from jtorch.eager.creation import tensor
from jtorch.eager.grad_mode import no_grad
from jtorch.eager.scanning import flat, form, told
from jtorch.eager.tensor import Tensor

NAME = "while_loop"


class Turns:
    """The turns of a loop, over a flat list of tensors. Raises TypeError where what the user's functions give
    does not fit."""

    def __init__(self, cond: Callable, body: Callable, carry: Any) -> None:
        self.cond, self.body = cond, body
        self.carries, self.rebuild = flat(carry, "carry", NAME)

    def goes_on(self, carries: list[Tensor]) -> Tensor:
        """Whether there is another turn, as a bool tensor without axes; no gradient goes through it."""
        with no_grad():
            found = self.cond(self.rebuild(carries))
        if not isinstance(found, Tensor):
            raise TypeError(
                f"while_loop(): cond must return a bool tensor without axes, got a {type(found).__name__}: "
                "what it asks must follow from the carry"
            )
        if found.dtype is not dtypes.bool_ or found.ndim:
            raise TypeError(
                f"while_loop(): cond must return a bool tensor without axes, got {told(found)}: compare, and "
                "use .any() or .all()"
            )
        return found

    def turn(self, carries: list[Tensor]) -> list[Tensor]:
        """The next carries."""
        returned = self.body(self.rebuild(carries))
        new, rebuild = flat(returned, "the carry that body returns", NAME)
        if form(self.rebuild(carries)) != form(rebuild(new)):
            raise TypeError(
                f"while_loop(): body got a carry of {told(self.rebuild(carries))} and returned one of "
                f"{told(returned)}: shapes, dtypes and containers must stay"
            )
        return new


def while_loop(cond: Callable, body: Callable, carry: Any, *, max_steps: int) -> tuple[Any, Tensor]:
    """``body`` while ``cond`` holds, see ``compiler.while_loop``."""
    turns = Turns(cond, body, carry)
    bound = max_steps if isinstance(max_steps, int) else operator.index(max_steps)
    if bound < 0:
        raise ValueError(f"while_loop(): max_steps must be 0 or more, got {bound}")
    found = CONTEXT.get().evaluator.while_loop(turns, bound)
    carries, steps = found or _one_by_one(turns, bound)
    return turns.rebuild(carries), steps


def _one_by_one(turns: Turns, bound: int) -> tuple[list[Tensor], Tensor]:
    """(the last carries, how many turns there were)"""
    carries, n = [c.contiguous() for c in turns.carries], 0
    while n < bound and bool(turns.goes_on(carries)):
        carries, n = [c.contiguous() for c in turns.turn(carries)], n + 1
    # memory of their own: what a turn returns may be what it was given
    return [c.clone(memory_format=contiguous_format) for c in carries], tensor(n, dtype=dtypes.int64)
