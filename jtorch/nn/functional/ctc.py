"""``ctc_loss`` for every form that targets and lengths come in.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.ctc_loss.html
"""

from __future__ import annotations

import math
from typing import Any

from jtorch.core.dtypes import int64
from jtorch.eager.public import (
    Tensor,
    arange,
    autocasts,
    functions,
    in_float32,
    ops,
    reads_elements,
    tensor,
    zeros,
    zeros_like,
)
from jtorch.nn.functional._reduction import chosen

_CHECKING = " (while checking arguments for ctc_loss_allocate_outputs)"


@autocasts(cpu="float32")
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
    are (N,) tensors or tuples. "mean" divides each loss by its target's length first. Raises RuntimeError for
    lengths that are negative or exceed T or S.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> log_probs = jtorch.full((2, 1, 4), 0.25).log()  # two steps, 4 equally likely labels
    >>> loss = F.ctc_loss(log_probs, jtorch.tensor([[1]]), jtorch.tensor([2]), jtorch.tensor([1]))
    >>> loss.exp()  # 16 / 3: of 16 paths, "1 1", "1 blank" and "blank 1" give the label
    tensor(5.3333)
    """
    if log_probs.dtype.itemsize == 2:  # which do not hold the logarithm of what is next to impossible
        facts = targets, input_lengths, target_lengths, blank, reduction, zero_infinity
        return in_float32(ctc_loss, log_probs, *facts)
    reduction = chosen(reduction, None, None)
    alone = log_probs.ndim == 2
    if alone:
        log_probs = log_probs.unsqueeze(1)
    steps, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    _check_lengths("input_lengths", input_lengths, batch, steps)
    _check_lengths("target_lengths", target_lengths, batch, None)
    targets = _padded(targets, target_lengths, batch)
    longest = int(targets.shape[1])
    if not _all_between(target_lengths, 0, longest):
        raise RuntimeError(
            f"Expected tensor to have size at least {_extreme(target_lengths, max)} at dimension 1, but got "
            f"size {longest} for argument #2 'targets'{_CHECKING}"
        )
    counts = _as_tensor(target_lengths).to(log_probs.device)
    times = _as_tensor(input_lengths).to(log_probs.device)
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
    steps = arange(log_probs.shape[0], device=log_probs.device).unsqueeze(1)
    running = (steps < times).to(log_probs.dtype).unsqueeze(2)
    return (log_probs.exp() * running).sum((0, 2))


def _as_tensor(lengths: Any) -> Any:
    made = lengths if isinstance(lengths, Tensor) else tensor(lengths, dtype=int64)
    return made.reshape(-1).long()


def _check_lengths(name: str, lengths: Any, batch: int, most: int | None) -> None:
    count = lengths.numel() if isinstance(lengths, Tensor) else len(lengths)
    if count != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    if not _all_between(lengths, 0, math.inf):
        raise RuntimeError(
            f"Expected {name} to have value at least 0, but got value {_extreme(lengths, min)}{_CHECKING}"
        )
    if most is not None and not _all_between(lengths, 0, most):
        raise RuntimeError(
            f"Expected {name} to have value at most {most}, but got value {_extreme(lengths, max)}{_CHECKING}"
        )


def _all_between(lengths: Any, least: Any, most: Any) -> bool:
    """Of a tensor's elements this is a branch, also in compiled code."""
    if not isinstance(lengths, Tensor):
        return all(least <= n <= most for n in lengths)
    if most == math.inf:
        return bool((lengths >= least).all())
    return bool((lengths <= most).all())


def _extreme(lengths: Any, which: Any) -> Any:
    """The shortest or the longest, for a sentence."""
    if not isinstance(lengths, Tensor):
        return which(lengths)
    if reads_elements():
        return which(lengths.tolist())
    return "a larger one" if which is max else "a negative one"  # compiled code knows no more


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
            f"argument #2 'targets'{_CHECKING}"
        )
    longest, rows, start = max(sizes, default=0), [], 0
    for size in sizes:
        row = targets[start : start + size].long()
        rows.append(functions.cat([row, zeros(longest - size, dtype=int64, device=row.device)]))
        start += size
    return functions.stack(rows)
