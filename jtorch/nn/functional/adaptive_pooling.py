"""Pooling to a given output size: window ``i`` of ``m`` over ``n`` elements is [i n / m, (i + 1) n /
m), widened.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#pooling-functions
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jtorch.core.sizes import has_negative
from jtorch.eager.public import Tensor, arange, autocasts, functions, long_name, no_grad, ops, tensor, widened

Sizes = int | None | Sequence[int | None]


def _target(name: str, rank: int, input: Tensor, output_size: Sizes) -> tuple[int, ...]:
    """The output's spatial sizes; None keeps the input's. Raises RuntimeError where they don't fit."""
    maximum = "max" in name
    if input.ndim not in (rank + 1, rank + 2):
        if rank == 1:
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument #1 'self' "
                f"(while checking arguments for {name})"
            )
        colon = ":" if maximum else ""
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got{colon} {list(input.shape)}"
        )
    asked = (
        (output_size,) * rank if output_size is None or isinstance(output_size, int) else tuple(output_size)
    )
    if len(asked) != rank:
        if rank == 1:
            raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(asked)})")
        sentence = "(): internal error: output_size.size() must be" if maximum else ": output_size must be"
        raise RuntimeError(f"{name}{sentence} {rank}")
    sizes = tuple(n if m is None else int(m) for n, m in zip(input.shape[-rank:], asked, strict=True))
    if has_negative(sizes):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{', '.join(map(str, sizes))}}}"
        )
    for dim in range(input.ndim - rank, input.ndim):
        if input.shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has "
                "sizes "
                f"{list(input.shape)} with dimension {dim} being empty"
            )
    return sizes


