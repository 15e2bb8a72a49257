"""What samples allow to say: intervals by the bootstrap, a rank test, and a correction for many of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000
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


def ratio_of_medians(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """(ratio, and the ends of its confidence interval) of the medians of two samples that are not paired."""
    generator = np.random.default_rng(0)
    medians = [
        np.median(np.asarray(values)[generator.integers(len(values), size=(RESAMPLES, len(values)))], axis=1)
        for values in (first, second)
    ]
    ratio = float(np.median(second) / np.median(first))
    return (ratio, *interval(medians[1] / medians[0]))


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p-value of both being drawn alike: exact where there are no ties."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(first, second, alternative="two-sided").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected p-values: each is at most the probability that any row is marked where none changed."""
    order = sorted(range(len(p_values)), key=lambda k: p_values[k])
    corrected, least = [0.0] * len(p_values), 0.0
    for rank, k in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[k]))
        corrected[k] = least
    return corrected
