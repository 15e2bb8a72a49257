"""What distributions over draws of a Categorical share: its parameters, in rows that are one event each."""

from __future__ import annotations

from typing import Any

from jtorch.distributions import constraints
from jtorch.distributions.categorical import Categorical
from jtorch.distributions.distribution import Distribution
from jtorch.eager.public import Size, Tensor


class OverCategorical(Distribution):
    """Keeps a Categorical, from ``probs`` or ``logits``."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012

    def __init__(self, probs: Tensor | None, logits: Tensor | None, validate_args: bool | None) -> None:
        self._categorical = Categorical(probs, logits)
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

    def _expanded(self, new: Any, batch_shape: Any) -> Any:
        """``new``, filled in with what this one has, for another shape of batches."""
        new._categorical = self._categorical.expand(batch_shape)
        new._validate_args = self._validate_args
        new._batch_shape, new._event_shape = Size(batch_shape), self._event_shape
        return new