def _windows(n: int, m: int) -> list[range]:
    return [range(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]


def _even(sizes: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """The kernel that does it where each output size divides its input size."""
    if any(m == 0 or n % m for n, m in zip(sizes, wanted, strict=True)):
        return None
    return tuple(n // m for n, m in zip(sizes, wanted, strict=True))


def _pooled(op: str, input: Tensor, rank: int, kernel: tuple[int, ...], **statics: Any) -> Any:
    places = tuple(n // k for n, k in zip(input.shape[-rank:], kernel, strict=True))
    batch = input.unsqueeze(0) if input.ndim == rank + 1 else input
    function = getattr(ops, op)
    return function(batch, kernel=kernel, stride=kernel, padding=(0,) * rank, places=places, **statics)


def _adaptive_avg(rank: int, input: Tensor, output_size: Sizes) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"
    wanted = _target(name, rank, input, output_size)
    if not input.is_floating_point():
        raise NotImplementedError(f"\"{name}\" not implemented for '{long_name(input.dtype.numpy)}'")
    kernel = _even(tuple(input.shape[-rank:]), wanted)
    if kernel == tuple(input.shape[-rank:]):
        return input.mean(tuple(range(input.ndim - rank, input.ndim)), keepdim=True)
    if kernel is not None:
        out = _pooled("avg_pool", input, rank, kernel, count_borders=True, divisor=0)
        return out.squeeze(0) if input.ndim == rank + 1 else out
    means = widened(input)  # 16 bits are rounded once, not after each axis
    for dim, m in zip(range(input.ndim - rank, input.ndim), wanted, strict=True):
        means = _mean_along(means, dim, m)  # the mean of a box is the mean of means of its rows
    return means.to(input.dtype)


def _mean_along(input: Tensor, dim: int, m: int) -> Tensor:
    windows = _windows(input.shape[dim], m)
    longest = max((len(w) for w in windows), default=1)
    shape = (*input.shape[:dim], m, longest, *input.shape[dim + 1 :])
    seen = _spread_out(input, dim, windows, longest).reshape(shape)
    after = (1,) * (input.ndim - dim - 1)
    inside = [[k < len(w) for k in range(longest)] for w in windows]
    mask = tensor(inside, device=input.device).reshape(m, longest, *after)
    counts = tensor([[len(w)] for w in windows], dtype=input.dtype, device=input.device).reshape(m, *after)
    return ops.where(mask, seen, 0.0).sum(dim + 1) / counts


def _spread_out(input: Tensor, dim: int, windows: list[range], longest: int) -> Tensor:
    """Window beside window along ``dim``; the shorter ones repeat their last element."""
    places = [w[min(k, len(w) - 1)] for w in windows for k in range(longest)]
    return functions.index_select(input, dim, tensor(places, device=input.device).long())


def _adaptive_max(rank: int, input: Tensor, output_size: Sizes, return_indices: bool) -> Any:
    wanted = _target(f"adaptive_max_pool{rank}d", rank, input, output_size)
    lead, sizes = input.shape[:-rank], tuple(input.shape[-rank:])
    with no_grad():
        seen = _boxes(input, rank, wanted)
        best = best_place(seen)
        flat = arange(math.prod(sizes), device=input.device).reshape(sizes)
        where = functions.gather(_boxes(flat, rank, wanted).expand(seen.shape), -1, best)
        index = where.reshape(*lead, *wanted)
    elements, places = input.reshape(*lead, math.prod(sizes)), index.reshape(*lead, math.prod(wanted))
    values = functions.gather(elements, -1, places).reshape(index.shape)
    return (values, index) if return_indices else values


def best_place(windows: Tensor) -> Tensor:
    """Where the maximum along the last axis is, with that axis: the first one. Of several NaN it is the last,
    as in PyTorch, where each takes the place of what was before it."""
    places = arange(windows.shape[-1], device=windows.device)
    last = ops.where(ops.isnan(windows), places, -1).max(-1, keepdim=True).values
    return ops.where(last < 0, windows.argmax(-1, keepdim=True), last)


def _boxes(input: Tensor, rank: int, wanted: tuple[int, ...]) -> Tensor:
    """(..., *wanted, elements of the box): the boxes, smaller ones with repeated elements at their ends."""
    lead = input.ndim - rank
    shape = list(input.shape[:lead])
    for axis, m in enumerate(wanted):
        windows = _windows(input.shape[lead + axis], m)
        longest = max((len(w) for w in windows), default=1)
        input = _spread_out(input, lead + axis, windows, longest)
        shape += [m, longest]
    outer = [lead + 2 * axis for axis in range(rank)]
    axes = [*range(lead), *outer, *(a + 1 for a in outer)]
    elements = math.prod(tuple(shape[a + 1] for a in outer))
    return input.reshape(shape).permute(axes).reshape(*shape[:lead], *wanted, elements)


@autocasts(cuda="as_is")
def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means of ``output_size`` windows of sequences (N, C, L) or (C, L).

    >>> import jtorch
    >>> jtorch.nn.functional.adaptive_avg_pool1d(jtorch.tensor([[[1.0, 3.0, 5.0, 7.0]]]), 2)
    tensor([[[2., 6.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool1d.html

    >>> import jtorch
    >>> jtorch.adaptive_avg_pool1d(jtorch.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return _adaptive_avg(1, input, output_size)


@autocasts(cuda="as_is")
def adaptive_avg_pool2d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means of boxes of images (N, C, H, W) or (C, H, W), as many as ``output_size`` says; None keeps a size.

    >>> import jtorch
    >>> jtorch.nn.functional.adaptive_avg_pool2d(jtorch.zeros(1, 64, 10, 9), (7, None)).shape
    torch.Size([1, 64, 7, 9])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool2d.html
    """
    return _adaptive_avg(2, input, output_size)


@autocasts(cpu="float32", cuda="as_is")
def adaptive_avg_pool3d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means of boxes of volumes (N, C, D, H, W) or (C, D, H, W).

    >>> import jtorch
    >>> jtorch.nn.functional.adaptive_avg_pool3d(jtorch.zeros(1, 64, 8, 9, 10), (5, 1, None)).shape
    torch.Size([1, 64, 5, 1, 10])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool3d.html
    """
    return _adaptive_avg(3, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of ``output_size`` windows of sequences, and with ``return_indices`` where
    they are.

    >>> import jtorch
    >>> jtorch.nn.functional.adaptive_max_pool1d(jtorch.tensor([[[1.0, 3.0, 7.0, 5.0]]]), 2)
    tensor([[[3., 7.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_max_pool1d.html
    """
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of boxes of images, and with ``return_indices`` where in the flattened image.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.adaptive_max_pool2d(jtorch.arange(4.0).reshape(1, 1, 2, 2), 1, return_indices=True)
    (tensor([[[[3.]]]]), tensor([[[[3]]]]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_max_pool2d.html
    """
    return _adaptive_max(2, input, output_size, return_indices)


@autocasts(cpu="float32")
def adaptive_max_pool3d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of boxes of volumes, and with ``return_indices`` where in the flattened volume.

    >>> import jtorch
    >>> jtorch.nn.functional.adaptive_max_pool3d(jtorch.zeros(1, 64, 8, 9, 10), (5, 1, None)).shape
    torch.Size([1, 64, 5, 1, 10])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_max_pool3d.html
    """
    return _adaptive_max(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """``adaptive_max_pool1d`` with the places of the maxima: what PyTorch's top-level function gives.

    >>> import jtorch
    >>> jtorch.nn.functional.adaptive_max_pool1d_with_indices(jtorch.tensor([[[1.0, 3.0, 7.0, 5.0]]]), 2)
    (tensor([[[3., 7.]]]), tensor([[[1, 2]]]))
    """
    return adaptive_max_pool1d(input, output_size, True)
