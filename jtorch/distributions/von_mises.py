"""VonMises. Source: https://docs.pytorch.org/docs/stable/distributions.html#vonmises"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.utils import broadcast_all, standard_von_mises
from jtorch.eager.public import Tensor


class VonMises(Distribution):
    """Angles in radians around ``loc``, the bell curve of the circle. Samples have no gradient.

    Bessel's functions are exact to rounding; PyTorch's polynomials for them are to 2e-7.

    >>> import jtorch
    >>> d = jtorch.distributions.VonMises(jtorch.tensor(1.0), jtorch.tensor(4.0))
    >>> d.mean, bool(d.sample((100,)).abs().max() <= jtorch.pi)
    (tensor(1.), True)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The middle direction."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """That of the circle: 1 less the length of the mean of the directions."""
        return 1 - jtorch.special.i1e(self.concentration) / jtorch.special.i0e(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with jtorch.no_grad():
            angle = standard_von_mises(self.concentration, self._extended_shape(sample_shape))
            turned = (angle + self.loc.double() + math.pi) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        log_bessel = jtorch.special.i0e(k).log() + k
        return k * jtorch.cos(value - self.loc) - math.log(2 * math.pi) - log_bessel
