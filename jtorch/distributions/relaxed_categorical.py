"""RelaxedOneHotCategorical. Source: https://docs.pytorch.org/docs/stable/distributions.html#relaxedonehotcategorical"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.over_categorical import OverCategorical
from jtorch.distributions.relaxed import Relaxed
from jtorch.distributions.transforms import ExpTransform
from jtorch.distributions.utils import broadcast_all, clamp_probs
from jtorch.eager.public import Tensor


class ExpRelaxedCategorical(OverCategorical):
    """The logarithms of a RelaxedOneHotCategorical.

    Source: Maddison et al. 2017, "The Concrete Distribution", appendix C.3.
    """

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)
        self.temperature = jtorch.as_tensor(temperature, dtype=self._categorical._parameter.dtype)

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
        new.temperature = self.temperature
        return self._expanded(new, batch_shape)


class RelaxedOneHotCategorical(Relaxed):
    """Shares that get to one-hot rows as ``temperature`` gets to 0: Gumbel-softmax.

    >>> import jtorch
    >>> from jtorch.distributions import RelaxedOneHotCategorical
    >>> d = RelaxedOneHotCategorical(jtorch.tensor(0.5), probs=jtorch.tensor([0.1, 0.9]))
    >>> jtorch.allclose(d.rsample().sum(), jtorch.tensor(1.0))
    True
    """

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
