"""Divergences between different families: by the entropy of one and the mean of the other's log density.

KL(p || q) = -H(p) - E_p[log q], and of log q only a few means under p are needed: of x, of its square, of
log x, of exp(-t x). So there is one function for each q, and a table for each mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jtorch
from jtorch.distributions.bernoulli import Bernoulli
from jtorch.distributions.binomial import Binomial
from jtorch.distributions.continuous_bernoulli import ContinuousBernoulli
from jtorch.distributions.dirichlet import Beta
from jtorch.distributions.exponential import Exponential
from jtorch.distributions.gamma import Gamma
from jtorch.distributions.gumbel import EULER, Gumbel
from jtorch.distributions.kl import register_kl
from jtorch.distributions.laplace import Laplace
from jtorch.distributions.normal import Normal
from jtorch.distributions.pareto import Pareto
from jtorch.distributions.poisson import Poisson
from jtorch.distributions.uniform import Uniform
from jtorch.eager.public import Tensor


def _mean_of_log_of_uniform(p: Uniform) -> Tensor:
    low, high = p.low.clamp(min=0), p.high.clamp(min=0)  # below 0 the divergences are infinite anyway
    return (jtorch.xlogy(high, high) - jtorch.xlogy(low, low)) / (p.high - p.low) - 1


_MEAN_OF_LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: jtorch.digamma(p.concentration1) - jtorch.digamma(p.concentration1 + p.concentration0),
    Exponential: lambda p: -EULER - p.rate.log(),
    Gamma: lambda p: jtorch.digamma(p.concentration) - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: _mean_of_log_of_uniform,
}
_MEAN_OF_EXP: dict[type, Callable[[Any, Tensor], Tensor]] = {  # E[exp(-t x)]
    Exponential: lambda p, t: p.rate / (p.rate + t),
    Gamma: lambda p, t: (1 + t / p.rate).pow(-p.concentration),
    Gumbel: lambda p, t: (jtorch.lgamma(1 + t * p.scale) - t * p.loc).exp(),
    Normal: lambda p, t: (0.5 * (t * p.scale).pow(2) - t * p.loc).exp(),
    Uniform: lambda p, t: ((-t * p.low).exp() - (-t * p.high).exp()) / (t * (p.high - p.low)),
}


def _of_its(table: dict[type, Callable], p: Any, *more: Any) -> Tensor:
    return next(f for kind, f in table.items() if isinstance(p, kind))(p, *more)


def _infinite_where(outside: Tensor, value: Tensor) -> Tensor:
    return jtorch.where(outside, math.inf, value)


def _below(p: Any, bound: Any) -> Any:
    """Where ``p``, if uniform, has values below ``bound``."""
    return (p.low < bound) if isinstance(p, Uniform) else jtorch.tensor(False)


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    found = q.rate * p.mean - q.rate.log() - p.entropy()
    return _infinite_where(_below(p, 0), found)


def _to_normal(p: Any, q: Normal) -> Tensor:
    spread = (p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return spread + q.scale.log() + 0.5 * math.log(2 * math.pi) - p.entropy()


def _to_gamma(p: Any, q: Gamma) -> Tensor:
    a = q.concentration
    found = jtorch.lgamma(a) - a * q.rate.log() - (a - 1) * _of_its(_MEAN_OF_LOG, p) + q.rate * p.mean
    return _infinite_where(_below(p, 0), found - p.entropy())


def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    t = q.scale.reciprocal()
    far = (t * q.loc).exp() * _of_its(_MEAN_OF_EXP, p, t)
    return q.scale.log() + (p.mean - q.loc) * t + far - p.entropy()


def _to_pareto(p: Any, q: Pareto) -> Tensor:
    found = (q.alpha + 1) * _of_its(_MEAN_OF_LOG, p) - q.alpha.log() - q.alpha * q.scale.log()
    return _infinite_where(_below(p, q.scale), found - p.entropy())


def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    found = -p.mean * q.logits - jtorch.log1p(-q.probs) - q._cont_bern_log_norm() - p.entropy()
    if isinstance(p, Uniform):
        return _infinite_where((p.low < 0) | (p.high > 1), found)
    return found


def _to_uniform(p: Any, q: Uniform) -> Tensor:
    return _infinite_where((q.low > 0) | (q.high < 1), (q.high - q.low).log() - p.entropy())


_FINITE: tuple[tuple[type, Callable, tuple[type, ...]], ...] = (
    (Exponential, _to_exponential, (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)),
    (Normal, _to_normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform)),
    (Gamma, _to_gamma, (Beta, Exponential, Pareto, Uniform)),
    (Gumbel, _to_gumbel, (Exponential, Gamma, Gumbel, Normal, Uniform)),
    (Pareto, _to_pareto, (Uniform,)),
    (ContinuousBernoulli, _to_continuous_bernoulli, (Beta, ContinuousBernoulli, Uniform)),
    (Uniform, _to_uniform, (Beta, ContinuousBernoulli)),
)
for _q, _function, _ps in _FINITE:
    for _p in _ps:
        register_kl(_p, _q)(_function)


@register_kl(Uniform, Beta)
def _(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    logs = (a - 1) * _mean_of_log_of_uniform(p) + (b - 1) * _mean_of_log_of_uniform(mirrored)
    log_beta = jtorch.lgamma(a) + jtorch.lgamma(b) - jtorch.lgamma(a + b)
    return _infinite_where((p.low < 0) | (p.high > 1), log_beta - logs - p.entropy())


@register_kl(Normal, Laplace)
def _(p: Normal, q: Laplace) -> Tensor:
    z = (p.loc - q.loc) / p.scale  # E|x - loc| is that of a folded normal variable
    folded = math.sqrt(2 / math.pi) * (-0.5 * z.pow(2)).exp() + z * jtorch.erf(math.sqrt(0.5) * z)
    return (2 * q.scale).log() + p.scale * folded / q.scale - p.entropy()


@register_kl(Bernoulli, Poisson)
def _(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


def _infinite(p: Any, q: Any) -> Tensor:
    """p has values where q has none."""
    return jtorch.full_like(p.mean, math.inf)


_HALF_LINE, _SHARES = (Exponential, Gamma), (Beta, ContinuousBernoulli)
_INFINITE: tuple[tuple[tuple[type, ...], tuple[type, ...]], ...] = (
    ((*_SHARES, Exponential, Gamma), (Pareto,)),
    ((Exponential, Gamma, Pareto), (*_SHARES, Uniform)),
    ((Gumbel, Laplace, Normal), (*_SHARES, *_HALF_LINE, Pareto, Uniform)),
    ((Poisson,), (Bernoulli, Binomial)),
)
for _ps, _qs in _INFINITE:
    for _p in _ps:
        for _q in _qs:
            register_kl(_p, _q)(_infinite)
