"""``kl_divergence`` and the table of what it can compute.

Source: https://docs.pytorch.org/docs/stable/distributions.html#module-torch.distributions.kl
"""

from __future__ import annotations

from collections.abc import Callable

import jtorch
from jtorch.distributions.bernoulli import Bernoulli
from jtorch.distributions.binomial import Binomial
from jtorch.distributions.categorical import Categorical
from jtorch.distributions.cauchy import Cauchy
from jtorch.distributions.dirichlet import Beta, Dirichlet
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.exponential import Exponential
from jtorch.distributions.exponential_family import ExponentialFamily, bregman_divergence
from jtorch.distributions.gamma import Gamma
from jtorch.distributions.geometric import Geometric
from jtorch.distributions.half import HalfNormal
from jtorch.distributions.independent import Independent
from jtorch.distributions.laplace import Laplace
from jtorch.distributions.log_normal import LogNormal
from jtorch.distributions.multivariate_normal import MultivariateNormal
from jtorch.distributions.normal import Normal
from jtorch.distributions.one_hot_categorical import OneHotCategorical
from jtorch.distributions.pareto import Pareto
from jtorch.distributions.poisson import Poisson
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.uniform import Uniform
from jtorch.distributions.utils import sum_rightmost
from jtorch.eager.public import Tensor

_TABLE: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """Decorate ``function(p, q)`` as the divergence of such pairs and of their subclasses.

    >>> import jtorch
    >>> class Point(jtorch.distributions.Normal):
    ...     pass
    >>> @jtorch.distributions.register_kl(Point, Point)
    ... def distance(p, q):
    ...     return (p.loc - q.loc).abs()
    >>> jtorch.distributions.kl_divergence(Point(0.0, 1.0), Point(3.0, 1.0))
    tensor(3.)
    """
    for given, name in ((type_p, "type_p"), (type_q, "type_q")):
        if not (isinstance(given, type) and issubclass(given, Distribution)):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {given}")

    def register(function: Callable) -> Callable:
        _TABLE[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), of the batch's shape. Raises NotImplementedError for pairs that nobody registered.

    >>> from jtorch.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(2.0, 1.0))  # half the squared distance
    tensor(2.)
    """
    found = [
        (type(p).__mro__.index(left) + type(q).__mro__.index(right), function)
        for (left, right), function in _TABLE.items()
        if isinstance(p, left) and isinstance(q, right)
    ]
    if not found:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type "
            f"{q.__class__.__name__}"
        )
    return min(found, key=lambda pair: pair[0])[1](p, q)


register_kl(ExponentialFamily, ExponentialFamily)(bregman_divergence)


@register_kl(Normal, Normal)
def _(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _(p: LogNormal, q: LogNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _(p: Bernoulli, q: Bernoulli) -> Tensor:
    softplus = jtorch.nn.functional.softplus
    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    yes = jtorch.where(q.probs == 0, jtorch.full_like(yes, float("inf")), yes)
    yes = jtorch.where(p.probs == 0, jtorch.zeros_like(yes), yes)
    no = jtorch.where(q.probs == 1, jtorch.full_like(no, float("inf")), no)
    no = jtorch.where(p.probs == 1, jtorch.zeros_like(no), no)
    return yes + no


@register_kl(Categorical, Categorical)
def _(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = jtorch.where(q.probs == 0, jtorch.full_like(terms, float("inf")), terms)
    terms = jtorch.where((p.probs == 0).expand_as(terms), jtorch.zeros_like(terms), terms)
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Uniform, Uniform)
def _(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    outside = (q.low > p.low) | (q.high < p.high)
    return jtorch.where(outside, jtorch.full_like(result, float("inf")), result)


@register_kl(Exponential, Exponential)
def _(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Laplace, Laplace)
def _(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Geometric, Geometric)
def _(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - jtorch.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Cauchy, Cauchy)
def _(p: Cauchy, q: Cauchy) -> Tensor:
    far = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return far - (4 * p.scale * q.scale).log()


@register_kl(Gamma, Gamma)
def _(p: Gamma, q: Gamma) -> Tensor:
    shapes = (p.concentration - q.concentration) * jtorch.digamma(p.concentration)
    logs = jtorch.lgamma(q.concentration) - jtorch.lgamma(p.concentration)
    rates = q.concentration * (p.rate / q.rate).log() + (q.rate - p.rate) * (p.concentration / p.rate)
    return rates + logs + shapes


@register_kl(Dirichlet, Dirichlet)
def _(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    logs = jtorch.lgamma(total) - jtorch.lgamma(b.sum(-1)) - (jtorch.lgamma(a) - jtorch.lgamma(b)).sum(-1)
    return logs + ((a - b) * (jtorch.digamma(a) - jtorch.digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _(p: Beta, q: Beta) -> Tensor:
    return kl_divergence(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _(p: Binomial, q: Binomial) -> Tensor:
    softplus = jtorch.nn.functional.softplus
    odds = p.probs * (p.logits - q.logits) + softplus(q.logits) - softplus(p.logits)
    result = p.total_count * odds
    return jtorch.where(p.total_count > q.total_count, jtorch.full_like(result, float("inf")), result)


@register_kl(MultivariateNormal, MultivariateNormal)
def _(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    factor, distance = jtorch.broadcast_tensors(q.scale_tril, p.scale_tril)[0], (q.loc - p.loc).unsqueeze(-1)
    white = jtorch.linalg.solve_triangular(factor, distance, upper=False).squeeze(-1)
    spread = jtorch.linalg.solve_triangular(factor, p.scale_tril.expand(factor.shape), upper=False)
    squares = spread.pow(2).sum((-2, -1)) + white.pow(2).sum(-1)
    return q._log_volume() - p._log_volume() + 0.5 * (squares - p.event_shape[0])


@register_kl(HalfNormal, HalfNormal)
def _(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return jtorch.where(p.scale < q.scale, jtorch.full_like(found, float("inf")), found)


@register_kl(Independent, Independent)
def _(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)
