"""Packed sequences while a function is recorded: lengths are elements that each call brings, and what follows
from them is computed. How many rows there are, and how many steps, are numbers of elements as a mask has
them.
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor, arange, full, functions, raw
from jtorch.ops.recurrent_packed import PackedSteps


def packed_rows(padded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, number of sequences at each step) of sequences (T, B, *), of which the longest come first."""
    steps, batch = padded.shape[:2]
    live = arange(steps).unsqueeze(1) < lengths
    reaching = live.sum(1)
    batch_sizes: Any = reaching[reaching > 0]
    batch_sizes._sequences = batch, batch_sizes._version
    return padded[live], batch_sizes


def number_of_sequences(batch_sizes: Any, order: Tensor | None) -> Any:
    """``batch_sizes[0]`` as a size."""
    if order is not None:
        return order.shape[0]
    batch, version = getattr(batch_sizes, "_sequences", (0, None))
    if version == batch_sizes._version:
        return batch
    return functions.repeat_interleave(batch_sizes[:1]).shape[0]  # packed outside


def padded_rows(
    data: Tensor, batch_sizes: Tensor, batch: Any, padding_value: float, length: Any
) -> tuple[Tensor, Tensor]:
    """(padded sequences (length, B, *), their lengths)"""
    count, steps = data.shape[0], batch_sizes.shape[0]
    starts = batch_sizes.cumsum(0) - batch_sizes
    line, sequences = arange(length), arange(batch)
    step = line.clamp(max=steps - 1)
    sizes = functions.where(line < steps, batch_sizes[step], 0).unsqueeze(1)
    rows = functions.where(sequences < sizes, starts[step].unsqueeze(1) + sequences, count)
    padding = full((1, *data.shape[1:]), padding_value, dtype=data.dtype)
    return functions.cat([data, padding])[rows], (sequences < batch_sizes.unsqueeze(1)).sum(0)


def steps_of(data: Tensor, batch_sizes: Tensor, batch: Any) -> PackedSteps:
    """What a recurrent layer must know of the rows ``data``."""
    count, steps = data.shape[0], batch_sizes.shape[0]
    sizes, sequences = batch_sizes.unsqueeze(1), arange(batch)
    ends = batch_sizes.cumsum(0)
    starts = ends - batch_sizes
    live = sequences < sizes
    packed = starts.unsqueeze(1) + functions.minimum(sequences, sizes - 1)
    rows = arange(count)
    step = functions.searchsorted(ends, rows, right=True)  # of each row, and its sequence
    sequence = rows - starts[step]
    is_last = step + 1 == live.sum(0)[sequence]
    earlier = batch + rows - batch_sizes[(step - 1).clamp(min=0)]
    forward = functions.where(step == 0, sequence, earlier)
    backward = functions.where(is_last, sequence, batch + rows + batch_sizes[step])
    padded, reached, places = raw(packed.reshape(-1), live.unsqueeze(2), step * batch + sequence)
    return PackedSteps(batch, steps, padded, reached, places, before=raw(forward, backward))


def check_lengths(lengths: Tensor, steps: Any, not_sorted: str) -> None:
    """Raise RuntimeError for lengths below 1, above ``steps``, or out of order: one branch, if none are."""
    too_long, wrong_order = (lengths > steps).any(), (lengths[1:] > lengths[:-1]).any()
    too_short = (lengths < 1).any()
    if not (too_short | too_long | wrong_order):
        return
    if too_short:
        raise RuntimeError(TOO_SHORT)
    if wrong_order:
        raise RuntimeError(not_sorted)
    raise RuntimeError(f"Expected lengths of at most {steps}, the size of input, but got a larger one")


TOO_SHORT = "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
