"""StudentT. Source: https://docs.pytorch.org/docs/stable/distributions.html#studentt"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.gamma_path import log_gamma
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor


class StudentT(Distribution):
    """A normal variable over the root of Chi2(``df``) / ``df``, scaled, moved.

    >>> import jtorch
    >>> d = jtorch.distributions.StudentT(4.0)
    >>> d.mean, d.variance  # df / (df - 2)
    (tensor(0.), tensor(2.))
    """

    arg_constraints = {  # noqa: RUF012
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return jtorch.where(self.df <= 1, jtorch.full_like(self.loc, math.nan), self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        safe = jtorch.where(finite, self.df, jtorch.full_like(self.df, 3.0))
        found = jtorch.where(finite, self.scale.pow(2) * safe / (safe - 2), math.inf)
        return jtorch.where(self.df <= 1, math.nan, found)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = jtorch.randn(tuple(shape), dtype=self.df.dtype)
        root = (-0.5 * log_gamma(self.df / 2, shape)).exp() * (self.df.double() / 2).sqrt()
        return self.loc + self.scale * x * root.to(self.df.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y, df = (value - self.loc) / self.scale, self.df
        log_z = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi)
        log_z = log_z + jtorch.lgamma(0.5 * df) - jtorch.lgamma(0.5 * (df + 1.0))
        return -0.5 * (df + 1.0) * jtorch.log1p(y**2.0 / df) - log_z

    def entropy(self) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = jtorch.lgamma(half) + math.lgamma(0.5) - jtorch.lgamma(more)
        spread = more * (jtorch.digamma(more) - jtorch.digamma(half))
        return self.scale.log() + spread + 0.5 * self.df.log() + log_beta
