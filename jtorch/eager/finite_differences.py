"""Slopes of sampled functions: ``torch.gradient``.

Source: https://docs.pytorch.org/docs/stable/generated/torch.gradient.html; B. Fornberg, "Generation of finite
difference formulas on arbitrarily spaced grids" (1988)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.core.number_ranges import is_number
from jtorch.eager.functions.parting import cut
from jtorch.eager.methods import FUNCTIONS
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax

_Weights = tuple[Any, Any, Any]


def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The slopes of ``input`` along each of ``dim``, by differences between both neighbours; at the edges
    from the ``edge_order`` (1 or 2) nearest places.

    ``spacing`` is the distance of two places, one per dim, or a vector of the places' coordinates per dim.

    >>> import jtorch
    >>> jtorch.gradient(jtorch.tensor([0.0, 1.0, 4.0, 9.0]))
    (tensor([1., 2., 4., 5.]),)
    """
    if input.dtype is dt.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    dims = _dims(input, dim)
    spacings = _spacings(input, spacing, dims, dim is not None)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if any(input.shape[d] <= edge_order for d in dims):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(_slopes(input, d, step, edge_order) for d, step in zip(dims, spacings, strict=True))


def _dims(input: Tensor, dim: Any) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(input.ndim))
    dims = tuple(ax.one(d, input.ndim) for d in ((dim,) if hasattr(dim, "__index__") else dim))
    for k, d in enumerate(dims):
        if d in dims[:k]:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return dims


def _spacings(input: Tensor, spacing: Any, dims: tuple[int, ...], by_dim: bool) -> list[Any]:
    """The distance, or the vector of coordinates, of each of ``dims``."""
    spacing = 1 if spacing is None else spacing
    if is_number(spacing) or (isinstance(spacing, Tensor) and not spacing.ndim):
        return [spacing] * len(dims)
    if isinstance(spacing, Tensor) or not isinstance(spacing, Sequence):
        raise TypeError(
            "gradient(): argument 'spacing' must be a number or a list of numbers or Tensors, not "
            f"{type(spacing).__name__}"
        )
    if len(spacing) != len(dims):
        if by_dim:
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
                "arguments to "
                f"have the same length, but got a spacing argument of length {len(spacing)} and a dim "
                f"argument of "
                f"length {len(dims)}."
            )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
            f"'self.dim() = {input.ndim}', since dim argument was not given, but got a list of length "
            f"{len(spacing)}"
        )
    for each in spacing:
        if isinstance(each, Tensor) and each.ndim != 1:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, but got an element "
                "with "
                f"{each.ndim} dimensions!"
            )
    return list(spacing)


def _slopes(x: Tensor, d: int, step: Any, edge_order: int) -> Tensor:
    n = x.shape[d]

    def part(start: int, stop: int) -> Tensor:
        return cut(x, d, start, stop)

    if isinstance(step, Tensor) and step.ndim:
        shape = [-1 if k == d else 1 for k in range(x.ndim)]
        apart = (step[1:] - step[:-1]).reshape(*shape)
        before, after = cut(apart, d, 0, n - 2), cut(apart, d, 1, n - 1)
        neighbours = [(0, 1), (n - 2, n - 3)] if n > 2 else [(0, 0), (0, 0)]
        ends = [(cut(apart, d, k, k + 1), cut(apart, d, j, j + 1)) for k, j in neighbours]
        left, middle, right = _weights(before, after)
        inner = left * part(0, n - 2) + middle * part(1, n - 1) + right * part(2, n)
    else:
        ends = [(step, step)] * 2
        inner = (part(2, n) - part(0, n - 2)) / (2 * step)
    first = _edge([part(k, k + 1) for k in range(edge_order + 1)], *ends[0], edge_order)
    last = -_edge([part(n - 1 - k, n - k) for k in range(edge_order + 1)], *ends[1], edge_order)
    return FUNCTIONS["cat"]([first, inner, last], d)


def _weights(before: Any, after: Any) -> _Weights:
    """Of the left neighbour, the place itself and the right one, for the slope there."""
    whole = before + after
    return -after / (before * whole), (after - before) / (before * after), before / (after * whole)


def _edge(places: list[Tensor], near: Any, far: Any, edge_order: int) -> Tensor:
    """The slope at the first of ``places``, ``near`` from the second, which is ``far`` from the third."""
    if edge_order == 1:
        return (places[1] - places[0]) / near
    whole = near + far
    return (
        -((near + whole) / (near * whole)) * places[0]
        + whole / (near * far) * places[1]
        - near / (far * whole) * places[2]
    )
