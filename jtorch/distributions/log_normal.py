"""LogNormal. Source: https://docs.pytorch.org/docs/stable/distributions.html#lognormal"""

from __future__ import annotations

from typing import Any

from jtorch.distributions import constraints
from jtorch.distributions.normal import Normal
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.transforms import ExpTransform
from jtorch.eager.public import Tensor


class LogNormal(TransformedDistribution):
    """``exp`` of a Normal(loc, scale).

    >>> import jtorch
    >>> d = jtorch.distributions.LogNormal(0.0, 1.0)
    >>> d.cdf(jtorch.tensor(1.0)), d.mean  # exp(0.5)
    (tensor(0.5000), tensor(1.6487))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

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

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
