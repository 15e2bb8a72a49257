"""Who the living views of a memory are: an in-place op that the tape follows must move all of them.

Differentiable views are listed, by weak references, on the version cell they share. Those of a leaf that
requires grad are not, for nothing that the tape follows may be written there, and a parameter is viewed at
every step: their cell only says that there were some. If the leaf stops requiring grad, and is written to
then, the garbage collector knows who holds the cell.
"""

from __future__ import annotations

import gc

from jtorch.eager.tensor import Tensor


def UNLISTED() -> None:  # noqa: N802 - a constant that is called as the references beside it are
    """Stands on a cell for views that are not listed."""


def living(base: Tensor) -> list[Tensor]:
    """The views of ``base`` that a write may move on the tape; those that others were made of come first.

    Raises RuntimeError after ``gc.freeze()`` if some of them are not listed.
    """
    cell = base._cell
    if base._requires_grad and base._node is None:
        return []
    if UNLISTED not in cell:
        return [view for r in cell[1:] if (view := r()) is not None and view._how is not None]
    if gc.get_freeze_count():
        raise RuntimeError(
            "a tensor that once required grad is changed in place, and which views of it there are cannot be "
            "found out after gc.freeze(): change its .clone(), or call gc.unfreeze() before."
        )
    holders = [t for t in gc.get_referrers(cell) if isinstance(t, Tensor)]
    found = [t for t in holders if t._cell is cell and t._base is not None and t._how is not None]
    return sorted(found, key=_depth)


def _depth(view: Tensor) -> int:
    """How many view ops lie between ``view`` and the base."""
    steps = 0
    while view._base is not None and view._how is not None:
        view = view._how[0]
        steps += 1
    return steps


def forget_dead(cell: list) -> None:
    """Drop the references to views that are gone: done now and then, or the cell of a buffer only grows."""
    cell[1:] = [r for r in cell[1:] if r is UNLISTED or r() is not None]
