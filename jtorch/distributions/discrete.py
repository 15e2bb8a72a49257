"""What distributions over ``probs`` or ``logits`` share: either is given, the other computed when asked."""

from __future__ import annotations

from typing import Any

from jtorch.distributions.distribution import Distribution
from jtorch.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
from jtorch.eager.public import Tensor


def one_of(probs: Any, logits: Any) -> None:
    """Raise ValueError unless exactly one is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class ByProbabilities(Distribution):
    """Keeps ``probs`` or ``logits``, whichever was given. ``_binary`` says what logits mean."""

    _binary = True
    _given: str  # "probs" or "logits"

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, self._binary)

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        """Keep the one that is given: (it, ``others``), broadcast."""
        one_of(probs, logits)
        self._given = "logits" if probs is None else "probs"
        found = broadcast_all(logits if probs is None else probs, *others)
        setattr(self, self._given, found[0])
        return tuple(found)

    @property
    def _parameter(self) -> Tensor:
        """The one that was given."""
        return getattr(self, self._given)

    @property
    def param_shape(self) -> Any:
        return self._parameter.size()

    def _expand_rest(self, new: Any) -> None:
        new._given = self._given
