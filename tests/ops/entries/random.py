"""Samples: random."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Draw, Sample, entry


def _bits(draw: Draw, *shape: int) -> np.ndarray:
    return np.asarray(draw.rng.integers(0, 2**64, shape, dtype=np.uint64))


@entry("random_bits")
def _(draw):
    return [Sample((7, 3), {"shape": s, "dtype": np.dtype(np.uint64)}) for s in ((5,), (2, 3), (), (0,))]


@entry("uniform", "normal", "exponential")
def _(draw):
    return [Sample((_bits(draw, *s),), {"dtype": np.dtype(np.float64)}) for s in ((9,), (2, 3), (), (0,))]


@entry("bounded")
def _(draw):
    return [Sample((_bits(draw, 9), 0, 10)), Sample((_bits(draw, 2, 3), -3, 4))]


@entry("dropout_with")
def _(draw):
    return [Sample((draw.apart(3, 4), 7, 3, 0.4)), Sample((draw.apart(5), 7, 4, 0.0))]


def _fractions(draw: Draw, shape: tuple[int, ...], high: float = 1.0) -> np.ndarray:
    return np.asarray(draw.rng.random(shape) * high)


@entry("poisson_quantile")
def _(draw):
    return [Sample((_fractions(draw, s), _fractions(draw, s, 9))) for s in ((9,), (2, 3), (), (0,))]


@entry("binomial_quantile")
def _(draw):
    return [
        Sample((_fractions(draw, s), np.asarray(np.floor(_fractions(draw, s, 9))), _fractions(draw, s)))
        for s in ((9,), (2, 3), (), (0,))
    ]


@entry("checked")
def _(draw):
    tests = ("probability", "weights", "mass", "deviation")
    return [Sample((np.asarray(draw.rng.random((2, 3))),), {"test": t}) for t in tests]
