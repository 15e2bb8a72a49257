"""ContinuousBernoulli. Source: https://docs.pytorch.org/docs/stable/distributions.html#continuousbernoulli"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.discrete import ByProbabilities, one_of
from jtorch.distributions.exponential_family import ExponentialFamily
from jtorch.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs
from jtorch.eager.public import Tensor
from jtorch.nn.functional import binary_cross_entropy_with_logits


class ContinuousBernoulli(ByProbabilities, ExponentialFamily):
    """Bernoulli's likelihood for values in [0, 1], normalized: what a network's grey pixels follow.

    Between ``lims``, near probs = 1/2, where the formulas are 0 / 0, Taylor's series stands in. Source:
    Loaiza-Ganem and Cunningham 2019, "The continuous Bernoulli: fixing a pervasive error in variational
    autoencoders".

    >>> import jtorch
    >>> jtorch.distributions.ContinuousBernoulli(probs=jtorch.tensor(0.5)).mean
    tensor(0.5000)
    """

    _mean_carrier_measure = 0
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        one_of(probs, logits)
        self._given = "logits" if probs is None else "probs"
        (given,) = broadcast_all(logits if probs is None else probs)
        if probs is not None:
            if validate_args and not bool(self.arg_constraints["probs"].check(given).all()):
                raise ValueError("The parameter probs has invalid values")
            given = clamp_probs(given)
        setattr(self, self._given, given)
        self._lims = lims
        super().__init__(given.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _expand_rest(self, new: Any) -> None:
        super()._expand_rest(new)
        new._lims = self._lims

    def _stable(self) -> Tensor:
        """Where the formulas hold."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _safe_probs(self) -> Tensor:
        """``probs`` with another number where the formulas do not hold: no NaN may reach the gradients."""
        return jtorch.where(self._stable(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Tensor:
        """log of C(probs) = 2 artanh(1 - 2 probs) / (1 - 2 probs)."""
        p = self._safe_probs()
        above = (jtorch.log1p(-p) - p.log()).abs().log()
        low, high = jtorch.where(p <= 0.5, p, 0.0), jtorch.where(p >= 0.5, p, 1.0)
        below = jtorch.where(p <= 0.5, jtorch.log1p(-2.0 * low), (2.0 * high - 1.0).log())
        x = (self.probs - 0.5).pow(2)
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return jtorch.where(self._stable(), above - below, taylor)

    @property
    def mean(self) -> Tensor:
        p, x = self._safe_probs(), self.probs - 0.5
        found = p / (2.0 * p - 1.0) + 1.0 / (jtorch.log1p(-p) - p.log())
        taylor = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return jtorch.where(self._stable(), found, taylor)

    @property
    def variance(self) -> Tensor:
        p, x = self._safe_probs(), (self.probs - 0.5).pow(2)
        found = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (jtorch.log1p(-p) - p.log()).pow(2)
        taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return jtorch.where(self._stable(), found, taylor)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        return self.icdf(jtorch.rand(shape, dtype=self.probs.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        likelihood = -binary_cross_entropy_with_logits(logits, value, reduction="none")
        return likelihood + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._safe_probs()
        found = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        found = jtorch.where(self._stable(), found, value)
        return jtorch.where(value <= 0.0, 0.0, jtorch.where(value >= 1.0, 1.0, found))

    def icdf(self, value: Tensor) -> Tensor:
        p = self._safe_probs()
        no = jtorch.log1p(-p)
        found = (jtorch.log1p(-p + value * (2.0 * p - 1.0)) - no) / (p.log() - no)
        return jtorch.where(self._stable(), found, value)

    def entropy(self) -> Tensor:
        no, yes = jtorch.log1p(-self.probs), self.probs.log()
        return self.mean * (no - yes) - self._cont_bern_log_norm() - no

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        low, high = self._lims
        stable = (x <= low - 0.5) | (x > high - 0.5)
        safe = jtorch.where(stable, x, low - 0.5)
        taylor = x / 2 + x**2 / 24 - x**4 / 2880
        return jtorch.where(stable, (jtorch.expm1(safe) / safe).log(), taylor)
