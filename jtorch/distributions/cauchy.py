"""Cauchy. Source: https://docs.pytorch.org/docs/stable/distributions.html#cauchy"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions.location_scale import LocationScale
from jtorch.distributions.utils import uniform
from jtorch.eager.public import Tensor


class Cauchy(LocationScale):
    """The ratio of two normal variables, scaled and moved: without mean and variance.

    >>> import jtorch
    >>> jtorch.distributions.Cauchy(1.0, 2.0).cdf(jtorch.tensor([-1.0, 1.0, 3.0]))  # the quartiles
    tensor([0.2500, 0.5000, 0.7500])
    """

    @property
    def mean(self) -> Tensor:
        return jtorch.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return jtorch.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        turn = uniform(self._extended_shape(sample_shape), self.loc) - 0.5
        return self.loc + self.scale * jtorch.tan(math.pi * turn)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (distance**2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return jtorch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return jtorch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
