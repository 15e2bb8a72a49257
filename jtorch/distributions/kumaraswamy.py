"""Kumaraswamy. Source: https://docs.pytorch.org/docs/stable/distributions.html#kumaraswamy"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.gumbel import EULER
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.transforms import AffineTransform, PowerTransform
from jtorch.distributions.uniform import Uniform
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor


class Kumaraswamy(TransformedDistribution):
    """A share in (0, 1), much like Beta's, of which samples have a gradient.

    >>> import jtorch
    >>> jtorch.distributions.Kumaraswamy(1.0, 1.0).mean  # uniform on (0, 1)
    tensor(0.5000)
    """

    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros, ones = jtorch.zeros_like(self.concentration0), jtorch.ones_like(self.concentration0)
        chain = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(zeros, ones, validate_args), chain, validate_args)

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * jtorch.log1p(-b) - jtorch.log1p(-b * a)
        return jtorch.where((b < 1) | (a < 1), math.nan, log_mode).exp()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def _moment(self, n: int) -> Tensor:
        above, b = 1 + n / self.concentration1, self.concentration0
        return b * (jtorch.lgamma(above) + jtorch.lgamma(b) - jtorch.lgamma(above + b)).exp()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = jtorch.digamma(b + 1) + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
