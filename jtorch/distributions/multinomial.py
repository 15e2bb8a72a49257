"""Multinomial. Source: https://docs.pytorch.org/docs/stable/distributions.html#multinomial"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.binomial import Binomial
from jtorch.distributions.over_categorical import OverCategorical
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Size, Tensor


class Multinomial(OverCategorical):
    """How often each index comes in ``total_count`` draws of a Categorical.

    >>> import jtorch
    >>> d = jtorch.distributions.Multinomial(4, probs=jtorch.tensor([0.25, 0.75]))
    >>> d.mean, d.sample().sum()
    (tensor([1., 3.]), tensor(4.))
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @property
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with jtorch.no_grad():
            drawn = self._categorical.sample((self.total_count, *Size(sample_shape))).movedim(0, -1)
            counts = jtorch.zeros(tuple(self._extended_shape(sample_shape)), dtype=self.probs.dtype)
            return counts.scatter_add(-1, drawn, jtorch.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0.0)  # 0 * log(0) is 0 here
        ways = jtorch.lgamma(value.sum(-1) + 1) - jtorch.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        """Needs no sum over all counts: those of one index are binomial."""
        n = self.total_count
        one = Binomial(n, probs=self.probs)
        counts = one.enumerate_support(expand=False)[1:]
        repeats = (one.log_prob(counts).exp() * jtorch.lgamma(counts + 1)).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + repeats

    def expand(self, batch_shape: Any, _instance: Any = None) -> Multinomial:
        new = self._get_checked_instance(Multinomial, _instance)
        new.total_count = self.total_count
        return self._expanded(new, batch_shape)
