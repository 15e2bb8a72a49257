"""MultivariateNormal. Source: https://docs.pytorch.org/docs/stable/distributions.html#multivariatenormal"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.utils import lazy_property
from jtorch.eager.public import Size, Tensor


class MultivariateNormal(Distribution):
    """Normal vectors around ``loc``, by one of a covariance, its inverse, or its Cholesky factor.

    >>> import jtorch
    >>> from jtorch.distributions import MultivariateNormal
    >>> d = MultivariateNormal(jtorch.zeros(2), jtorch.tensor([[4.0, 0.0], [0.0, 9.0]]))
    >>> d.scale_tril, d.variance
    (tensor([[2., 0.],
            [0., 3.]]), tensor([4., 9.]))
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = one_matrix(ValueError, covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = _broadcast(matrix.shape[:-2], loc.shape[:-1])
        n = loc.shape[-1]
        setattr(self, name, matrix.expand((*batch, n, n)))
        self.loc = loc.expand((*batch, n))
        super().__init__(batch, (n,), validate_args)
        self._factor = cholesky_of(name, matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._factor.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return jtorch.linalg.inv(self.covariance_matrix)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale_tril.pow(2).sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = jtorch.randn(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _log_volume(self) -> Tensor:
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc).unsqueeze(-1)
        factor = self.scale_tril.expand((*distance.shape[:-2], *self.scale_tril.shape[-2:]))
        white = jtorch.linalg.solve_triangular(factor, distance, upper=False).squeeze(-1)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + white.pow(2).sum(-1)) - self._log_volume()

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        return 0.5 * n * (1.0 + math.log(2 * math.pi)) + self._log_volume()

    def expand(self, batch_shape: Any, _instance: Any = None) -> MultivariateNormal:
        shape = Size(batch_shape)
        n = self._event_shape[0]
        loc, factor = self.loc.expand((*shape, n)), self.scale_tril.expand((*shape, n, n))
        new = type(self)(loc, scale_tril=factor, validate_args=False)
        new._validate_args = self._validate_args
        return new


def _broadcast(*shapes: Any) -> Size:
    return jtorch.broadcast_tensors(*(jtorch.zeros(tuple(s)) for s in shapes))[0].shape


def one_matrix(error: type[Exception], *given: Tensor | None) -> tuple[str, Tensor]:
    """(name, matrix) of the one that is given, of those three. Raises ``error`` unless there is one."""
    named = zip(("covariance_matrix", "precision_matrix", "scale_tril"), given, strict=True)
    matrices = {name: matrix for name, matrix in named if matrix is not None}
    if len(matrices) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return next(iter(matrices.items()))


def cholesky_of(name: str, matrix: Tensor) -> Tensor:
    """The Cholesky factor of the covariance."""
    if name == "scale_tril":
        return matrix
    return jtorch.linalg.cholesky(matrix if name == "covariance_matrix" else jtorch.linalg.inv(matrix))
