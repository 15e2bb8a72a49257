"""Bernoulli. Source: https://docs.pytorch.org/docs/stable/distributions.html#bernoulli"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.discrete import ByProbabilities, one_of
from jtorch.distributions.exponential_family import ExponentialFamily
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor
from jtorch.nn.functional import binary_cross_entropy_with_logits


class Bernoulli(ByProbabilities, ExponentialFamily):
    """1 with probability ``probs``, else 0; ``logits`` are the log odds.

    >>> import jtorch
    >>> d = jtorch.distributions.Bernoulli(probs=0.25)
    >>> d.mean, d.variance, d.log_prob(jtorch.tensor(1.0)).exp()
    (tensor(0.2500), tensor(0.1875), tensor(0.2500))
    """

    _mean_carrier_measure = 0
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_of(probs, logits)
        self._given = "logits" if probs is None else "probs"
        (given,) = broadcast_all(logits if probs is None else probs)
        setattr(self, self._given, given)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return jtorch.where(self.probs == 0.5, jtorch.full_like(mode, float("nan")), mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with jtorch.no_grad():
            probs = self.probs
            u = jtorch.rand(tuple(self._extended_shape(sample_shape)), dtype=probs.dtype)
            return (u < probs).to(probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = jtorch.arange(2, dtype=self._parameter.dtype)
        values = values.view((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (jtorch.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return jtorch.log1p(x.exp())
