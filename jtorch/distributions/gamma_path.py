"""Draws of gamma variables with the gradient by their shape, which all that is made of them goes through.

A draw x has a share P(a, x) of all draws below it. With another ``a`` the same share lies below another x:
how that x moves with ``a`` is its derivative (implicit reparametrization). Logarithms are drawn: draws of
small shapes are 0 in any float, and their shares alike then.
Source: Figurnov, Mohamed and Mnih 2018, "Implicit Reparameterization Gradients"
"""

from __future__ import annotations

from typing import Any

import numpy as np

import jtorch
from jtorch.autograd import Function
from jtorch.autograd.function import once_differentiable
from jtorch.distributions.utils import log_standard_gamma
from jtorch.eager.public import Tensor


def log_gamma(concentration: Tensor, shape: Any) -> Tensor:
    """Logarithms of draws from Gamma(concentration, 1), in float64, with a gradient of ``concentration``."""
    wide = concentration.double().expand(tuple(shape))
    return _Path.apply(wide, log_standard_gamma(concentration, shape))


class _Path(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor, logs: Tensor) -> Tensor:
        ctx.save_for_backward(concentration, logs)
        return logs.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, logs = (t.detach().numpy() for t in ctx.saved_tensors)
        return grad * jtorch.from_numpy(slope(a, logs)), None


def slope(a: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """d log x / d a where P(a, x) stays, both in float64."""
    a, logs = np.broadcast_arrays(a, logs)
    near = logs < np.log(2.0)
    found = np.empty(a.shape)
    found[near] = _by_series(a[near], logs[near])
    found[~near] = _by_differences(a[~near], np.exp(logs[~near]))
    return found


def _by_series(a: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Where x is small: P(a, x) = x^a e^-x S / Gamma(a + 1) with S the sum of x^n / ((a + 1) ... (a + n))."""
    from scipy import special

    x, term, by_a = np.exp(logs), np.ones_like(a), np.zeros_like(a)
    total, derivative = np.ones_like(a), np.zeros_like(a)
    for n in range(1, 40):  # x <= 2: the last term is below 2^39 / 39!
        term = term * x / (a + n)
        by_a = by_a - 1.0 / (a + n)
        total, derivative = total + term, derivative + term * by_a
    return -(total * (logs - special.digamma(a + 1.0)) + derivative) / a


def _by_differences(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Elsewhere: differences of the inverse of P, or of 1 - P where that is the smaller one."""
    from scipy import special

    below, above = special.gammainc(a, x), special.gammaincc(a, x)
    step = 1e-3 * a

    def log_x(k: int) -> np.ndarray:
        shape = a + k * step
        lower, upper = special.gammaincinv(shape, below), special.gammainccinv(shape, above)
        return np.log(np.where(below < 0.5, lower, upper))

    return (log_x(-2) - 8.0 * log_x(-1) + 8.0 * log_x(1) - log_x(2)) / (12.0 * step)
