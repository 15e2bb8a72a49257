"""RelaxedBernoulli. Source: https://docs.pytorch.org/docs/stable/distributions.html#relaxedbernoulli"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.discrete import ByProbabilities
from jtorch.distributions.relaxed import Relaxed
from jtorch.distributions.transforms import SigmoidTransform
from jtorch.distributions.utils import broadcast_all, clamp_probs
from jtorch.eager.public import Tensor


class LogitRelaxedBernoulli(ByProbabilities):
    """The log odds of a RelaxedBernoulli: logistic noise around ``logits``, over ``temperature``.

    Source: Maddison et al. 2017, "The Concrete Distribution".
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (given,) = self._take(probs, logits)
        self.temperature = jtorch.as_tensor(temperature, dtype=given.dtype)
        super().__init__(given.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        probs = clamp_probs(self.probs)
        u = clamp_probs(jtorch.rand(tuple(self._extended_shape(sample_shape)), dtype=probs.dtype))
        noise = u.log() - jtorch.log1p(-u)
        return (noise + probs.log() - jtorch.log1p(-probs)) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        distance = logits - value * self.temperature
        return self.temperature.log() + distance - 2 * jtorch.log1p(distance.exp())

    def _expand_rest(self, new: Any) -> None:
        super()._expand_rest(new)
        new.temperature = self.temperature


class RelaxedBernoulli(Relaxed):
    """Numbers in (0, 1) that get to 0 and 1 as ``temperature`` gets to 0. Samples have a gradient.

    >>> import jtorch
    >>> d = jtorch.distributions.RelaxedBernoulli(jtorch.tensor(0.5), probs=jtorch.tensor([0.1, 0.9]))
    >>> bool(((d.rsample() > 0) & (d.rsample() < 1)).all())
    True
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)
