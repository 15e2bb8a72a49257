"""Geometric. Source: https://docs.pytorch.org/docs/stable/distributions.html#geometric"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.discrete import ByProbabilities, one_of
from jtorch.distributions.utils import broadcast_all, clamp_probs, uniform
from jtorch.eager.public import Tensor
from jtorch.nn.functional import binary_cross_entropy_with_logits


class Geometric(ByProbabilities):
    """How many trials fail before the first success, which has probability ``probs``.

    >>> import jtorch
    >>> d = jtorch.distributions.Geometric(probs=0.25)
    >>> d.mean, d.log_prob(jtorch.tensor(0.0)).exp()
    (tensor(3.), tensor(0.2500))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_of(probs, logits)
        self._given = "logits" if probs is None else "probs"
        (given,) = broadcast_all(logits if probs is None else probs)
        setattr(self, self._given, given)
        super().__init__(given.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            invalid = given[~(given > 0)]
            raise ValueError(
                f"Expected parameter probs ({type(given).__name__} of shape {tuple(given.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n{invalid}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return jtorch.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with jtorch.no_grad():
            u = uniform(self._extended_shape(sample_shape), self.probs)
            return (u.log() / jtorch.log1p(-clamp_probs(self.probs))).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        certain = (probs == 1) & (value == 0)  # 0 * log(0) is 0 here
        probs = jtorch.where(certain, jtorch.zeros_like(probs), probs)
        return value * jtorch.log1p(-probs) + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
