"""Gamma and Chi2. Source: https://docs.pytorch.org/docs/stable/distributions.html#gamma"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.exponential_family import ExponentialFamily
from jtorch.distributions.gamma_path import log_gamma
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor


class Gamma(ExponentialFamily):
    """Waiting times for ``concentration`` events at ``rate`` events per unit.

    >>> import jtorch
    >>> d = jtorch.distributions.Gamma(concentration=3.0, rate=2.0)
    >>> d.mean, d.variance
    (tensor(1.5000), tensor(0.7500))
    """

    _mean_carrier_measure = 0
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        logs = log_gamma(self.concentration, self._extended_shape(sample_shape))
        drawn = logs.exp().to(self.concentration.dtype) / self.rate
        return drawn.clamp(min=jtorch.finfo(drawn.dtype).tiny)

    def log_prob(self, value: Any) -> Tensor:
        value = jtorch.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return jtorch.xlogy(a, rate) + jtorch.xlogy(a - 1, value) - rate * value - jtorch.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return jtorch.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - jtorch.log(self.rate) + jtorch.lgamma(a) + (1.0 - a) * jtorch.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return jtorch.lgamma(x + 1) - (x + 1) * jtorch.log(-y)


class Chi2(Gamma):
    """The sum of ``df`` squares of standard normal variables.

    >>> import jtorch
    >>> jtorch.distributions.Chi2(3.0).mean, jtorch.distributions.Chi2(3.0).variance
    (tensor(3.), tensor(6.))
    """

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        half = 0.5 * df
        super().__init__(half, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2

    def expand(self, batch_shape: Any, _instance: Any = None) -> Chi2:
        return type(self)(self.df.expand(batch_shape), self._validate_args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
