"""How results of elementwise ops and reductions lie in memory: in eager mode as NumPy puts them.

NumPy allocates what it computes of permuted arrays in the order of their memory ("K"). That shows in
``stride()``, in ``is_contiguous()``, in whether ``view`` works and ``reshape`` copies, and so in which
tensors share memory afterwards. So traced results lie in the same order. It is found by asking NumPy itself,
with arrays of two elements an axis.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

Order = tuple[int, ...]
_Operand = tuple[tuple[int, ...], tuple[int, ...]]  # shape, strides in elements


def order_of(
    operands: Sequence[_Operand], shape: tuple[int, ...], reduced: Sequence[int] = ()
) -> Order | None:
    """The axes of a result from the slowest to the fastest; None where they are in order.

    ``shape`` is that of the loops, ``reduced`` the axes over which one operand is reduced and which the
    result no longer has.
    """
    if len(shape) - len(reduced) < 2:
        return None
    order = _order(tuple(_ranks(*operand, len(shape)) for operand in operands), tuple(n > 1 for n in shape))
    if reduced:
        kept = [a for a in range(len(shape)) if a not in reduced]
        order = tuple(kept.index(a) for a in order if a in kept)
    return None if order == tuple(range(len(order))) else order


def order_of_copy(shape: tuple[int, ...], strides: tuple[int, ...]) -> Order | None:
    """The same for a copy, in which a repeated axis comes last."""
    wide = [a for a, n in enumerate(shape) if n > 1]
    return _with_single_axes(sorted(wide, key=lambda a: -abs(strides[a])), shape)


def _with_single_axes(axes: Sequence[int], shape: Sequence[int]) -> Order | None:
    """``axes``, and those of size one, which may lie anywhere, in their places."""
    moved = iter(axes)
    order = tuple(next(moved) if n > 1 else a for a, n in enumerate(shape))
    return None if order == tuple(range(len(order))) else order


def _ranks(shape: tuple[int, ...], strides: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """For each axis of the loops the place of its stride among all; 0 where the operand is repeated."""
    full = [0] * (ndim - len(shape)) + [abs(s) if n > 1 else 0 for n, s in zip(shape, strides, strict=True)]
    sizes = sorted({s for s in full if s})
    return tuple(sizes.index(s) + 1 if s else 0 for s in full)


@functools.lru_cache(1024)
def _order(operands: tuple[tuple[int, ...], ...], wide: tuple[bool, ...]) -> Order:
    shape = tuple(2 if w else 1 for w in wide)
    given = [_example(ranks, shape) for ranks in operands]
    flags = [["readonly"]] * len(given) + [["writeonly", "allocate"]]
    strides = np.nditer([*given, None], [], flags).operands[-1].strides  # type: ignore[arg-type,index]
    axes = sorted((a for a in range(len(shape)) if wide[a]), key=lambda a: -strides[a])
    return _with_single_axes(axes, shape) or tuple(range(len(shape)))


def _example(ranks: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """An array of two elements an axis whose strides are in the order of ``ranks``."""
    axes = sorted(range(len(ranks)), key=lambda a: -ranks[a])
    small = np.zeros([shape[a] if ranks[a] else 1 for a in axes], np.bool_)
    return np.broadcast_to(small.transpose(np.argsort(axes)), shape)
