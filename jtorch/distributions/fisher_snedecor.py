"""FisherSnedecor. Source: https://docs.pytorch.org/docs/stable/distributions.html#fishersnedecor"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.utils import broadcast_all, no_path, standard_gamma
from jtorch.eager.public import Tensor


class FisherSnedecor(Distribution):
    """Chi2(df1) / df1 over Chi2(df2) / df2. Samples have no gradient.

    >>> import jtorch
    >>> jtorch.distributions.FisherSnedecor(3.0, 4.0).mean  # df2 / (df2 - 2)
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012
    support = constraints.positive

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

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with jtorch.no_grad():
            shape, tiny = self._extended_shape(sample_shape), jtorch.finfo(self.df1.dtype).tiny
            above = standard_gamma(self.df1 / 2, shape) / self.df1
            below = (standard_gamma(self.df2 / 2, shape) / self.df2).clamp(min=tiny)
            return (above / below).clamp(min=tiny)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        raise no_path(type(self).__name__)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        log_beta = jtorch.lgamma(a) + jtorch.lgamma(b) - jtorch.lgamma(a + b)
        return a * ratio.log() + (a - 1) * value.log() - (a + b) * jtorch.log1p(ratio * value) - log_beta
