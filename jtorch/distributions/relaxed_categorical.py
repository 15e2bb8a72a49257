"""RelaxedOneHotCategorical. Source: https://docs.pytorch.org/docs/stable/distributions.html#relaxedonehotcategorical"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.categorical import Categorical
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.transforms import ExpTransform
from jtorch.distributions.utils import broadcast_all, clamp_probs
from jtorch.eager.public import Size, Tensor


class ExpRelaxedCategorical(Distribution):
    """The logarithms of a RelaxedOneHotCategorical.

    Source: Maddison et al. 2017, "The Concrete Distribution", appendix C.3.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = jtorch.as_tensor(temperature, dtype=self._categorical._parameter.dtype)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        return self._categorical.param_shape

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = clamp_probs(jtorch.rand(tuple(self._extended_shape(sample_shape)), dtype=self.logits.dtype))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        score = logits - value * self.temperature
        score = (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1)
        return score + math.lgamma(n) + (n - 1) * self.temperature.log()

    def expand(self, batch_shape: Any, _instance: Any = None) -> ExpRelaxedCategorical:
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        new.temperature, new._categorical = self.temperature, self._categorical.expand(batch_shape)
        new._validate_args = self._validate_args
        new._batch_shape, new._event_shape = Size(batch_shape), self._event_shape
        return new


class RelaxedOneHotCategorical(TransformedDistribution):
    """Shares that get to one-hot rows as ``temperature`` gets to 0: Gumbel-softmax."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    support = constraints.simplex

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
