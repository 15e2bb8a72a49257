"""LogNormal. Source: https://docs.pytorch.org/docs/stable/distributions.html#lognormal"""

from __future__ import annotations

from typing import Any

from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.normal import Normal
from jtorch.eager.public import Tensor


class LogNormal(Distribution):
    """``exp`` of a Normal(loc, scale)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.base_dist = Normal(loc, scale, validate_args)
        super().__init__(self.base_dist.batch_shape, validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.base_dist.log_prob(value.log()) - value.log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.base_dist.cdf(value.log())

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf(value).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc

    def expand(self, batch_shape: Any, _instance: Any = None) -> LogNormal:
        base = self.base_dist.expand(batch_shape)
        return type(self)(base.loc, base.scale, self._validate_args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
