"""Histograms of points in several dimensions: ``torch.histogramdd``.

Source: https://docs.pytorch.org/docs/stable/generated/torch.histogramdd.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core.return_types import ALL as RESULTS
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.counting import _edges, searchsorted
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor

_SHORT = {"Float": "float", "Double": "double", "Long": "long int", "Int": "int"}  # C's names


def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """(sums of weights of the points (..., n) in each box, the edges of the boxes along each of n dims).

    ``bins`` is how many there are along each dim, one number for all, or vectors of edges; ``range`` the
    limits (low, high, low, high, ...), by default those of the points. A point on the last edge is inside.

    >>> import jtorch
    >>> counts, edges = jtorch.histogramdd(jtorch.tensor([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), bins=[2, 2])
    >>> counts
    tensor([[1., 0.],
            [0., 2.]])
    """
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    n = input.shape[-1]
    if not input.is_floating_point():
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{long_name(input._data.dtype)}'")
    bins = (bins,) * n if hasattr(bins, "__index__") else tuple(bins)
    if len(bins) != n:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    if weight is not None and tuple(weight.shape) != tuple(input.shape[:-1]):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input "
            "tensor "
            f"excluding its innermost dimension, but got input with shape {list(input.shape)} and weight "
            f"with "
            f"shape {list(weight.shape)}"
        )
    points = input.detach().reshape(-1, n)
    edges = [bins[k] if isinstance(bins[k], Tensor) else line for k, line in _lines(points, bins, range)]
    for k, line in enumerate(edges):
        if line.dtype is not input.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
                "input with "
                f"dtype {_c_name(input)} and bins for dimension {k} with dtype {_c_name(line)}"
            )
    counts = _counts(points, edges, weight)
    if density:
        volume: Any = counts.sum()
        for k, line in enumerate(edges):
            widths = line[1:] - line[:-1]
            volume = volume * widths.reshape([-1 if j == k else 1 for j in _count(n)])
        counts = counts / volume
    return RESULTS["histogramdd"](counts, tuple(edges))


_count = range  # which is an argument's name above


def _c_name(tensor: Tensor) -> str:
    name = long_name(tensor._data.dtype)
    return _SHORT.get(name, name)


def _lines(points: Tensor, bins: tuple, limits: Any) -> list[tuple[int, Any]]:
    """(dim, its edges; None where ``bins`` are those)"""
    n = len(bins)
    if limits is not None and len(limits) != 2 * n:
        raise RuntimeError(
            f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, but got "
            f"{len(limits)}"
        )
    found: list[tuple[int, Any]] = []
    for k in range(n):
        if isinstance(bins[k], Tensor):
            found.append((k, None))
            continue
        within = None if limits is None else tuple(limits[2 * k : 2 * k + 2])
        found.append((k, _edges(points[:, k], bins[k], within, k)))
    return found


def _counts(points: Tensor, edges: list[Tensor], weight: Any) -> Tensor:
    shape = tuple(line.shape[0] - 1 for line in edges)
    heights = points[:, 0] * 0 + 1 if weight is None else weight.detach().reshape(-1)
    heights = APPLY["where"](APPLY["isnan"](heights), 1, heights) if weight is None else heights
    inside, places = None, []
    for k, line in enumerate(edges):
        x = points[:, k]
        within = APPLY["logical_and"](APPLY["ge"](x, line[0]), APPLY["le"](x, line[-1]))
        inside = within if inside is None else APPLY["logical_and"](inside, within)
        place = searchsorted(line.contiguous(), x.contiguous(), right=True) - 1
        places.append(place.clamp(0, max(shape[k] - 1, 0)))
    counted = APPLY["where"](inside, heights, 0).to(points.dtype)
    if 0 in shape:
        return points.new_zeros(shape)
    places = [APPLY["where"](inside, place, 0) for place in places]
    return APPLY["index_add"](counted, *places, axes=tuple(range(len(shape))), shape=shape)
