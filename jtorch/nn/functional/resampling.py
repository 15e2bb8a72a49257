"""Images made smaller without aliasing, and images of bytes: each output place is a weighted sum of inputs.

The weights along one axis are a matrix (outputs, inputs), mostly of zeros, made on the host from sizes alone.
Source: PyTorch's separable kernels, aten/src/ATen/native/cpu/UpSampleKernel.cpp, which follow Pillow's
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jtorch.eager.public import Tensor, functions, tensor

Taps = list[tuple[np.ndarray, np.ndarray]]  # (places in the input, weights) for each output place


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0.0)


def _cubic(x: np.ndarray) -> np.ndarray:
    """Keys' kernel with a = -0.5, as Pillow has it; without antialiasing PyTorch's is -0.75."""
    a, x = -0.5, np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


_FILTERS: dict[str, tuple[Callable, int]] = {"bilinear": (_triangle, 2), "bicubic": (_cubic, 4)}


def antialiased(n: int, m: int, scale: float | None, mode: str, align_corners: bool) -> Taps:
    """The filter of ``mode``, as wide as an output place is in the input."""
    weigh, width = _FILTERS[mode]
    step = (n - 1) / (m - 1 if m > 1 else 1) if align_corners else (1.0 / scale if scale else n / m)
    if align_corners and m == 1:
        step = 0.0
    wide = max(step, 1.0)
    support = width * 0.5 * wide
    centre = step * (np.arange(m) + 0.5)
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    count = np.minimum((centre + support + 0.5).astype(np.int64), n) - first
    count = np.clip(count, 0, math.ceil(support) * 2 + 1)
    taps = np.arange(int(count.max()))
    weights = weigh((taps + first[:, None] - centre[:, None] + 0.5) / wide)
    weights = np.where(taps < count[:, None], weights, 0.0)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1.0, total)
    places = np.minimum(first[:, None] + taps, (first + np.maximum(count, 1) - 1)[:, None])
    return [(places[:, k], weights[:, k]) for k in range(len(taps))]


def weighted(input: Tensor, dim: int, taps: Taps) -> Tensor:
    """The sums along ``dim``, tap by tap."""
    shape = (len(taps[0][0]), *(1,) * (input.ndim - dim - 1))
    out: Tensor | None = None
    for places, weights in taps:
        read = functions.index_select(input, dim, tensor(places, device=input.device))
        part = read * tensor(weights, device=input.device).to(input.dtype).reshape(shape)
        out = part if out is None else out + part
    assert out is not None
    return out


def weighted_bytes(input: Tensor, dim: int, n: int, taps: Taps) -> Tensor:
    """The same of uint8, by integer weights as PyTorch and Pillow have them, rounded to bytes again."""
    matrix = np.zeros((len(taps[0][0]), n))
    for places, weights in taps:
        np.add.at(matrix, (np.arange(len(places)), places), weights)
    bits = _bits(float(matrix.max()))
    whole = np.trunc(matrix * (1 << bits) + np.where(matrix < 0, -0.5, 0.5))
    moved = functions.movedim(input, dim, -1).to(tensor(matrix).dtype)  # sums are below 2^53
    sums = moved @ tensor(whole.T.copy(), device=input.device)
    rounded = ((sums + float(1 << (bits - 1))) / float(1 << bits)).floor().clamp(0, 255)
    return functions.movedim(rounded.to(input.dtype), -1, dim)


def _bits(largest: float) -> int:
    """How many a weight is moved up by, so that it fits 16 bits."""
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits
