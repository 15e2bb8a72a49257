"""ExponentialFamily. Source: https://docs.pytorch.org/docs/stable/distributions.html#exponentialfamily"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions.distribution import Distribution
from jtorch.eager.public import Tensor


class ExponentialFamily(Distribution):
    """Distributions of density exp(<t(x), theta> - F(theta) + k(x)), in natural parameters theta.

    A subclass that gives these, F and the mean of k has an entropy, and divergences between two of it:
    Bregman divergences of F, whose gradient is the mean of t.
    Source: Nielsen and Nock 2010, Entropies and cross-entropies of exponential families

    >>> import jtorch
    >>> class Waiting(jtorch.distributions.ExponentialFamily):
    ...     _mean_carrier_measure = 0
    ...     def __init__(self, rate):
    ...         self.rate = rate
    ...         super().__init__(rate.shape, validate_args=False)
    ...     @property
    ...     def _natural_params(self):
    ...         return (-self.rate,)
    ...     def _log_normalizer(self, x):
    ...         return -(-x).log()
    >>> Waiting(jtorch.tensor(1.0)).entropy()
    tensor(1., grad_fn=<SubBackward0>)
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """Tensors of the batch's shape, or with dims of the event behind it."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """F, of the batch's shape."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of k(x)."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F(theta) - <grad F(theta), theta> - the mean of k. Raises NotImplementedError where one of them is
        not known."""
        carrier = self._mean_carrier_measure
        theta, normalizer, means = _with_means(self)
        found = normalizer - carrier
        for parameter, mean in zip(theta, means, strict=True):
            found = found - (parameter * mean).reshape(*self.batch_shape, -1).sum(-1)
        return found


def _with_means(p: ExponentialFamily) -> tuple[list[Tensor], Tensor, tuple[Any, ...]]:
    """(natural parameters as leaves, F of them, its gradients)"""
    theta = [parameter.detach().requires_grad_() for parameter in p._natural_params]
    with jtorch.enable_grad():
        normalizer = p._log_normalizer(*theta)
        return theta, normalizer, jtorch.autograd.grad(normalizer.sum(), theta, create_graph=True)


def bregman_divergence(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """KL(p || q) of two of one class. Raises NotImplementedError for others."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    theta, normalizer, means = _with_means(p)
    found = q._log_normalizer(*q._natural_params) - normalizer
    for own, other, mean in zip(theta, q._natural_params, means, strict=True):
        term = (other - own) * mean
        found = found - term.reshape(*term.shape[: found.ndim], -1).sum(-1)  # F has the batch's dims alone
    return found
