"""Divergences of normal vectors of which one or both have covariances of low rank."""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions.kl import register_kl
from jtorch.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from jtorch.distributions.multivariate_normal import MultivariateNormal
from jtorch.eager.public import Tensor


def _squares(matrix: Tensor) -> Tensor:
    """The trace of ``matrix`` @ ``matrix``.T."""
    return matrix.pow(2).sum((-2, -1))


def _divergence(p: Any, log_ratio: Tensor, trace: Tensor, squared: Tensor) -> Tensor:
    return 0.5 * (log_ratio + trace + squared - p.event_shape[0])


def _check_events(p: Any, q: Any, names: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {names} Multivariate Normals with different event shapes cannot be "
            "computed"
        )


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_events(p, q, "Low Rank")
    part, shares = q._whitened_factor(), p.cov_diag / q.cov_diag
    trace = shares.sum(-1) + _squares(p.cov_factor * q.cov_diag.rsqrt().unsqueeze(-1))
    trace = trace - _squares(part * p.cov_diag.sqrt().unsqueeze(-2)) - _squares(part @ p.cov_factor)
    return _divergence(p, q._log_det() - p._log_det(), trace, q._squared_length(q.loc - p.loc))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_events(p, q, "(Low Rank)")
    whole = _squares(p.scale_tril * q.cov_diag.rsqrt().unsqueeze(-1))
    trace = whole - _squares(q._whitened_factor() @ p.scale_tril)
    return _divergence(p, q._log_det() - 2 * p._log_volume(), trace, q._squared_length(q.loc - p.loc))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_events(p, q, "(Low Rank)")
    columns = [p.cov_factor, p.cov_diag.sqrt().diag_embed(), (q.loc - p.loc).unsqueeze(-1)]
    batch = jtorch.broadcast_shapes(q.scale_tril.shape[:-2], *(c.shape[:-2] for c in columns))
    wide = jtorch.cat([c.expand((*batch, *c.shape[-2:])) for c in columns], -1)
    factor = q.scale_tril.expand((*batch, *q.scale_tril.shape[-2:]))
    white = jtorch.linalg.solve_triangular(factor, wide, upper=False)
    trace, squared = _squares(white[..., :-1]), _squares(white[..., -1:])
    return _divergence(p, 2 * q._log_volume() - p._log_det(), trace, squared)
