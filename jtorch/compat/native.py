"""Functions of ``torch`` that give more than layers do: statistics, masks, results of a size that is known.

``torch.native_layer_norm(...)`` is (result, mean, 1 / deviation). Some programs call them.
Source: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jtorch
from jtorch.compat.low_level import grid_sampler
from jtorch.eager.binding import accepting
from jtorch.eager.tensor import Tensor
from jtorch.nn import functional as F
from jtorch.nn.functional.embedding import shortened_

# -- normalization -------------------------------------------------------------------------------------------


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(``nn.functional.layer_norm``, means, 1 / deviations): these with size 1 in normalized dims."""
    out = F.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    return out, *_moments(input.detach(), dims, eps, True)


def native_group_norm(
    input: Tensor, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(``nn.functional.group_norm``, the means, 1 / deviations); these are of shape (N, group).

    Raises RuntimeError where ``input`` has not N C HxW elements.
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(
            f"native_group_norm: expected {N} * {C} * {HxW} elements, but got shape {list(input.shape)}"
        )
    out = F.group_norm(input.reshape(N, C, HxW), group, weight, bias, eps)
    moments = _moments(input.reshape(N, group, C // group * HxW), (2,), eps, False)
    return out.reshape(input.shape), *moments


@accepting
def native_batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(``nn.functional.batch_norm``, means, 1 / deviations): constants, and empty unless ``training``."""
    moments = (input.new_empty(0), input.new_empty(0))
    if training:
        moments = _moments(input.detach(), tuple(k for k in range(input.ndim) if k != 1), eps, False)
    out = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return out, *moments


def _moments(input: Tensor, dims: tuple[int, ...], eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    variance = input.var(dims, correction=0, keepdim=keepdim)
    return input.mean(dims, keepdim), (variance + eps).rsqrt()


# -- dropout -------------------------------------------------------------------------------------------------


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """(``nn.functional.dropout``, the mask of what was kept). Raises RuntimeError for a p outside [0, 1]."""
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if train is False or p == 0.0:
        return input.clone(), jtorch.ones_like(input, dtype=jtorch.bool)
    kept = jtorch.rand(input.shape, device=input.device) >= p
    return native_dropout_backward(input, kept, 0.0 if p == 1.0 else 1.0 / (1.0 - p)), kept


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """grad_output mask scale"""
    return grad_output * mask * scale


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Whole channels (N, C, ...) are zero with probability ``p`` in training, others times 1 / (1 - p).

    Raises RuntimeError for a p outside [0, 1] and for fewer than two dims.
    """
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if not train or p == 0.0 or not input.numel():
        return input
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    noise = input.new_ones((*input.shape[:2], *[1] * (input.ndim - 2)))
    return input * F.dropout(noise, p, True)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """``feature_dropout``, written over ``input``."""
    return input.copy_(feature_dropout(input, p, train))


# -- tables of rows ------------------------------------------------------------------------------------------


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """(``nn.functional.embedding_bag`` of a vector, the bag of each index, sizes of bags, rows of maxima).

    ``mode`` is 0 (sum), 1 (mean) or 2 (max). As in PyTorch a sum has zeros for sizes and rows, and a mean its
    sizes in the place of rows. (PyTorch leaves out the bags where its sums need none.) Raises RuntimeError
    for other modes.
    """
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    if per_sample_weights is not None and mode:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    if indices.ndim != 1:
        raise RuntimeError(f"embedding_bag: indices in bags are a vector, got shape {list(indices.shape)}")
    out = F.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode], sparse,
        per_sample_weights, include_last_offset, padding_idx,
    )  # fmt: skip
    starts = offsets[:-1] if include_last_offset else offsets
    to = _bags(indices, starts)
    if not mode:
        return out, to, jtorch.zeros_like(starts), jtorch.zeros_like(starts)
    counts = indices >= 0 if padding_idx is None else indices != padding_idx % weight.shape[0]
    sizes = jtorch.zeros(starts.shape[0] + 1, dtype=to.dtype).index_add(0, to + 1, counts.to(to.dtype))[1:]
    if mode == 1:
        return out, to, sizes, sizes.clone()
    return out, to, sizes, _rows_of_maxima(out.detach(), weight.detach(), indices, to, counts)


def _bags(indices: Tensor, starts: Tensor) -> Tensor:
    """The bag that each place of ``indices`` is in."""
    places = jtorch.arange(indices.shape[0], dtype=starts.dtype)
    return (jtorch.searchsorted(starts, places, right=True) - 1).to(indices.dtype)


def _rows_of_maxima(out: Tensor, weight: Tensor, indices: Tensor, to: Tensor, counts: Tensor) -> Tensor:
    """(bags, width): the first row of a bag that has its maximum, 0 where none does."""
    n = indices.shape[0]
    bags = to.long().clamp(min=0)
    is_largest = (weight[indices] == out[bags]) & counts.unsqueeze(1) if len(out) else weight[indices] != 0
    places = jtorch.where(is_largest, jtorch.arange(n).unsqueeze(1), n)
    first = jtorch.full((len(out) + 1, out.shape[1]), n)
    first = first.scatter_reduce(0, (to.long() + 1).unsqueeze(1).expand(places.shape), places, "amin")[1:]
    return jtorch.cat([indices, indices.new_zeros(1)])[first]


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Shorten the rows of ``input`` that ``indices`` name, and whose norm is over ``max_norm``, in place."""
    if indices.dtype not in (jtorch.int64, jtorch.int32):
        raise RuntimeError(
            "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; "
            f"but got {indices.type()} instead (while checking arguments for embedding_renorm_)"
        )
    shortened_(input, indices, max_norm, norm_type)
    return input


# -- images and sequences ------------------------------------------------------------------------------------


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``nn.functional.grid_sample`` of images (N, C, H, W), with numbers for the modes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``nn.functional.grid_sample`` of volumes (N, C, D, H, W), with numbers for the modes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of sequences (time, batch, in) with ``weight`` (width, in, out) to (time, batch, out)."""
    if input.ndim != 3 or weight.ndim != 3:
        raise RuntimeError(
            f"conv_tbc: expected input and weight of 3 dims, but got {input.ndim} and {weight.ndim}"
        )
    return F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


# -- norms of matrices ---------------------------------------------------------------------------------------


@accepting
def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The root of the sum of the squares over ``dim``, or of all elements."""
    return jtorch.linalg.vector_norm(input, 2, dim or None, keepdim)


@accepting
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of a matrix, or of those in two dims."""
    return jtorch.linalg.matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)


