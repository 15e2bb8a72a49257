"""Max-pooling by windows at random places, so that sizes shrink by any factor.

Source: B. Graham, "Fractional Max-Pooling" (2014), arXiv:1412.6071
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jtorch.eager.public import Tensor, arange, functions, rand
from jtorch.nn.functional.adaptive_pooling import best_place

_Sizes = int | Sequence[int]


def fractional_max_pool2d(
    input: Tensor, kernel_size: _Sizes, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """The largest of each window of images (N, C, H, W) or (C, H, W), at about equal but random distances.

    The result has ``output_size``, or ``output_ratio`` of the input's; with ``return_indices`` the places in
    the flattened image, too. ``_random_samples`` (N, C, 2) are the numbers in [0, 1) that say where windows
    lie.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.fractional_max_pool2d(jtorch.zeros(1, 16, 50, 32), 3, output_size=(25, 16)).shape
    torch.Size([1, 16, 25, 16])
    """
    return _pooled(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Tensor, kernel_size: _Sizes, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """``fractional_max_pool2d`` of volumes (N, C, T, H, W) or (C, T, H, W).

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.fractional_max_pool3d(jtorch.zeros(1, 2, 50, 32, 16), 3, output_size=(13, 12, 11)).shape
    torch.Size([1, 2, 13, 12, 11])
    """
    return _pooled(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: _Sizes, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``fractional_max_pool2d`` and the places, asked for or not.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> out, indices = F.fractional_max_pool2d_with_indices(jtorch.zeros(1, 2, 9, 9), 3, output_size=4)
    >>> out.shape, indices.shape
    (torch.Size([1, 2, 4, 4]), torch.Size([1, 2, 4, 4]))
    """
    return _pooled(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: _Sizes, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``fractional_max_pool3d`` and the places, asked for or not.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> out, indices = F.fractional_max_pool3d_with_indices(jtorch.zeros(1, 2, 9, 9, 9), 3, output_size=4)
    >>> out.shape, indices.shape
    (torch.Size([1, 2, 4, 4, 4]), torch.Size([1, 2, 4, 4, 4]))
    """
    return _pooled(3, input, kernel_size, output_size, output_ratio, True, _random_samples)


def _pooled(
    rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool,
    samples: Tensor | None,
) -> Any:  # fmt: skip
    name = f"fractional_max_pool{rank}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.ndim not in (rank + 1, rank + 2):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got "
            f"{-rank - 1})"
        )
    if output_size is None:
        output_size = _from_ratio(name, rank, input, output_ratio)
    sizes = _each(rank, output_size)
    kernel = _each(rank, kernel_size)
    _check_filled(name, rank, input)
    x = input if input.ndim == rank + 2 else input.unsqueeze(0)
    if samples is None:
        samples = rand(x.shape[0], x.shape[1], rank, dtype=input.dtype, device=input.device)
    _check(name, rank, x, sizes, kernel, samples)
    at = _window_places(rank, x, sizes, kernel, samples)
    count = len(at.shape) - 2 - rank
    found = x.flatten(2).gather(2, at.flatten(2)).reshape(*at.shape[: 2 + count], math.prod(kernel))
    best = best_place(found.detach())
    out = found.gather(-1, best).squeeze(-1)
    out = out if input.ndim == rank + 2 else out.squeeze(0)
    if not return_indices:
        return out
    places = at.reshape(found.shape).gather(-1, best).squeeze(-1)
    return out, places if input.ndim == rank + 2 else places.squeeze(0)


def _each(rank: int, value: Any) -> tuple[int, ...]:
    return (value,) * rank if hasattr(value, "__index__") else tuple(value)


def _from_ratio(name: str, rank: int, input: Tensor, ratio: Any) -> tuple[int, ...]:
    if len(ratio) > rank:
        raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
    return tuple(int(n * r) for n, r in zip(input.shape[-rank:], ratio, strict=True))


def _said(name: str, rank: int) -> str:
    return f"{name}()" if rank == 2 else f"{name}_out()"


def _check_filled(name: str, rank: int, input: Tensor) -> None:
    for k, n in enumerate(input.shape):
        if k and n == 0:
            raise RuntimeError(
                f"{_said(name, rank)}: Expected input to have non-zero size for non-batch dimensions, but "
                f"got{list(input.shape)} with dimension {k} being empty."
            )


def _check(
    name: str, rank: int, x: Tensor, sizes: tuple[int, ...], kernel: tuple[int, ...], samples: Tensor
) -> None:
    said = _said(name, rank)
    for what, n, m, k in zip(
        ("time", "height", "width")[-rank:], x.shape[-rank:], sizes, kernel, strict=True
    ):
        if m + k - 1 > n:
            raise RuntimeError(f"{said}: pool {what} {k} too large relative to input {what} {n}")
    if samples.dtype is not x.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    for k, expected in enumerate((x.shape[0], x.shape[1], rank)):
        have = samples.shape[k]
        if k == 2 and have != expected:
            raise RuntimeError(f"Expect _random_samples.size(2) equals to {expected}; got {have}.")
        if k < 2 and have < expected:
            raise RuntimeError(
                f"Expect _random_samples.size({k}) no less then input {('batch size', 'channel size')[k]}."
            )


def _window_places(
    rank: int, x: Tensor, sizes: tuple[int, ...], kernel: tuple[int, ...], samples: Tensor
) -> Tensor:
    """(N, C, *sizes, *kernel): the places in the flattened image that each window sees."""
    at: Any = 0
    for k in range(rank):
        drawn = samples[
            : x.shape[0], : x.shape[1], 1 - k if rank == 2 else k
        ]  # of images the width's comes first
        first = _starts(drawn, x.shape[2 + k], sizes[k], kernel[k])
        line = first.unsqueeze(-1) + arange(kernel[k], device=x.device)
        shape = [1] * (2 * rank)
        shape[k], shape[rank + k] = sizes[k], kernel[k]
        at = at * x.shape[2 + k] + line.reshape(*line.shape[:2], *shape)
    return at


def _starts(drawn: Tensor, n: int, count: int, width: int) -> Tensor:
    """(N, C, count): where windows of ``width`` begin among ``n`` places; the last one ends with them."""
    if count == 1:
        return (drawn * 0).long().unsqueeze(-1) + (n - width)
    step = (n - width) / (count - 1)
    moved = drawn.detach().unsqueeze(-1)
    found = ((arange(count - 1, device=moved.device) + moved) * step).long() - (moved * step).long()
    return functions.cat([found, found[..., :1] * 0 + (n - width)], -1)
