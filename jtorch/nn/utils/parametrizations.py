"""Ready-made parametrizations: weight normalisation, orthogonal weights, spectral normalisation.

Source: https://docs.pytorch.org/docs/stable/nn.html#utility-functions
"""

from __future__ import annotations

from typing import Any

from jtorch import linalg
from jtorch.eager.public import Tensor, eye, functions, no_grad, ones, randn, zeros, zeros_like
from jtorch.nn import functional as F
from jtorch.nn.module import Module
from jtorch.nn.utils.parametrize import register_parametrization


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms over all dims but ``dim`` (over all for -1), which keep their places with length 1."""
    if pow != 2:
        raise NotImplementedError("norm_except_dim(pow=...): only 2")
    if dim == -1:
        return (v * v).sum().sqrt()
    others = tuple(k for k in range(v.ndim) if k != dim % v.ndim)
    return (v * v).sum(others, keepdim=True).sqrt() if others else v.abs()


class _WeightNorm(Module):
    """weight = g v / |v|"""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the length (``original0``) and the direction (``original1``) of each slice along ``dim`` apart.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.parametrizations.weight_norm(jtorch.nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape  # a length for each of the 2 outputs
    torch.Size([2, 1])

    Source: Salimans and Kingma 2016, https://arxiv.org/abs/1602.07868
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def from_old_names(owner: Any, state_dict: Any, prefix: str, *_: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for k, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{k}"] = state_dict.pop(key)

    module.register_load_state_dict_pre_hook(from_old_names)
    return module


class _SpectralNorm(Module):
    """The weight over its largest singular value, found by power iteration."""

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if dim >= weight.ndim or dim < -weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but "
                f"got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix: Any = self._matrix(weight)
                rows, columns = matrix.shape
                u, v = randn(rows, dtype=matrix.dtype), randn(columns, dtype=matrix.dtype)
                self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
                self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
                self._iterate(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        if self.dim:
            others = (k for k in range(weight.ndim) if k != self.dim)
            weight = weight.permute(self.dim, *others)
        return weight.reshape(weight.shape[0], -1)

    def _iterate(self, matrix: Any, times: int) -> None:
        with no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(matrix.detach() @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.detach().t() @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the iteration goes on, the gradient needs these
        return weight / (u * (matrix @ v)).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value. Source: Miyato et al. 2018, arXiv:1802.05957

    >>> import jtorch
    >>> layer = jtorch.nn.utils.parametrizations.spectral_norm(jtorch.nn.Linear(3, 2), n_power_iterations=50)
    >>> abs(jtorch.linalg.matrix_norm(layer.weight, 2).item() - 1) < 1e-3
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        transposed = type(module).__name__.startswith("ConvTranspose")
        dim = 1 if transposed else 0
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


class _Orthogonal(Module):
    """Q of a matrix exponential or Cayley map of a skew-symmetric matrix, times a fixed base."""

    def __init__(self, weight: Any, map_name: str, use_base: bool) -> None:
        super().__init__()
        self.map_name = map_name
        if use_base:
            rows, columns = weight.shape[-2:]
            side = max(rows, columns)
            self.register_buffer("base", eye(side, dtype=weight.dtype))

    def forward(self, x: Any) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        tall = x.mT if wide else x
        n, k = tall.shape[-2:]
        lower = tall.tril(-1)
        if n != k:
            filling = zeros(*tall.shape[:-2], n, n - k, dtype=x.dtype)
            lower = functions.cat([lower, filling], dim=-1)
        skew = lower - lower.mT
        if self.map_name == "matrix_exp":
            q = linalg.matrix_exp(skew)
        else:
            identity = eye(n, dtype=x.dtype)
            q = linalg.solve(identity + skew * -0.5, identity + skew * 0.5)
        if hasattr(self, "base"):
            q = self.base @ q
        q = q[..., :k]
        return q.mT if wide else q

    def right_inverse(self, q: Any) -> Tensor:
        """Zeros, with the base chosen so that they map to an orthogonal matrix near ``q``."""
        if not hasattr(self, "base"):
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        tall = q.mT if q.shape[-2] < q.shape[-1] else q
        full, _ = linalg.qr(tall, mode="complete")
        k = tall.shape[-1]
        diagonal = ((full[..., :k] * tall).sum(-2) < 0).to(q.dtype) * -2 + 1
        unchanged = ones(*diagonal.shape[:-1], full.shape[-1] - k, dtype=q.dtype)
        self.base.copy_(full * functions.cat([diagonal, unchanged], dim=-1).unsqueeze(-2))
        return zeros_like(q)


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix orthogonal: a square one, or one with orthonormal rows or columns.

    ``orthogonal_map`` is "matrix_exp" or "cayley"; "householder" raises NotImplementedError, and where
    none is given wide or tall matrices take "matrix_exp", too.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.parametrizations.orthogonal(jtorch.nn.Linear(3, 3))
    >>> jtorch.allclose(layer.weight @ layer.weight.T, jtorch.eye(3), atol=1e-5)
    True

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrizations.orthogonal.html
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    chosen = orthogonal_map or "matrix_exp"
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    if chosen == "householder":
        raise NotImplementedError('orthogonal(orthogonal_map="householder"): use "matrix_exp" or "cayley"')
    if weight.ndim > 2:
        raise NotImplementedError("orthogonal() of batches of matrices")
    made = _Orthogonal(weight, chosen, use_trivialization)
    register_parametrization(module, name, made, unsafe=True)
    return module
