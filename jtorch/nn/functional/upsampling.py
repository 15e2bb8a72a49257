"""Images in another size.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#vision-functions
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.core.sizes import below
from jtorch.eager.public import Tensor, apart, autocasts, functions, in_float32, integer, tensor
from jtorch.nn.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from jtorch.nn.functional.resampling import Taps, antialiased, weighted, weighted_bytes

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}  # mode -> spatial dims
_OF_BYTES = ("nearest", "nearest-exact", "bilinear", "bicubic")
_NAMES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"


def interpolate(
    input: Tensor, size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """(N, C, ...) with its spatial dims in ``size``, or ``scale_factor`` times as large.

    ``mode`` is nearest, nearest-exact, linear (3-D), bilinear, bicubic (4-D), trilinear (5-D) or area.
    Raises ValueError and NotImplementedError where the arguments don't go together. ``antialias``, of
    bilinear and bicubic, widens their filters where images shrink, as Pillow does. Images of uint8 are
    rounded after each dim.

    >>> import jtorch
    >>> jtorch.nn.functional.interpolate(jtorch.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    >>> jtorch.nn.functional.interpolate(jtorch.zeros(1, 3, 4, 4), size=(8, 6), mode="bilinear").shape
    torch.Size([1, 3, 8, 6])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html
    """
    _check_mode(input, mode, align_corners, antialias)
    sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    _check_sizes(tuple(input.shape[2:]), sizes)
    if mode == "area":
        pools = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}
        return pools[input.ndim](input, sizes)
    return _resampled(input, sizes, scales, mode, bool(align_corners), antialias)


@autocasts(cuda="float32")
def _resampled(
    input: Tensor, sizes: Sequence[int], scales: Sequence[float | None], mode: str, align_corners: bool,
    antialias: bool,
) -> Tensor:  # fmt: skip
    is_bytes = input.dtype.numpy == np.uint8
    if not input.is_floating_point() and not (is_bytes and mode in _OF_BYTES):
        raise NotImplementedError(f"\"upsample_{mode}\" not implemented for '{input.dtype}'")
    if input.dtype.itemsize == 2 and not mode.startswith("nearest"):  # weights need more than 16 bits
        return in_float32(_resampled, input, sizes, scales, mode, align_corners, antialias)
    out = input
    along = list(enumerate(zip(sizes, scales, strict=True), 2))
    by_weights = antialias or (is_bytes and not mode.startswith("nearest"))
    for dim, (m, scale) in reversed(along) if by_weights else along:
        if by_weights:
            out = _by_weights(out, dim, m, scale, mode, align_corners, antialias)
        else:
            out = _along(out, dim, m, scale, mode, align_corners)
    return apart(out, input)


def _by_weights(
    input: Tensor, dim: int, m: int, scale: float | None, mode: str, align_corners: bool, antialias: bool
) -> Tensor:
    n = input.shape[dim]
    if antialias:
        taps = antialiased(n, m, scale, mode, align_corners)
    else:
        source = _sources(n, m, scale, align_corners)
        taps = _cubic(n, source) if mode == "bicubic" else _linear(n, source)
    if input.is_floating_point():
        return weighted(input, dim, taps)
    return weighted_bytes(input, dim, n, taps)


def _check_mode(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | "
                "bicubic | "
                "trilinear"
            )
        fits = input.ndim in (3, 4, 5)
    else:
        fits = mode in _LINEAR and (input.ndim == _LINEAR[mode] + 2)
        if mode in ("linear", "bilinear", "trilinear") and input.ndim in (3, 4, 5) and not fits:
            raise NotImplementedError(
                f"Got {input.ndim}D input, but {mode} mode needs {_LINEAR[mode] + 2}D input"
            )
    if antialias and (mode not in ("bilinear", "bicubic") or input.ndim != 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D "
            "tensor "
            "as input"
        )
    if not fits:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: "
            f"{_NAMES} "
            f"(got {mode})"
        )


def _sizes(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """(output sizes, the scales that places are computed with where not from the sizes)"""
    shape, rank = list(input.shape[2:]), input.ndim - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,) * rank
        if len(sizes) != rank:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with "
                "spatial "
                f"dimensions of {shape} and output size of {size}. Please provide input tensor in (N, C, "
                "d1, d2, "
                "...,dK) format and output size in (o1, o2, ...,oK) format."
            )
        return tuple(integer("interpolate", "size", n) for n in sizes), (None,) * rank
    scales = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * rank
    if len(scales) != rank:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input with "
            "spatial "
            f"dimensions of {shape} and scale_factor of shape {scale_factor}. Please provide input tensor "
            "in (N, C, "
            "d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
        )
    sizes = tuple(_scaled(n, s) for n, s in zip(shape, scales, strict=True))
    return sizes, (None,) * rank if recompute else tuple(float(s) for s in scales)


def _scaled(n: int, scale: float) -> int:
    return n * int(scale) if scale == math.floor(scale) else math.floor(float(n) * scale)


def _check_sizes(shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    if below((*shape, *sizes), 1):
        before, after = (
            ", ".join(f"{c}: {n}" for c, n in zip("DHW"[-len(shape) :], numbers, strict=True))
            for numbers in (shape, sizes)
        )
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({before}) output ({after})"
        )


def _along(input: Tensor, dim: int, m: int, scale: float | None, mode: str, align_corners: bool) -> Tensor:
    n = input.shape[dim]
    if mode == "nearest" and input.ndim == 4 and (n == m or m == 2 * n):
        scale = None  # which PyTorch does not look at then, of images alone
    if n == m and mode != "bicubic" and (scale is None or not mode.startswith("nearest")):
        return input
    if mode in ("nearest", "nearest-exact"):
        shift = 0.5 if mode == "nearest-exact" else 0.0
        times = m // n
        if m == times * n and _repeats(n, m, times, scale, shift):
            return input.unsqueeze(dim + 1).expand(
                (*input.shape[: dim + 1], times, *input.shape[dim + 1 :])
            ).reshape((*input.shape[:dim], m, *input.shape[dim + 1 :]))  # fmt: skip
        places = tensor(_nearest(n, m, scale, shift), device=input.device)
        return functions.index_select(input, dim, places)
    source = _sources(n, m, scale, align_corners)
    taps = _cubic(n, source) if mode == "bicubic" else _linear(n, source)
    return weighted(input, dim, taps)


def _repeats(n: int, m: int, times: int, scale: float | None, shift: float) -> bool:
    """Whether each of n positions is the nearest of ``times`` among m, one after the other."""
    if times == 2 and shift == 0.0 and scale is None:
        return True
    return bool((_nearest(n, m, scale, shift) == np.arange(m) // times).all())


def _nearest(n: int, m: int, scale: float | None, shift: float) -> np.ndarray:
    """PyTorch computes in float32 here, and which neighbour is nearest depends on it."""
    step = np.float32(1.0 / scale) if scale else np.float32(n) / np.float32(m)
    if shift == 0.0 and m == 2 * n and scale is None:
        return np.arange(m) // 2
    places = np.floor((np.arange(m, dtype=np.float32) + np.float32(shift)) * step)
    return np.minimum(places.astype(np.int64), n - 1)


def _sources(n: int, m: int, scale: float | None, align_corners: bool) -> np.ndarray:
    """Where between the input's places each output place lies."""
    if align_corners:
        return np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
    return (np.arange(m) + 0.5) * (1.0 / scale if scale else n / m) - 0.5


def _linear(n: int, source: np.ndarray) -> Taps:
    source = np.maximum(source, 0.0)
    low = np.minimum(source.astype(np.int64), n - 1)
    weight = np.clip(source - low, 0.0, 1.0)
    return [(low, 1.0 - weight), (np.minimum(low + 1, n - 1), weight)]


def _cubic(n: int, source: np.ndarray) -> Taps:
    """Keys' kernel with a = -0.75. Source: Keys 1981, IEEE TASSP 29(6)."""
    a = -0.75
    low = np.floor(source).astype(np.int64)
    t = source - low

    def near(x: np.ndarray) -> np.ndarray:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
    return [(np.clip(low + k - 1, 0, n - 1), w) for k, w in enumerate(weights)]


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """``interpolate`` under its older name.

    >>> import jtorch
    >>> jtorch.nn.functional.upsample(jtorch.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate(mode="nearest")``.

    >>> import jtorch
    >>> jtorch.nn.functional.upsample_nearest(jtorch.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate(mode="bilinear", align_corners=True)``.

    >>> import jtorch
    >>> jtorch.nn.functional.upsample_bilinear(jtorch.tensor([[[[1.0, 2.0]]]]), size=(1, 3))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
