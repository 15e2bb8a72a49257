"""Transforms whose elements depend on one another: onto simplices and triangular matrices."""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.transforms.elementwise import within_unit_interval
from jtorch.distributions.transforms.transform import Plain, Transform
from jtorch.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from jtorch.eager.public import Size, Tensor
from jtorch.nn.functional import logsigmoid, pad, softplus


class SoftmaxTransform(Plain):
    """y = softmax(x) of the last dim; the way back is log(y), one of many.

    >>> import jtorch
    >>> jtorch.distributions.SoftmaxTransform()(jtorch.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return jtorch.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _of_at_least(1, shape)

    inverse_shape = forward_shape


class StickBreakingTransform(Plain):
    """n numbers to n + 1 shares: each number breaks its part off the rest of a stick.

    x = 0 gives equal shares.

    >>> import jtorch
    >>> shares = jtorch.distributions.StickBreakingTransform()(jtorch.zeros(2))
    >>> shares.shape, shares.sum()
    (torch.Size([3]), tensor(1.))
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        z = within_unit_interval(jtorch.sigmoid(x - _log_of_places(x)))
        rest = (1 - z).cumprod(-1)
        return pad(z, (0, 1), value=1.0) * pad(rest, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        rest = (1 - shares.cumsum(-1)).clamp(min=jtorch.finfo(y.dtype).tiny)
        return shares.log() - rest.log() + _log_of_places(shares)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - _log_of_places(x)
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        shape = _of_at_least(1, shape)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        shape = _of_at_least(1, shape)
        return Size((*shape[:-1], shape[-1] - 1))


def _log_of_places(x: Tensor) -> Tensor:
    """log(n), log(n - 1), ..., log(1): how many shares come after each."""
    n = x.shape[-1]
    return jtorch.arange(n, 0, -1, dtype=x.dtype).log()


class LowerCholeskyTransform(Plain):
    """Square matrices to lower triangles with a positive diagonal: what is above it is dropped.

    >>> import jtorch
    >>> jtorch.distributions.LowerCholeskyTransform()(jtorch.tensor([[0.0, 5.0], [3.0, 0.0]]))
    tensor([[1., 0.],
            [3., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Plain):
    """Square matrices to positive definite ones, by way of their Cholesky factors.

    >>> import jtorch
    >>> jtorch.distributions.PositiveDefiniteTransform()(jtorch.tensor([[0.0, 5.0], [3.0, 0.0]]))
    tensor([[ 1.,  3.],
            [ 3., 10.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(jtorch.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the Cholesky factor of an n by n matrix of correlations.

    Each row is a stick of length 1 in squares, of which ``tanh`` of each number breaks its part, with a sign.

    >>> import jtorch
    >>> jtorch.distributions.CorrCholeskyTransform()(jtorch.zeros(3))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])

    Source: Stan's reference manual, "Cholesky factors of correlation matrices".
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = jtorch.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        rest = (1 - r * r).sqrt().cumprod(-1)
        r = r + jtorch.eye(r.shape[-1], dtype=r.dtype)
        return r * pad(rest[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        rest = pad((1 - (y * y).cumsum(-1))[..., :-1], (1, 0), value=1.0)
        r = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(rest, diag=-1).sqrt()
        return (jtorch.log1p(r) - jtorch.log1p(-r)) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # a row's last element and what follows it leave no rest, and the first has all: two diagonals less
        rest = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        of_tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * rest.log().sum(-1) + of_tanh

    def forward_shape(self, shape: Any) -> Any:
        shape = _of_at_least(1, shape)
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Any:
        shape = _of_at_least(2, shape)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return Size((*shape[:-2], n * (n - 1) // 2))


def _of_at_least(dims: int, shape: Any) -> Any:
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")
    return shape
