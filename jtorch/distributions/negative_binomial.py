"""NegativeBinomial. Source: https://docs.pytorch.org/docs/stable/distributions.html#negativebinomial"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.discrete import ByProbabilities
from jtorch.distributions.utils import standard_gamma
from jtorch.eager.public import Tensor
from jtorch.nn.functional import logsigmoid


class NegativeBinomial(ByProbabilities):
    """How many trials succeed, each with probability ``probs``, before ``total_count`` of them fail.

    >>> import jtorch
    >>> jtorch.distributions.NegativeBinomial(3.0, probs=jtorch.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given, count = self._take(probs, logits, total_count)
        self.total_count = count.type_as(given)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / jtorch.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with jtorch.no_grad():  # events at a rate that is itself drawn
            drawn = standard_gamma(self.total_count, self._extended_shape(sample_shape))
            return jtorch.poisson(drawn * self.logits.exp())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        odds = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        ways = jtorch.lgamma(n + value) - jtorch.lgamma(1.0 + value) - jtorch.lgamma(n)
        return odds + ways.masked_fill(n + value == 0.0, 0.0)
