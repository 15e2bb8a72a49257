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
    result no longer has. Where an axis has one element, its stride counts all the same if the order of the
    others does not depend on it: nobody sees it, and a batch of one gets the graph of any other batch.
    """
    if len(shape) - len(reduced) < 2:
        return None
    ranks = tuple(_ranks(*operand, shape) for operand in operands)
    order = _order(ranks)
    if len(operands) > 1 and 1 in shape:
        wide = [n > 1 for n in shape]
        seen = _order(tuple(tuple(r * w for r, w in zip(some, wide, strict=True)) for some in ranks))
        if [a for a in order if shape[a] > 1] != [a for a in seen if shape[a] > 1]:
            order = seen
    if reduced:
        kept = [a for a in range(len(shape)) if a not in reduced]
        order = tuple(kept.index(a) for a in order if a in kept)
    return None if order == tuple(range(len(order))) else order


def order_of_copy(strides: tuple[int, ...]) -> Order | None:
    """The same for a copy of what has ``strides``, in which a repeated axis comes last."""
    order = tuple(sorted(range(len(strides)), key=lambda a: -abs(strides[a])))
    return None if order == tuple(range(len(order))) else order


def _ranks(shape: tuple[int, ...], strides: tuple[int, ...], loops: tuple[int, ...]) -> tuple[int, ...]:
    """For each axis of the loops the place of its stride among all; 0 where the operand is repeated."""
    n = len(loops) - len(shape)
    full = [0] * n + [abs(s) if m == k else 0 for m, s, k in zip(shape, strides, loops[n:], strict=True)]
    sizes: list[int] = []
    for s in sorted(s for s in full if s):  # no set, which would ask a symbol for its number
        if not sizes or s != sizes[-1]:
            sizes.append(s)
    return tuple(sizes.index(s) + 1 if s else 0 for s in full)


@functools.lru_cache(1024)
def _order(operands: tuple[tuple[int, ...], ...]) -> Order:
    given = [_example(ranks) for ranks in operands]
    flags = [["readonly"]] * len(given) + [["writeonly", "allocate"]]
    made = np.nditer([*given, None], [], flags).operands[-1]  # type: ignore[arg-type,index]
    return tuple(sorted(range(made.ndim), key=lambda a: -made.strides[a]))


def _example(ranks: tuple[int, ...]) -> np.ndarray:
    """An array of two elements an axis whose strides are in the order of ``ranks``."""
    axes = sorted(range(len(ranks)), key=lambda a: -ranks[a])
    small = np.zeros([2 if ranks[a] else 1 for a in axes], np.bool_)
    return np.broadcast_to(small.transpose(np.argsort(axes)), [2] * len(ranks))
