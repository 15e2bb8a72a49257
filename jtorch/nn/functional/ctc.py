"""``ctc_loss`` for every form that targets and lengths come in.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.ctc_loss.html
"""

from __future__ import annotations

import math
from typing import Any

from jtorch.core.dtypes import int64
from jtorch.eager.public import Tensor, arange, functions, ops, tensor, zeros, zeros_like
from jtorch.nn.functional._reduction import chosen


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of each label sequence, over all its alignments with the input.

    ``log_probs`` is (T, N, C) or (T, C); ``targets`` (N, S), or all sequences one after the other; lengths
    are (N,) tensors or tuples. "mean" divides each loss by its target's length first. Lengths in a tensor
    that exceed T or S give NaN, as compiled code does not read them; in a tuple they raise RuntimeError.
    """
    reduction = chosen(reduction, None, None)
    alone = log_probs.ndim == 2
    if alone:
        log_probs = log_probs.unsqueeze(1)
    steps, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    _check_lengths("input_lengths", input_lengths, batch, steps)
    targets = _padded(targets, target_lengths, batch)
    _check_lengths("target_lengths", target_lengths, batch, targets.shape[1])
    counts = _as_tensor(target_lengths)
    times = _as_tensor(input_lengths)
    losses = ops.ctc_losses(log_probs, targets, times, counts, blank=blank)
    mass = _mass(log_probs, times)
    if zero_infinity:
        possible = losses.detach() != math.inf
        zeros = zeros_like(losses)
        losses, mass = functions.where(possible, losses, zeros), functions.where(possible, mass, zeros)
    losses = losses + (mass - mass.detach())
    if reduction == "none":
        return losses.squeeze(0) if alone else losses
    if reduction == "sum":
        return losses.sum()
    return (losses / counts.clamp(min=1).to(losses.dtype)).mean()


def _mass(log_probs: Any, times: Any) -> Any:
    """The sum of the probabilities of all steps that count: constant for normalised ones.

    PyTorch's gradient is that of the scores before log_softmax: it has a term exp(log_probs), which
    log_softmax's own gradient leaves as it is. This sum, added and taken away again, brings it in.
    """
    steps = arange(log_probs.shape[0]).unsqueeze(1)
    running = (steps < times).to(log_probs.dtype).unsqueeze(2)
    return (log_probs.exp() * running).sum((0, 2))


def _as_tensor(lengths: Any) -> Any:
    made = lengths if isinstance(lengths, Tensor) else tensor(lengths, dtype=int64)
    return made.reshape(-1).long()


def _check_lengths(name: str, lengths: Any, batch: int, most: int) -> None:
    count = lengths.numel() if isinstance(lengths, Tensor) else len(lengths)
    if count != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    if not isinstance(lengths, Tensor) and max(lengths, default=0) > most:
        raise RuntimeError(
            f"Expected {name} to have value at most {most}, but got value {max(lengths)} (while checking "
            "arguments for ctc_loss_allocate_outputs)"
        )


def _padded(targets: Any, lengths: Any, batch: int) -> Any:
    """The targets as (N, S). Those that come one after the other are cut by their lengths, which are read."""
    if targets.ndim == 2:
        return targets.long()
    if batch == 1:
        return targets.reshape(1, -1).long()
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    if sum(sizes) != targets.shape[0]:
        raise RuntimeError(
            f"Expected tensor to have size {sum(sizes)} at dimension 0, but got size {targets.shape[0]} for "
            "argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
        )
    longest, rows, start = max(sizes, default=0), [], 0
    for size in sizes:
        row = targets[start : start + size].long()
        rows.append(functions.cat([row, zeros(longest - size, dtype=int64)]))
        start += size
    return functions.stack(rows)
