"""Normal. Source: https://docs.pytorch.org/docs/stable/distributions.html#normal"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions.exponential_family import ExponentialFamily
from jtorch.distributions.location_scale import LocationScale
from jtorch.eager.public import Tensor


class Normal(LocationScale, ExponentialFamily):
    """The bell curve of mean ``loc`` and standard deviation ``scale``.

    >>> import jtorch
    >>> d = jtorch.distributions.Normal(jtorch.tensor(1.0), jtorch.tensor(2.0))
    >>> d.mean, d.variance, d.cdf(jtorch.tensor(1.0))
    (tensor(1.), tensor(4.), tensor(0.5000))
    """

    _mean_carrier_measure = 0

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = jtorch.randn(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -distance - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + jtorch.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * jtorch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale**2, -0.5 / self.scale**2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return -0.25 * x**2 / y + 0.5 * jtorch.log(-math.pi / y)
