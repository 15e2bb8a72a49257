"""What samples allow to say: intervals by the bootstrap, a rank test, and a correction for many of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 4000
CONFIDENCE = 0.95


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """(median, and the ends of its confidence interval) of ``second / first``, sample by sample.

    For samples that took turns: what slows the machine down slows both of a pair.
    """
    n = min(len(first), len(second))
    ratios = np.asarray(second[:n]) / np.asarray(first[:n])
    generator = np.random.default_rng(0)
    medians = np.median(ratios[generator.integers(n, size=(RESAMPLES, n))], axis=1)
    return (float(np.median(ratios)), *interval(medians))


def interval(values: np.ndarray) -> tuple[float, float]:
    """The middle CONFIDENCE of ``values``."""
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, (outside, 1 - outside))
    return float(low), float(high)
