"""HalfNormal and HalfCauchy. Source: https://docs.pytorch.org/docs/stable/distributions.html#halfnormal"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.cauchy import Cauchy
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.normal import Normal
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.transforms import AbsTransform
from jtorch.eager.public import Tensor


class _Half(TransformedDistribution):
    """|x| of a density that is symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative

    def __init__(self, base: Distribution, validate_args: bool | None) -> None:
        super().__init__(base, AbsTransform(), validate_args)

    def _is_given(self, name: str) -> bool:
        return True  # the base does not check it: the error names this class

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return jtorch.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        found = self.base_dist.log_prob(value) + math.log(2)
        return jtorch.where(value >= 0, found, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """|x| of a Normal(0, scale).

    >>> import jtorch
    >>> jtorch.distributions.HalfNormal(1.0).cdf(jtorch.tensor([0.0, 1.0]))  # normal within 1 deviation
    tensor([0.0000, 0.6827])
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """|x| of a Cauchy(0, scale): a heavy tail, of infinite mean.

    >>> import jtorch
    >>> jtorch.distributions.HalfCauchy(2.0).cdf(jtorch.tensor(2.0))  # the median is ``scale``
    tensor(0.5000)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Tensor:
        return jtorch.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
