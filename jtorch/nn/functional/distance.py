"""Distances, angles and unit vectors.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#distance-functions
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor, functions, vector_norm

cosine_similarity, pairwise_distance = functions.cosine_similarity, functions.pairwise_distance
pdist = functions.pdist


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Tensor:
    """``input`` over its ``p``-norm along ``dim`` (an int or several), at least ``eps``.

    >>> import jtorch
    >>> jtorch.nn.functional.normalize(jtorch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    if out is not None:
        raise NotImplementedError("normalize(out=...): assign the result instead")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return input / vector_norm(input, p, dims, True).clamp(min=eps)
