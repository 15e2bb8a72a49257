"""Connectionist temporal classification: the probability of a label sequence over all its alignments.

Labels are extended by blanks, ``_ a _ b _``; ``alpha`` holds the log-probability of all alignments of the
first t steps that end in an extended label, ``beta`` that of all continuations from there.
Source: Graves et al. 2006, https://www.cs.toronto.edu/~graves/icml_2006.pdf
"""

from __future__ import annotations

import math

import numpy as np

from jtorch.core.op import composite

_INT = np.dtype(np.int64)
_NEVER = -1e30  # a log-probability of nothing: finite, so that no difference of two of them is NaN


class _Lattice:
    """What both directions need: emissions (T, N, L), the moves that skip a blank, where alignments end."""

    def __init__(self, xp, log_probs, targets, input_lengths, target_lengths, blank):
        self.xp, self.dtype = xp, log_probs.dtype
        self.steps, self.batch, _ = log_probs.shape
        length = targets.shape[1]
        self.labels = 2 * length + 1
        place = xp.iota(shape=(self.batch, length), axis=1, dtype=_INT)
        valid = xp.lt(place, xp.unsqueeze(target_lengths, axes=(1,)))
        labels = self._with_blanks(xp.where(valid, targets, blank + 0 * targets), blank)
        shape = (self.steps, self.batch, self.labels)
        self.places = (
            xp.iota(shape=shape, axis=0, dtype=_INT),
            xp.iota(shape=shape, axis=1, dtype=_INT),
            xp.expand(labels, shape=shape),
        )
        self.emissions = xp.clamp_min(xp.index(log_probs, *self.places, axes=(0, 1, 2)), _NEVER)
        before = self.shifted(labels, 2, blank, _INT)
        self.skips = xp.logical_and(xp.ne(labels, blank), xp.ne(labels, before))
        position = xp.iota(shape=(self.batch, self.labels), axis=1, dtype=_INT)
        last = xp.unsqueeze(2 * target_lengths, axes=(1,))
        self.starts = xp.lt(position, 2)
        self.ends = xp.logical_or(xp.eq(position, last), xp.eq(position, last - 1))
        self.time = xp.unsqueeze(input_lengths, axes=(1,))

    def _with_blanks(self, targets, blank):
        xp, length = self.xp, targets.shape[1]
        last = xp.full(blank, shape=(self.batch, 1), dtype=_INT)
        pairs = xp.cat(
            xp.full(blank, shape=(self.batch, length, 1), dtype=_INT),
            xp.cast(xp.unsqueeze(targets, axes=(2,)), dtype=_INT),
            axis=2,
        )
        return xp.cat(xp.reshape(pairs, shape=(self.batch, 2 * length)), last, axis=1)

    def shifted(self, x, by, fill, dtype=None):
        """``x`` moved ``by`` labels to the right (left for a negative one)."""
        xp, n = self.xp, min(abs(by), self.labels)
        filling = xp.full(fill, shape=(self.batch, n), dtype=dtype or self.dtype)
        low, high = (0, self.labels - n) if by > 0 else (n, self.labels)
        kept = xp.slice(x, start=(0, low), stop=(self.batch, high), step=(1, 1))
        return xp.cat(filling, kept, axis=1) if by > 0 else xp.cat(kept, filling, axis=1)

    def emission(self, t):
        return self.xp.select(self.emissions, axis=0, index=t)

    def at_once(self, a, b, c):
        """log(exp(a) + exp(b) + exp(c))"""
        xp = self.xp
        top = xp.maximum(xp.maximum(a, b), c)
        total = xp.exp(a - top) + xp.exp(b - top) + xp.exp(c - top)
        return xp.clamp_min(xp.log(total) + top, _NEVER)

    def alphas(self):
        """One (N, L) array for each step; sequences that are over keep their last one."""
        xp = self.xp
        found = [xp.where(self.starts, self.emission(0), _NEVER)]
        for t in range(1, self.steps):
            alpha = found[-1]
            skipped = xp.where(self.skips, self.shifted(alpha, 2, _NEVER), _NEVER)
            total = self.at_once(alpha, self.shifted(alpha, 1, _NEVER), skipped) + self.emission(t)
            found.append(xp.where(xp.gt(self.time, t), total, alpha))
        return found

    def betas(self):
        """One (N, L) array for each step, without that step's own emission."""
        xp = self.xp
        last = xp.where(self.ends, xp.full(0.0, shape=(self.batch, self.labels), dtype=self.dtype), _NEVER)
        found = [last]
        for t in range(self.steps - 2, -1, -1):
            onward = found[-1] + self.emission(t + 1)
            skipped = self.shifted(xp.where(self.skips, onward, _NEVER), -2, _NEVER)
            total = self.at_once(onward, self.shifted(onward, -1, _NEVER), skipped)
            found.append(xp.where(xp.gt(self.time, t + 1), total, last))
        return found[::-1]


def _likelihood(xp, lattice, alpha):
    """log of the sum over the labels where an alignment may end"""
    ending = xp.where(lattice.ends, alpha, _NEVER)
    top = xp.max(ending, axis=(1,), keepdims=True)
    total = xp.log(xp.sum(xp.exp(ending - top), axis=(1,), keepdims=True)) + top
    return xp.squeeze(total, axes=(1,))


@composite(dtype="as_is", public=None, grad_name="CtcLossBackward0", fuses=False, autocast={"cpu": "float32"})
def ctc_losses(xp, log_probs, targets, input_lengths, target_lengths, *, blank):
    """(N,) losses of (T, N, C) log-probabilities and (N, S) padded labels; inf where none is possible."""
    lattice = _Lattice(xp, log_probs, targets, input_lengths, target_lengths, blank)
    losses = -_likelihood(xp, lattice, lattice.alphas()[-1])
    losses = xp.where(xp.gt(losses, -0.5 * _NEVER), math.inf, losses)
    without_input = xp.where(xp.eq(target_lengths, 0), 0.0 * losses, math.inf)
    losses = xp.where(xp.eq(input_lengths, 0), without_input, losses)
    too_long = xp.logical_or(
        xp.gt(input_lengths, log_probs.shape[0]), xp.gt(target_lengths, targets.shape[1])
    )
    return xp.where(too_long, math.nan, losses)


@ctc_losses.vjp
def _(xp, g, log_probs, targets, input_lengths, target_lengths, blank):
    lattice = _Lattice(xp, log_probs, targets, input_lengths, target_lengths, blank)
    alphas = lattice.alphas()
    likelihood = _likelihood(xp, lattice, alphas[-1])
    impossible = xp.lt(likelihood, 0.5 * _NEVER)
    likelihood = xp.unsqueeze(xp.where(impossible, 0.0, likelihood), axes=(1,))
    passing = [xp.exp(a + b - likelihood) for a, b in zip(alphas, lattice.betas(), strict=True)]
    stacked = xp.cat(*(xp.unsqueeze(p, axes=(0,)) for p in passing), axis=0)
    shape = tuple(log_probs.shape)
    occupied = xp.index_add(stacked, *lattice.places, axes=(0, 1, 2), shape=shape)
    # no gradient is known of what cannot be, but where nobody asks for it
    lost = xp.logical_and(impossible, xp.ne(g, 0.0))
    slope = xp.where(impossible, 0.0, -g)
    slope = occupied * xp.unsqueeze(xp.where(lost, math.nan, slope), axes=(0, 2))
    running = xp.lt(xp.iota(shape=shape, axis=0, dtype=_INT), xp.unsqueeze(input_lengths, axes=(0, 2)))
    return xp.where(running, slope, 0.0), None, None, None
