"""FisherSnedecor. Source: https://docs.pytorch.org/docs/stable/distributions.html#fishersnedecor"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.gamma_path import log_gamma
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor


class FisherSnedecor(Distribution):
    """Chi2(df1) / df1 over Chi2(df2) / df2.

    >>> import jtorch
    >>> jtorch.distributions.FisherSnedecor(3.0, 4.0).mean  # df2 / (df2 - 2)
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        df2 = jtorch.where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return jtorch.where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        df2 = jtorch.where(self.df2 <= 4, math.nan, self.df2)
        spread = 2 * df2.pow(2) * (self.df1 + df2 - 2)
        return spread / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, limits = self._extended_shape(sample_shape), jtorch.finfo(self.df1.dtype)
        logs = log_gamma(self.df1 / 2, shape) - log_gamma(self.df2 / 2, shape)
        ratio = (logs.exp() * (self.df2.double() / self.df1.double())).to(self.df1.dtype)
        return ratio.clamp(min=limits.tiny, max=limits.max)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        log_beta = jtorch.lgamma(a) + jtorch.lgamma(b) - jtorch.lgamma(a + b)
        return a * ratio.log() + (a - 1) * value.log() - (a + b) * jtorch.log1p(ratio * value) - log_beta
