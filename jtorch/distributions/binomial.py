"""Binomial. Source: https://docs.pytorch.org/docs/stable/distributions.html#binomial"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.discrete import ByProbabilities
from jtorch.eager.public import Tensor


class Binomial(ByProbabilities):
    """How many of ``total_count`` trials succeed, each with probability ``probs``.

    >>> import jtorch
    >>> d = jtorch.distributions.Binomial(total_count=2, probs=jtorch.tensor(0.5))
    >>> d.log_prob(jtorch.tensor([0.0, 1.0, 2.0])).exp()
    tensor([0.2500, 0.5000, 0.2500])
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
        "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given, count = self._take(probs, logits, total_count)
        self.total_count = count.type_as(given)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with jtorch.no_grad():
            return jtorch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = jtorch.lgamma(n + 1) - jtorch.lgamma(value + 1) - jtorch.lgamma(n - value + 1)
        above = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2  # with half a gradient at 0
        softplus = above + jtorch.log1p(jtorch.exp(-logits.abs()))
        return ways + value * logits - n * softplus

    def entropy(self) -> Tensor:
        """Summed over the support, so all counts must be equal."""
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(jtorch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = jtorch.arange(1 + count, dtype=self._parameter.dtype)
        values = values.view((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
