"""InverseGamma. Source: https://docs.pytorch.org/docs/stable/distributions.html#inversegamma"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.gamma import Gamma
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.transforms import PowerTransform
from jtorch.eager.public import Tensor


class InverseGamma(TransformedDistribution):
    """1 / x of a Gamma(concentration, rate).

    >>> import jtorch
    >>> jtorch.distributions.InverseGamma(3.0, 4.0).mean  # rate / (concentration - 1)
    tensor(2.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        exponent = jtorch.full((), -1.0, dtype=base.rate.dtype)
        super().__init__(base, PowerTransform(exponent), validate_args)

    @property
    def concentration(self) -> Tensor:
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return jtorch.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return jtorch.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + jtorch.lgamma(a) - (1 + a) * jtorch.digamma(a)
