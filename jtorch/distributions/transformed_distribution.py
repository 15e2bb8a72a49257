"""TransformedDistribution. Source: https://docs.pytorch.org/docs/stable/distributions.html#transformeddistribution"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.independent import Independent
from jtorch.distributions.transforms import ComposeTransform, Transform
from jtorch.distributions.utils import sum_rightmost
from jtorch.eager.public import Size, Tensor


class TransformedDistribution(Distribution):
    """What ``transforms``, one or a list, make of the values of ``base_distribution``.

    >>> import jtorch
    >>> from jtorch import distributions as D
    >>> d = D.TransformedDistribution(D.Normal(jtorch.zeros(2), 1.0), [D.TanhTransform(cache_size=1)])
    >>> action = d.rsample()
    >>> d.log_prob(action).shape
    torch.Size([2])
    """

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = _as_list(transforms)
        chain = ComposeTransform(self.transforms)
        domain, codomain = chain.domain.event_dim, chain.codomain.event_dim
        shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        own = len(base_distribution.event_shape)
        if len(shape) < domain:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {domain}, but got {shape}."
            )
        forward = Size(chain.forward_shape(shape))
        needed = Size(chain.inverse_shape(forward))
        if needed != shape:
            base_distribution = base_distribution.expand(needed[: len(needed) - own])
        if domain > own:
            base_distribution = Independent(base_distribution, domain - own)
        self.base_dist: Any = base_distribution
        cut = len(forward) - max(codomain, own + codomain - domain)
        super().__init__(forward[:cut], forward[cut:], validate_args)

    @property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        extra = len(self._event_shape) - found.event_dim
        return constraints.independent(found, extra) if extra > 0 else found

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with jtorch.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """The base's density where the value came from, less the logarithm of how much it was stretched."""
        if self._validate_args:
            self._validate_sample(value)
        event_dim, y, stretch = len(self._event_shape), value, None
        for transform in reversed(self.transforms):
            x, inner = transform.inv(y), transform.domain.event_dim
            event_dim += inner - transform.codomain.event_dim
            term = sum_rightmost(transform.log_abs_det_jacobian(x, y), event_dim - inner)
            stretch = -term if stretch is None else stretch - term
            y = x
        base = sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))
        return base if stretch is None else stretch + base

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self.base_dist._validate_args:
            self.base_dist._validate_sample(value)
        return self._rising(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._rising(value)))

    def _rising(self, value: Tensor) -> Tensor:
        """``value``, or 1 - ``value`` where the transforms fall."""
        sign = ComposeTransform(self.transforms).sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def _made_by(self) -> type:
        """The class of jtorch whose ``__init__`` and ``expand`` belong together."""
        return next(c for c in type(self).__mro__ if c.__module__.startswith("jtorch."))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch_shape = Size(batch_shape)
        shape = Size((*batch_shape, *self._event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new = super().expand(batch_shape, self._get_checked_instance(self._made_by(), _instance))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return new


def _as_list(transforms: Any) -> list[Transform]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(t, Transform) for t in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return transforms
