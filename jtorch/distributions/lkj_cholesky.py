"""LKJCholesky. Source: https://docs.pytorch.org/docs/stable/distributions.html#lkjcholesky"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.dirichlet import Beta
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.utils import broadcast_all
from jtorch.eager.public import Tensor


class LKJCholesky(Distribution):
    """Cholesky factors of ``dim`` by ``dim`` matrices of correlations.

    The matrices have a density of det^(concentration - 1): all are alike at 1, and a larger ``concentration``
    gives smaller correlations. Drawn by the onion method of
    Lewandowski, Kurowicka and Joe 2009, "Generating random correlation matrices based on vines and extended
    onion method".

    >>> import jtorch
    >>> factor = jtorch.distributions.LKJCholesky(3, concentration=0.5).sample()
    >>> jtorch.allclose((factor @ factor.T).diagonal(), jtorch.ones(3))
    True
    """

    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def _expand_rest(self, new: Any) -> None:
        new.dim = self.dim

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Each row is a random direction among the columns before it, of a random length."""
        with jtorch.no_grad():
            n, a = self.dim, self.concentration
            # row k, behind k columns, takes Beta(k / 2, a + (n - 1 - k) / 2); of row 0 nothing is used
            row = jtorch.tensor([1, *range(1, n)], dtype=a.dtype)
            squares = Beta(row / 2, (a + 0.5 * (n - 1)).unsqueeze(-1) - row / 2).sample(sample_shape)
            noise = jtorch.randn(tuple(self._extended_shape(sample_shape)), dtype=a.dtype).tril(-1)
            length = jtorch.linalg.norm(noise, dim=-1, keepdim=True)
            direction = noise / jtorch.where(length == 0, 1.0, length)  # the first row has none
            w = squares.unsqueeze(-1).sqrt() * direction
            rest = (1 - w.square().sum(-1)).clamp(min=jtorch.finfo(w.dtype).tiny)
            return w + rest.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, a = self.dim, self.concentration
        row = jtorch.arange(2, n + 1, dtype=a.dtype)
        power = 2 * (a - 1).unsqueeze(-1) + n - row
        found = (power * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        alpha = a + 0.5 * (n - 1)  # the normalizer is on page 1999 of the paper
        volume = jtorch.mvlgamma(alpha - 0.5, n - 1) - (n - 1) * jtorch.lgamma(alpha)
        return found - (0.5 * (n - 1) * math.log(math.pi) + volume)
