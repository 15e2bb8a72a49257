"""LogisticNormal. Source: https://docs.pytorch.org/docs/stable/distributions.html#logisticnormal"""

from __future__ import annotations

from typing import Any

from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.normal import Normal
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.transforms import StickBreakingTransform
from jtorch.eager.public import Tensor


class LogisticNormal(TransformedDistribution):
    """n + 1 shares that ``StickBreakingTransform`` makes of n normal variables.

    >>> import jtorch
    >>> d = jtorch.distributions.LogisticNormal(jtorch.zeros(3), jtorch.ones(3))
    >>> jtorch.allclose(d.sample((2,)).sum(-1), jtorch.ones(2)), d.event_shape
    (True, torch.Size([4]))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base: Distribution = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.base_dist.scale
