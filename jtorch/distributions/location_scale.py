"""What distributions on the reals with a place and a width share."""

from __future__ import annotations

from typing import Any

from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor


class LocationScale(Distribution):
    """A density moved to ``loc``, where it is highest, and widened by ``scale``; both are broadcast."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return self.loc
