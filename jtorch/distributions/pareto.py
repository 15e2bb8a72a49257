"""Pareto and GeneralizedPareto. Source: https://docs.pytorch.org/docs/stable/distributions.html#pareto"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.exponential import Exponential
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.transforms import AffineTransform, ExpTransform
from jtorch.distributions.utils import broadcast_all, uniform
from jtorch.eager.public import Tensor


class Pareto(TransformedDistribution):
    """Values above ``scale`` whose density falls as x^-(alpha + 1).

    >>> import jtorch
    >>> d = jtorch.distributions.Pareto(1.0, 2.0)
    >>> d.mean, d.cdf(jtorch.tensor(2.0))  # 1 - (1 / 2)^2
    (tensor(2.), tensor(0.7500))
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args)

    @property
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Distribution):
    """What lies above a high ``loc`` of any density: a tail whose heaviness is ``concentration``.

    It ends at loc - scale / concentration where that is negative, and is exponential where it is 0.

    >>> import jtorch
    >>> jtorch.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean  # scale / (1 - concentration)
    tensor(2.)
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        end = jtorch.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)

    @property
    def mean(self) -> Tensor:
        finite = self.concentration < 1
        safe = jtorch.where(finite, self.concentration, 0.5)
        return jtorch.where(finite, self.loc + self.scale / (1 - safe), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.concentration < 0.5
        safe = jtorch.where(finite, self.concentration, 0.25)
        return jtorch.where(finite, self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe)), math.nan)

    def _exponential(self) -> tuple[Tensor, Tensor]:
        """(where the tail is exponential, the concentration with 1 there)."""
        zero = jtorch.isclose(self.concentration, jtorch.zeros_like(self.concentration))
        return zero, jtorch.where(zero, jtorch.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._exponential()
        power = 1 / c + jtorch.ones_like(z)
        found = jtorch.where(power == 0, power, power * jtorch.log1p(c * z))
        return -self.scale.log() - jtorch.where(zero, z, found)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log(1 - cdf)"""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._exponential()
        return jtorch.where(zero, -z, -jtorch.log1p(c * z) / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        return jtorch.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        zero, c = self._exponential()
        log_u = jtorch.log1p(-value)
        found = self.loc + self.scale / c * jtorch.expm1(-c * log_u)
        return jtorch.where(zero, self.loc - self.scale * log_u, found)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
