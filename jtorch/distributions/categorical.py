"""Categorical. Source: https://docs.pytorch.org/docs/stable/distributions.html#categorical"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.discrete import ByProbabilities, one_of
from jtorch.distributions.utils import uniform
from jtorch.eager.public import Size, Tensor


class Categorical(ByProbabilities):
    """An index into the last dim of ``probs`` (which need not add up to 1) or of ``logits``.

    >>> import jtorch
    >>> d = jtorch.distributions.Categorical(probs=jtorch.tensor([1.0, 2.0, 1.0]))
    >>> d.probs, d.log_prob(jtorch.tensor(1)).exp()
    (tensor([0.2500, 0.5000, 0.2500]), tensor(0.5000))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    has_enumerate_support = True
    _binary = False

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        one_of(probs, logits)
        given: Any = logits if probs is None else probs
        self._given = "logits" if probs is None else "probs"
        if given.dim() < 1:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(dim=-1, keepdim=True)
        super().__init__(given.size()[:-1], validate_args=validate_args)

    @property
    def _num_events(self) -> int:
        return self._parameter.size()[-1]

    @property
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return jtorch.full(tuple(self._extended_shape()), float("nan"), dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with jtorch.no_grad():  # the largest of log p + Gumbel noise is k with probability p[k]
            logits = self.logits.double() if self._given == "logits" else self.probs.double().log()
            u = uniform((*Size(sample_shape), *self.param_shape), logits)
            return (logits - (-u.log()).log()).argmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        place = value.long().unsqueeze(-1)
        shape = jtorch.broadcast_tensors(place, self.logits)[1].shape
        place = place.expand((*shape[:-1], 1))
        return self.logits.expand(shape).gather(-1, place).squeeze(-1)

    def entropy(self) -> Tensor:
        lowest = jtorch.finfo(self.logits.dtype).min if hasattr(jtorch, "finfo") else -3.4028234663852886e38
        return -(self.logits.clamp(min=lowest) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = jtorch.arange(self._num_events).view((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
