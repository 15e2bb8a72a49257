"""Transforms that change each element by itself."""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.core.number_ranges import is_number
from jtorch.distributions import constraints
from jtorch.distributions.transforms.transform import Plain, Transform
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Size, Tensor
from jtorch.nn.functional import softplus


class ExpTransform(Plain):
    """y = exp(x)

    >>> import jtorch
    >>> t = jtorch.distributions.ExpTransform()
    >>> t(jtorch.tensor(0.0)), t.inv(jtorch.tensor(1.0))
    (tensor(1.), tensor(0.))
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x^exponent

    >>> import jtorch
    >>> jtorch.distributions.PowerTransform(jtorch.tensor(2.0))(jtorch.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def _again(self, cache_size: int) -> Transform:
        return PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = None  # type: ignore[assignment]

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return jtorch.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class SigmoidTransform(Plain):
    """y = 1 / (1 + exp(-x)), kept off 0 and 1

    >>> import jtorch
    >>> t = jtorch.distributions.SigmoidTransform()
    >>> t(jtorch.tensor(0.0)), t.inv(jtorch.tensor(0.5))
    (tensor(0.5000), tensor(0.))
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return within_unit_interval(jtorch.sigmoid(x))

    def _inverse(self, y: Tensor) -> Tensor:
        y = within_unit_interval(y)
        return y.log() - jtorch.log1p(-y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


def within_unit_interval(y: Tensor) -> Tensor:
    limits = jtorch.finfo(y.dtype)
    return y.clamp(min=limits.tiny, max=1.0 - limits.eps)


class SoftplusTransform(Plain):
    """y = log(1 + exp(x))

    >>> import jtorch
    >>> jtorch.distributions.SoftplusTransform()(jtorch.tensor([0.0, 20.0]))  # log(2) at 0
    tensor([ 0.6931, 20.0000])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-jtorch.expm1(-y)).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Plain):
    """y = tanh(x). Its inverse is infinite where y is rounded to 1: ``cache_size=1`` keeps the x instead.

    >>> import jtorch
    >>> jtorch.distributions.TanhTransform()(jtorch.tensor([0.0, 50.0]))
    tensor([0., 1.])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return jtorch.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))  # log(1 - y^2), exact for large x, too


class AbsTransform(Plain):
    """y = |x|; the way back gives the positive x.

    >>> import jtorch
    >>> t = jtorch.distributions.AbsTransform()
    >>> t(jtorch.tensor([-1.0, 2.0])), t.inv(jtorch.tensor(1.0))
    (tensor([1., 2.]), tensor(1.))
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x, by numbers or tensors; ``event_dim`` rightmost dims are one event.

    >>> import jtorch
    >>> jtorch.distributions.AffineTransform(loc=1.0, scale=2.0)(jtorch.tensor([0.0, 3.0]))
    tensor([1., 7.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale = loc, scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> constraints.Constraint:  # type: ignore[override]
        return (
            constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real
        )

    codomain = domain  # type: ignore[assignment]

    def _again(self, cache_size: int) -> Transform:
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    __hash__ = None  # type: ignore[assignment]

    @property
    def sign(self) -> Any:
        if is_number(self.scale):
            return int(self.scale > 0) - int(self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if is_number(self.scale):
            stretch = jtorch.full_like(x, abs(self.scale)).log()
        else:
            stretch = self.scale.abs().log()
        shape = tuple(x.shape)
        if self.event_dim:
            stretch = stretch.reshape((*stretch.shape[: -self.event_dim], -1)).sum(-1)
            shape = shape[: -self.event_dim]
        return stretch.expand(shape)

    def forward_shape(self, shape: Any) -> Any:
        given = [v.shape for v in (self.loc, self.scale) if isinstance(v, Tensor)]
        return Size(jtorch.broadcast_shapes(shape, *given))

    inverse_shape = forward_shape


def _equal(a: Any, b: Any) -> bool:
    if is_number(a) and is_number(b):
        return bool(a == b)
    return bool((a == b).all())


class CumulativeDistributionTransform(Transform):
    """y = distribution.cdf(x): what follows ``distribution`` becomes uniform.

    >>> import jtorch
    >>> from jtorch.distributions import CumulativeDistributionTransform, Uniform
    >>> CumulativeDistributionTransform(Uniform(0.0, 4.0))(jtorch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2500])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def _again(self, cache_size: int) -> Transform:
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
