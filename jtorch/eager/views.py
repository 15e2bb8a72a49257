"""Who the living views of a memory are: an in-place op that the tape follows must move all of them.

Views are listed, by weak references, on the version cell they share. Those of a leaf that
requires grad are not, for nothing that the tape follows may be written there, and a parameter is viewed at
every step: their cell only says that there were some. If the leaf stops requiring grad, and something the
tape follows is written to it, the garbage collector knows who holds the cell.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np

from jtorch.core.op import CONTEXT
from jtorch.eager.tensor import Tensor


def UNLISTED() -> None:  # noqa: N802 - a constant that is called as the references beside it are
    """Stands on a cell, once, for views that are not listed."""


def living(base: Tensor) -> list[Tensor]:
    """The listed views of ``base``; those that others were made of come first. What a recording made, and
    somebody still holds, is nobody's outside it."""
    knows = CONTEXT.get().evaluator.knows
    return [
        view
        for r in base._cell[1:]
        if (view := r()) is not None and (view._data.__class__ is np.ndarray or knows(view._data))
    ]


def list_all(base: Tensor) -> None:
    """List the views of ``base`` that are not, before something the tape follows is written to it.

    Raises RuntimeError after ``gc.freeze()``, when they cannot be found.
    """
    cell = base._cell
    if len(cell) == 1 or UNLISTED not in cell:
        return
    if gc.get_freeze_count():
        raise RuntimeError(
            "a tensor that once required grad is changed in place where gradients flow, and which views of "
            "it there are cannot be found after gc.freeze(): change its .clone(), or call gc.unfreeze()."
        )
    holders = [t for t in gc.get_referrers(cell) if isinstance(t, Tensor) and t._cell is cell]
    found = [t for t in holders if t._base is not None]
    cell[1:] = [weakref.ref(t) for t in sorted(found, key=_depth)]


def source_of(how: Any) -> Tensor:
    """What a view was made of, also by a custom Function."""
    return how[0] if isinstance(how, tuple) else how.source


def _depth(view: Tensor) -> int:
    """How many view ops lie between ``view`` and the base."""
    steps = 0
    while view._base is not None and view._how is not None:
        view = source_of(view._how)
        steps += 1
    return steps


def forget_dead(cell: list) -> None:
    """Drop the references to views that are gone: done now and then, or the cell of a buffer only grows."""
    cell[1:] = [r for r in cell[1:] if r is UNLISTED or r() is not None]


def apart(made: Tensor, tensor: Tensor) -> Tensor:
    """``made``, with memory of its own: a copy where it is ``tensor``, or a view of it, since what was asked
    for there is no change. (Where PyTorch gives new memory, a write to it changes nothing else.)"""
    from jtorch.eager.binding import APPLY

    return APPLY["clone"](made) if made._cell is tensor._cell else made
