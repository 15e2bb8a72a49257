"""How far, and how alike: distances and angles between vectors.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#distance-functions
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core.number_ranges import check_parameters
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.norms import vector_norm
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The ``p``-norm of x1 - x2 + eps over the last dim."""
    difference = x1 - x2 + eps
    return vector_norm(difference, p, -1, keepdim)


@autocasts(cuda="float32")
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between x1 and x2 along ``dim``, their lengths at least ``eps``.

    Raises RuntimeError for integers.
    """
    if not (x1.is_floating_point() or x2.is_floating_point()):
        raise RuntimeError("expected common dtype to be floating point, yet common dtype is Long")
    if not eps >= 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    check_parameters(x1, eps)
    axis = ax.one(dim, max(x1.ndim, x2.ndim))
    lacking = max(x1.ndim, x2.ndim)
    if not lacking:  # two numbers are vectors of one element
        return APPLY["cosine"](x1.reshape(1), x2.reshape(1), axis=(0,), eps=float(eps))
    x1, x2 = _with_dims(x1, lacking), _with_dims(x2, lacking)
    if x1.shape != x2.shape:  # lengths are those of the broadcast vectors
        shape = tuple(max(n, m) if n and m else 0 for n, m in zip(x1.shape, x2.shape, strict=True))
        x1, x2 = x1.expand(*shape), x2.expand(*shape)
    return APPLY["cosine"](x1, x2, axis=(axis,), eps=float(eps))


def _with_dims(x: Any, ndim: int) -> Any:
    return x.reshape((1,) * (ndim - x.ndim) + tuple(x.shape)) if x.ndim < ndim else x


FUNCTIONS: dict[str, Callable] = {
    "pairwise_distance": pairwise_distance, "cosine_similarity": cosine_similarity,
}  # fmt: skip
METHODS: dict[str, Callable] = {}
