"""Packed sequences in a recording, of which lengths are elements of a tensor: one loop over all steps.

Eager mode computes at each step the sequences that reach it. A recording does not know how many these are, so
its loop computes all of them at each step, over padded rows, and one that does not reach a step keeps its
state there. What layers get and give stays packed, and so do products over all rows: no padding takes part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import Op
from jtorch.ops.scanning import scan


@dataclass(frozen=True, slots=True)
class PackedSteps:
    """The rows of ``steps`` steps, of which each has some of as many sequences (``rows``), the longest ones.

    Padded, row ``b`` of step ``t`` is number ``t * rows + b``. The arrays: which packed row stands at each
    padded place, some one of the same step where there is none (steps * rows,); which of them are ``live``
    (steps, rows, 1); the place of each packed row (N,); and for either direction which of the rows of first
    states, and below them of the packed ones, has the state that a row is computed from (N,).
    """

    rows: Any
    steps: Any
    packed: Any
    live: Any
    places: Any
    before: tuple[Any, Any]

    def __iter__(self):
        raise CompileError(
            f"{user_source()}: packed sequences whose lengths each call brings are a loop over float32 or "
            "float64 that is differentiated once: leave this function uncompiled, or compute over the padded "
            "sequences and a mask."
        )

    def __getitem__(self, k):
        return self.rows

    def padded(self, xp, x):
        """Packed rows as (steps, rows, columns)."""
        rows = xp.index(x, self.packed, axes=(0,))
        return xp.reshape(rows, shape=(self.steps, self.rows, x.shape[1]))

    def taken(self, xp, flat):
        """The packed rows of padded ones, (steps * rows, columns)."""
        return xp.index(flat, self.places, axes=(0,))

    def previous(self, xp, states, first, reverse):
        """For each row the state that it was computed from; ``states`` has those after each step."""
        return xp.index(xp.cat(first, states, axis=0), self.before[bool(reverse)], axes=(0,))


MASKED: dict[str, Op] = {}
"""By the name of a loop, the same one of which the last that it goes over says which rows a step has; others
keep their state there."""


def loop(turn: Callable, name: str, *, outputs: int, carried: tuple[int, ...], shapes: Callable) -> Op:
    """The loop of a ``turn`` of a recurrent layer, see ``scan``. ``MASKED`` gets another one for it."""

    def masked_turn(xp, carries, constants, xs, *options):
        *rows, live = xs
        found = list(turn(xp, carries, constants, rows, *options))
        for k, before in zip(carried, carries, strict=True):
            found[k] = xp.where(live, found[k], before)
        return tuple(found)

    def masked_shapes(carries, constants, xs, *options):
        return shapes(carries, constants, xs[:-1], *options)

    facts: dict[str, Any] = {"outputs": outputs, "carried": carried}
    MASKED[name] = scan(masked_turn, f"packed_{name}", shapes=masked_shapes, **facts)
    return scan(turn, name, shapes=shapes, **facts)
