"""Laplace. Source: https://docs.pytorch.org/docs/stable/distributions.html#laplace"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions.location_scale import LocationScale
from jtorch.distributions.utils import uniform
from jtorch.eager.public import Tensor


class Laplace(LocationScale):
    """Exponential to both sides of ``loc``.

    >>> import jtorch
    >>> d = jtorch.distributions.Laplace(1.0, 2.0)
    >>> d.mean, d.variance, d.cdf(jtorch.tensor(1.0))
    (tensor(1.), tensor(8.), tensor(0.5000))
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = 2 * uniform(self._extended_shape(sample_shape), self.loc) - 1
        return self.loc - self.scale * u.sign() * jtorch.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -jtorch.log(2 * self.scale) - jtorch.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * jtorch.expm1(-distance.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * jtorch.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        return 1 + jtorch.log(2 * self.scale)
