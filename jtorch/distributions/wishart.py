"""Wishart. Source: https://docs.pytorch.org/docs/stable/distributions.html#wishart"""

from __future__ import annotations

import math
import warnings
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.exponential_family import ExponentialFamily
from jtorch.distributions.gamma_path import log_gamma
from jtorch.distributions.multivariate_normal import cholesky_of, one_matrix
from jtorch.distributions.utils import lazy_property
from jtorch.eager.public import Tensor


class Wishart(ExponentialFamily):
    """Sums of ``df`` squares x x^T of normal vectors x; a matrix is given as for MultivariateNormal.

    Raises AssertionError unless one matrix is given, as PyTorch does, ValueError
    for ``df`` of at most n - 1; warns where it is below n.

    >>> import jtorch
    >>> d = jtorch.distributions.Wishart(df=jtorch.tensor(3.0), covariance_matrix=jtorch.eye(2))
    >>> d.mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    _mean_carrier_measure = 0
    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_matrix(AssertionError, covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions"
            )
        degrees = jtorch.as_tensor(df, dtype=matrix.dtype)
        batch = jtorch.broadcast_shapes(matrix.shape[:-2], degrees.shape)
        self.df, event = degrees.expand(tuple(batch)), matrix.shape[-2:]
        _check_degrees(df, self.df, event[-1])
        setattr(self, name, matrix.expand((*batch, *event)))
        super().__init__(batch, event, validate_args)
        self._factor = cholesky_of(name, matrix)

    def _expand_rest(self, new: Any) -> None:
        new._factor = self._factor

    @property
    def arg_constraints(self) -> dict[str, Any]:  # type: ignore[override]
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._factor.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return jtorch.linalg.inv(self.covariance_matrix)

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        factor = jtorch.where(factor <= 0, math.nan, factor)
        return factor[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (v.pow(2) + products)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Bartlett's decomposition: normal variables below a diagonal of roots of Chi2 variables."""
        shape, n = self._extended_shape(sample_shape), self._event_shape[-1]
        degrees = self.df.unsqueeze(-1) - jtorch.arange(n, dtype=self.df.dtype)
        roots = (0.5 * log_gamma(degrees / 2, shape[:-1])).exp() * math.sqrt(2.0)
        roots = roots.to(self.df.dtype).clamp(min=jtorch.finfo(self.df.dtype).eps)
        noise = jtorch.randn(tuple(shape), dtype=self.df.dtype).tril(-1)
        factor = self.scale_tril @ (noise + roots.diag_embed())
        return factor @ factor.mT

    def _log_volume(self) -> Tensor:
        """Half the log of the determinant of twice the covariance."""
        n = self._event_shape[-1]
        return 0.5 * n * math.log(2) + self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df, n = self.df, self._event_shape[-1]
        wide = jtorch.broadcast_shapes(value.shape, self.scale_tril.shape)
        white = jtorch.cholesky_solve(value.expand(wide), self.scale_tril.expand(wide))
        trace = white.diagonal(dim1=-2, dim2=-1).sum(-1)
        density = (df - n - 1) / 2 * jtorch.linalg.slogdet(value).logabsdet - trace / 2
        return density - df * self._log_volume() - jtorch.mvlgamma(df / 2, n)

    def entropy(self) -> Tensor:
        df, n = self.df, self._event_shape[-1]
        halves = (df.unsqueeze(-1) - jtorch.arange(n, dtype=df.dtype)) / 2
        spread = (df - n - 1) / 2 * jtorch.digamma(halves).sum(-1)
        return (n + 1) * self._log_volume() + jtorch.mvlgamma(df / 2, n) - spread + df * n / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        volume = n * math.log(2) - jtorch.linalg.slogdet(-2 * x).logabsdet
        return half * volume + jtorch.mvlgamma(half, n)


def _check_degrees(given: Any, df: Tensor, n: int) -> None:
    if bool((df <= n - 1).any()):
        raise ValueError(f"Value of df={given} expected to be greater than ndim - 1 = {n - 1}.")
    if bool((df < n).any()):
        warnings.warn(
            "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
            stacklevel=3,
        )
