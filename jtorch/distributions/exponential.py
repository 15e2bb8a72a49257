"""Exponential. Source: https://docs.pytorch.org/docs/stable/distributions.html#exponential"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.exponential_family import ExponentialFamily
from jtorch.distributions.utils import broadcast_all, uniform
from jtorch.eager.public import Tensor


class Exponential(ExponentialFamily):
    """Waiting times at ``rate`` events per unit.

    >>> import jtorch
    >>> d = jtorch.distributions.Exponential(rate=4.0)
    >>> d.mean, d.cdf(jtorch.tensor(0.0))
    (tensor(0.2500), tensor(0.))
    """

    _mean_carrier_measure = 0
    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return jtorch.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -uniform(self._extended_shape(sample_shape), self.rate).log() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - jtorch.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -jtorch.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - jtorch.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return -jtorch.log(-x)
