"""Poisson. Source: https://docs.pytorch.org/docs/stable/distributions.html#poisson"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.exponential_family import ExponentialFamily
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor


class Poisson(ExponentialFamily):
    """How many of ``rate`` expected events happen.

    >>> import jtorch
    >>> d = jtorch.distributions.Poisson(3.0)
    >>> d.mean, d.variance, d.log_prob(jtorch.tensor(0.0))
    (tensor(3.), tensor(3.), tensor(-3.))
    """

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with jtorch.no_grad():
            return jtorch.poisson(self.rate.expand(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return jtorch.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.exp()