# -- memory and places ---------------------------------------------------------------------------------------


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    """A tensor of ``size`` whose dims lie in memory in the order ``physical_layout``, the outermost first.

    Its elements are 0, as those of ``empty``. Raises RuntimeError where the layout is no order of the dims.
    """
    order = [int(d) for d in physical_layout]
    if sorted(order) != list(range(len(size))):
        raise RuntimeError(
            f"empty_permuted: expected physical_layout to be an order of {len(size)} dims, but got {order}"
        )
    gradient = options.pop("requires_grad", False)
    lying = jtorch.empty([size[d] for d in order], **options)
    return lying.permute([order.index(k) for k in range(len(order))]).requires_grad_(gradient)


@accepting
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first ``size`` rows of ``nonzero()``, shape (size, ndim), then rows of ``fill_value``.

    The size does not depend on the elements. Raises RuntimeError for a negative ``size``.
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    flat = (input != 0).reshape(-1)
    row = flat.long().cumsum(0) - 1
    row = jtorch.where(flat & (row < size), row, size)  # the last row is for all others
    place = jtorch.arange(math.prod(input.shape), device=input.device)
    columns = []
    for n in reversed(input.shape):
        columns.append(place % n if n else place)
        place = place // n if n else place
    out = jtorch.full((size + 1, input.ndim), fill_value, dtype=jtorch.int64, device=input.device)
    if columns:
        found = jtorch.stack(columns[::-1], 1)
        out = out.scatter(0, row.unsqueeze(1).expand(found.shape), found)
    return out[:size]


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """``input`` in memory of its own, with ``src`` in the places that ``input.as_strided(...)`` names.

    Raises RuntimeError where ``src`` has another shape than ``size``.
    """
    if tuple(src.shape) != tuple(size):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(size)}"
        )
    start = input.storage_offset()
    lying = 1 + max(0, start) + sum((n - 1) * s for n, s in zip(input.shape, input.stride(), strict=True))
    reach = (storage_offset if storage_offset is not None else start) + 1
    reach += sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if src.numel() else -1
    whole = input.as_strided((max(lying, reach) if input.numel() else reach,), (1,), 0).clone()
    whole.as_strided(size, stride, start if storage_offset is None else storage_offset).copy_(src)
    return whole.as_strided(input.shape, input.stride(), start)
