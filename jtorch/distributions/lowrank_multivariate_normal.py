"""LowRankMultivariateNormal. Source: https://docs.pytorch.org/docs/stable/distributions.html#lowrankmultivariatenormal"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.utils import lazy_property
from jtorch.eager.public import Size, Tensor


class LowRankMultivariateNormal(Distribution):
    """Normal vectors around ``loc`` of covariance cov_factor @ cov_factor.T + diag(cov_diag).

    With n by m factors densities cost n m^2 operations instead of n^3, by the lemmas of Woodbury and of the
    determinant: both go by the m by m matrix I + W^T D^-1 W, the capacitance.

    >>> import jtorch
    >>> from jtorch.distributions import LowRankMultivariateNormal
    >>> d = LowRankMultivariateNormal(jtorch.zeros(2), jtorch.tensor([[1.0], [0.0]]), jtorch.ones(2))
    >>> d.covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        event = _checked_event(loc, cov_factor, cov_diag)
        try:
            batch = jtorch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag "
                f"{cov_diag.shape}"
            ) from error
        self.loc = loc.expand((*batch, *event))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *event))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch, event, validate_args)

    def _expand_rest(self, new: Any) -> None:
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        return self.cov_factor.pow(2).sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self) -> Tensor:
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        white = self._unbroadcasted_cov_factor / root
        inner = white @ white.mT + jtorch.eye(self._event_shape[0], dtype=white.dtype)
        return self._wide(root * jtorch.linalg.cholesky(inner))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        d = self._unbroadcasted_cov_diag
        part = self._whitened_factor()
        return self._wide(d.reciprocal().diag_embed() - part.mT @ part)

    def _wide(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    def _whitened_factor(self) -> Tensor:
        """L^-1 W^T D^-1 of the capacitance L L^T."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        batch = jtorch.broadcast_shapes(scaled.shape[:-2], self._capacitance_tril.shape[:-2])
        factor = self._capacitance_tril.expand((*batch, *self._capacitance_tril.shape[-2:]))
        scaled = scaled.expand((*batch, *scaled.shape[-2:]))
        return jtorch.linalg.solve_triangular(factor, scaled, upper=False)

    def _log_det(self) -> Tensor:
        inner = self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 2 * inner + self._unbroadcasted_cov_diag.log().sum(-1)

    def _squared_length(self, x: Tensor) -> Tensor:
        """x^T covariance^-1 x of each row."""
        part = (self._whitened_factor() @ x.unsqueeze(-1)).squeeze(-1)
        return (x.pow(2) / self._unbroadcasted_cov_diag).sum(-1) - part.pow(2).sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, dtype = self._extended_shape(sample_shape), self.loc.dtype
        common = jtorch.randn((*shape[:-1], self.cov_factor.shape[-1], 1), dtype=dtype)
        own = jtorch.randn(tuple(shape), dtype=dtype) * self._unbroadcasted_cov_diag.sqrt()
        return self.loc + (self._unbroadcasted_cov_factor @ common).squeeze(-1) + own

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        squared = self._squared_length(value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + squared)

    def entropy(self) -> Tensor:
        found = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return found.expand(tuple(self._batch_shape))


def _checked_event(loc: Tensor, cov_factor: Tensor, cov_diag: Tensor) -> Size:
    if loc.dim() < 1:
        raise ValueError("loc must be at least one-dimensional.")
    event = loc.shape[-1:]
    if cov_factor.dim() < 2:
        raise ValueError(
            "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
        )
    if tuple(cov_factor.shape[-2:-1]) != tuple(event):
        raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
    if tuple(cov_diag.shape[-1:]) != tuple(event):
        raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
    return event


def _capacitance_tril(factor: Tensor, diagonal: Tensor) -> Tensor:
    inner = (factor.mT / diagonal.unsqueeze(-2)) @ factor
    return jtorch.linalg.cholesky(inner + jtorch.eye(factor.shape[-1], dtype=factor.dtype))
