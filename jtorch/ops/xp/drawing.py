"""Draws that NumPy or SciPy must make, and the tests of what is drawn from."""

from __future__ import annotations

import numpy as np

from jtorch.core import philox as _philox

Array = np.ndarray


def exponential(bits: Array, *, dtype: np.dtype) -> Array:
    """Exponential floats of rate 1 from random bits."""
    return _philox.exponential(bits, dtype)


def poisson_quantile(u: Array, rate: Array) -> Array:
    """The smallest count whose distribution function at ``rate`` reaches ``u``."""
    from scipy import special

    if not np.all(rate >= 0):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    wide = rate.astype(np.float64, copy=False)
    count = np.where(wide > 0, np.ceil(special.pdtrik(u, wide)), 0.0)
    lower = np.maximum(count - 1, 0.0)  # the inverse is a float: one too many where it rounds up
    return np.where(special.pdtr(lower, wide) >= u, lower, np.nan_to_num(count)).astype(rate.dtype)


def binomial_quantile(u: Array, count: Array, prob: Array) -> Array:
    """The smallest number of successes whose distribution function reaches ``u``."""
    from scipy import special

    kind = count.dtype
    u, count, prob = np.broadcast_arrays(u, count.astype(np.float64), prob.astype(np.float64))
    if not np.all(count >= 0):
        raise RuntimeError("binomial expects all elements of count >= 0")
    if not np.all((prob >= 0) & (prob <= 1)):
        raise RuntimeError("binomial expects all elements of prob in [0, 1]")
    inner = (prob > 0) & (prob < 1) & (count > 0)
    safe_count, safe_prob = np.where(inner, count, 1.0), np.where(inner, prob, 0.5)
    found = np.clip(np.ceil(special.bdtrik(u, safe_count, safe_prob)), 0, safe_count)
    lower = np.maximum(found - 1, 0.0)
    found = np.where(special.bdtr(lower, safe_count.astype(np.int64), safe_prob) >= u, lower, found)
    return np.where(inner, found, np.where(prob == 1, count, 0.0)).astype(kind)


def checked(x: Array, *, test: str) -> Array:
    """``x`` in memory of its own, or PyTorch's error where its elements are not what ``test`` names."""
    if not _TESTS[test](x):
        raise RuntimeError(_SENTENCES[test])
    return np.array(x)


def _has_mass(x: Array) -> bool:
    return bool(np.all(x.sum(-1) > 0))


_TESTS = {
    "probability": lambda x: bool(np.all((x >= 0) & (x <= 1))),
    "weights": lambda x: bool(np.all((x >= 0) & np.isfinite(x))),
    "mass": _has_mass,
    "deviation": lambda x: bool(np.all(x >= 0)),
}
_SENTENCES = {
    "probability": "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be "
    "improved?  If so, please report an enhancement request to PyTorch.)",
    "weights": "probability tensor contains either `inf`, `nan` or element < 0",
    "mass": "invalid multinomial distribution (sum of probabilities <= 0)",
    "deviation": "normal expects all elements of std >= 0.0",
}
