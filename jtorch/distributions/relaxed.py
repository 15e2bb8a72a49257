"""What relaxed distributions share: a base over log odds, and a temperature."""

from __future__ import annotations

from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.eager.public import Tensor


class Relaxed(TransformedDistribution):
    """Tells the parameters of its base."""

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
