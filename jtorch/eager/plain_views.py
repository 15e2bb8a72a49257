"""``x[1:3, ..., None]``: views by ints, slices, None and Ellipsis that need no node, by one of NumPy's.

Else each kind of item is an op. How the view was made is worked out from these where somebody asks: who
writes to it where gradients flow. ``x[1:3]`` takes 0.9 us instead of 1.8, ``x[..., 1]`` instead of 7.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jtorch.core.op import CONTEXT
from jtorch.eager.binding import APPLY
from jtorch.eager.evaluate import EAGER
from jtorch.eager.results import note_view, off_tape
from jtorch.eager.tensor import Tensor
from jtorch.ops import xp

_WHOLE = slice(None)
_with_axes = APPLY["unsqueeze"]


class ByItem:
    """How a view was made, see ``rebase.py``: the last op of ``source[item]``, and the view that it takes."""

    __slots__ = ("item", "source")

    def __init__(self, source: Tensor, item: tuple) -> None:
        self.source, self.item = source, item

    def __iter__(self) -> Iterator[Any]:
        from jtorch.eager.index_items import basic

        before = CONTEXT.get()
        CONTEXT.set(before.replace(evaluator=EAGER, grad=True))
        try:  # anew each time: the source may have another place on the tape
            view, _ = basic(self.source, self.item)
        finally:
            CONTEXT.set(before)
        return iter(view._how)

    def __getitem__(self, k: int) -> Any:
        return (*self,)[k]


def view_at_once(self: Tensor, item: tuple) -> Tensor | None:
    """``self[item]``; None where it has a node, or where the item is another one or too long."""
    context, data = CONTEXT.get(), self._data
    follows = context.level is not None or (self._requires_grad and context.grad)
    if follows or data.__class__ is not np.ndarray or not context.evaluator.skips_table:
        return None
    parts: list[Any] = []
    new: list[int] = []
    k, is_open, cuts = 0, True, False  # axes so far; whether it may have an Ellipsis, and takes a part
    for part in item:
        kind = part.__class__
        if part is None:
            new.append(k)
            k += 1
            continue
        if kind is int:
            cuts = True
        elif kind is slice:
            if part != _WHOLE:
                if not _is_plain(part):
                    return None
                cuts = True
            k += 1
        elif part is Ellipsis and is_open:
            is_open = False
            k += data.ndim - sum(1 for p in item if p is not None) + 1
        else:
            return None
        parts.append(part)
    if new and not cuts and len(parts) - (not is_open) <= data.ndim:
        return _with_axes(self, axes=tuple(new))
    try:
        found = data[(*parts, ...)] if is_open else data[(*parts,)]  # a view, also of one element
    except IndexError:
        return None
    if new:
        found = xp.unsqueeze(found, axes=tuple(new))
    view = off_tape(found, self._cell)
    note_view(view, self, ByItem(self, item) if context.grad else None)
    return view


def _is_plain(part: slice) -> bool:
    """Whether it goes forward from one int to another."""
    start, stop, step = part.start, part.stop, part.step
    forward = step is None or (step.__class__ is int and step > 0)
    return forward and (start is None or start.__class__ is int) and (stop is None or stop.__class__ is int)
