"""Gumbel. Source: https://docs.pytorch.org/docs/stable/distributions.html#gumbel"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions.location_scale import LocationScale
from jtorch.distributions.utils import uniform
from jtorch.eager.public import Tensor

EULER = 0.57721566490153286060


class Gumbel(LocationScale):
    """The law of the largest of many.

    >>> import jtorch
    >>> d = jtorch.distributions.Gumbel(0.0, 1.0)
    >>> d.mean, d.mode  # Euler's constant; loc
    (tensor(0.5772), tensor(0.))
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform(self._extended_shape(sample_shape), self.loc)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return jtorch.exp(-jtorch.exp((self.loc - value) / self.scale))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)
