"""Weibull. Source: https://docs.pytorch.org/docs/stable/distributions.html#weibull"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.exponential import Exponential
from jtorch.distributions.gumbel import EULER
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.transforms import AffineTransform, PowerTransform
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor


class Weibull(TransformedDistribution):
    """Times to a failure that gets likelier with age where ``concentration`` is above 1.

    >>> import jtorch
    >>> jtorch.distributions.Weibull(2.0, 1.0).mean  # for a concentration of 1 it is exponential
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(jtorch.ones_like(self.scale), validate_args)
        chain = [PowerTransform(self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, chain, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * jtorch.lgamma(1 + self.concentration_reciprocal).exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        r = self.concentration_reciprocal
        squares = jtorch.lgamma(1 + 2 * r).exp() - (2 * jtorch.lgamma(1 + r)).exp()
        return self.scale.pow(2) * squares

    def entropy(self) -> Tensor:
        r = self.concentration_reciprocal
        return EULER * (1 - r) + (self.scale * r).log() + 1

    def expand(self, batch_shape: Any, _instance: Any = None) -> Weibull:
        new = super().expand(batch_shape, _instance)
        new.concentration_reciprocal = self.concentration_reciprocal.expand(new.batch_shape)
        return new
