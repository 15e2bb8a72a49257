"""Dirichlet and Beta. Source: https://docs.pytorch.org/docs/stable/distributions.html#dirichlet"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.exponential_family import ExponentialFamily
from jtorch.distributions.gamma_path import log_gamma
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor


class Dirichlet(ExponentialFamily):
    """Shares that add up to 1: gamma variables over their sum.

    >>> import jtorch
    >>> jtorch.distributions.Dirichlet(jtorch.tensor([1.0, 1.0, 2.0])).mean
    tensor([0.2500, 0.2500, 0.5000])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}  # noqa: RUF012
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        flat = (self.concentration < 1).all(-1)
        corner = jtorch.nn.functional.one_hot(mode.argmax(-1), self.concentration.shape[-1]).to(mode.dtype)
        return jtorch.where(flat.unsqueeze(-1), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        logs = log_gamma(self.concentration, self._extended_shape(sample_shape))
        shares = jtorch.softmax(logs, -1).to(self.concentration.dtype)
        limits = jtorch.finfo(shares.dtype)
        return shares.clamp(min=limits.tiny, max=1.0 - limits.eps / 2)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return jtorch.xlogy(a - 1.0, value).sum(-1) + jtorch.lgamma(a.sum(-1)) - jtorch.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        spread = (k - total) * jtorch.digamma(total) + ((a - 1.0) * jtorch.digamma(a)).sum(-1)
        return jtorch.lgamma(a).sum(-1) - jtorch.lgamma(total) - spread

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """A share in (0, 1): the first of a Dirichlet variable of two.

    >>> import jtorch
    >>> jtorch.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = jtorch.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(jtorch.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Beta:
        wide = self._dirichlet.expand(batch_shape).concentration
        return type(self)(wide[..., 0], wide[..., 1], self._validate_args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
