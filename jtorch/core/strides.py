"""Strides of views, in elements or in bytes, as PyTorch gives them: of new memory and of expanded axes."""

from __future__ import annotations

import numpy as np

Numbers = tuple[int, ...]


def contiguous_strides(shape: Numbers) -> Numbers:
    """Strides in elements of a row-major array of ``shape``."""
    if not shape:
        return ()
    found = [1]
    for n in shape[:0:-1]:
        found.append(n * found[-1])
    return tuple(found[::-1])


def expanded_strides(sizes: Numbers, strides: Numbers, shape: Numbers) -> Numbers:
    """Strides of what has ``sizes`` and ``strides``, expanded to ``shape``.

    An axis that repeats has none; a new axis of one element steps over all that follows it.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.expand.html
    """
    new = len(shape) - len(sizes)
    kept = [0 if n == 1 and m != 1 else s for n, m, s in zip(sizes, shape[new:], strides, strict=True)]
    if not new or not kept or 1 not in shape[:new]:
        return (*(0,) * new, *kept)
    found = [*(0,) * new, *kept]
    for k in reversed(range(new)):
        found[k] = shape[k + 1] * found[k + 1] if shape[k] == 1 else 0
    return tuple(found)


def memory_order(shape: Numbers, strides: Numbers) -> Numbers | None:
    """The axes in the order in which their elements lie side by side, each at a place of its own; None where
    there are gaps, or where elements share places."""
    order = sorted(range(len(shape)), key=lambda k: (-strides[k], -shape[k]))
    step = 1
    for k in reversed(order):
        if shape[k] != 1:
            if strides[k] != step:
                return None
            step *= shape[k]
    return tuple(order)


def takes_sums(gradient: np.ndarray) -> bool:
    """Whether backward adds in the memory of ``gradient``, an array: not where its elements lie at one place
    or must not be written; then the sum has memory of its own."""
    return bool(gradient.flags.writeable) and not has_spread_axis(gradient.shape, gradient.strides)


def has_spread_axis(shape: Numbers, strides: Numbers) -> bool:
    """Whether all elements along one of the axes are one, as ``expand`` has it."""
    return 0 in strides and any(s == 0 and n > 1 for s, n in zip(strides, shape, strict=True))


def can_be_written(array: np.ndarray) -> bool:
    """Whether its memory may be, and no two elements lie at one place."""
    flags = array.flags
    return bool(flags.writeable) and (flags.c_contiguous or not is_crowded(array.shape, array.strides))


def is_crowded(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements may lie at one place. True also for some interleaved ones that are apart."""
    if 0 in shape:
        return False
    last = 0
    for step, n in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if step <= last:
            return True
        last += step * (n - 1)
    return False
