"""Windows for spectra under the names of ``torch.signal.windows``.

``sym`` windows are the same read backwards; others are those of a place more, without its last place.
Source: https://docs.pytorch.org/docs/stable/signal.html
"""

from __future__ import annotations

import math as _math
from collections.abc import Callable as _Callable, Iterable as _Iterable
from typing import Any

import numpy as _np

from jtorch.core import dtypes as _dt, memory_formats as _formats
from jtorch.eager.public import Tensor, as_tensor as _as_tensor


def _made(
    name: str, M: int, curve: _Callable, dtype: Any, layout: Any, device: Any, requires_grad: bool
) -> Tensor:
    """``curve(places)`` at the places 0 to M - 1, computed in float64."""
    dtype = dtype or _dt.get_default_dtype()
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and layout is not _formats.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (_dt.float32, _dt.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    values = curve(_np.arange(M, dtype=_np.float64))
    made = _as_tensor(_np.asarray(values, dtype.numpy), device=device)
    return made.requires_grad_() if requires_grad else made


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|n - center| / tau)"""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2.0 if center is None else center
    return _made(
        "exponential", M, lambda n: _np.exp(-_np.abs(n - middle) / tau), dtype, layout, device, requires_grad
    )


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """sin(pi (n + 1/2) / M)"""
    step = _math.pi / (M + 1 if not sym and M > 1 else max(M, 1))
    return _made("cosine", M, lambda n: _np.sin((n + 0.5) * step), dtype, layout, device, requires_grad)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-((n - middle) / std)^2 / 2)"""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = (M if not sym and M > 1 else M - 1) / 2.0
    return _made(
        "gaussian", M, lambda n: _np.exp(-(((n - middle) / std) ** 2) / 2), dtype, layout, device,
        requires_grad,
    )  # fmt: skip


def _turns(M: int, sym: bool) -> int:
    """How many steps the whole window is wide."""
    return max(M - 1 if sym else M, 1)


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """i0(beta sqrt(1 - (2 n / N - 1)^2)) / i0(beta)"""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def curve(n: _np.ndarray) -> _np.ndarray:
        if M == 1:
            return _np.ones(1)
        height = _np.sqrt(_np.maximum(1 - (2 * n / _turns(M, sym) - 1) ** 2, 0))
        return _np.i0(beta * height) / _np.i0(beta)

    return _made("kaiser", M, curve, dtype, layout, device, requires_grad)


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """1 - |2 n / N - 1|"""

    def curve(n: _np.ndarray) -> _np.ndarray:
        return _np.ones(1) if M == 1 else 1 - _np.abs(2 * n / _turns(M, sym) - 1)

    return _made("bartlett", M, curve, dtype, layout, device, requires_grad)


def _cosines(name: str, M: int, a: Any, sym: bool, *facts: Any) -> Tensor:
    """a[0] - a[1] cos(t) + a[2] cos(2 t) - ..., for t in one turn."""

    def curve(n: _np.ndarray) -> _np.ndarray:
        if M < 2:
            return _np.ones(M)
        if not isinstance(a, _Iterable):
            raise TypeError("Coefficients must be a list/tuple")
        weights = list(a)
        if not weights:
            raise ValueError("Coefficients cannot be empty")
        turn = n * (2 * _math.pi / _turns(M, sym))
        rows = [(-1) ** k * w * _np.cos(k * turn) for k, w in enumerate(weights)]
        return _np.sum(rows, 0)

    return _made(name, M, curve, *facts)


def general_cosine(
    M: int, *, a: _Iterable[float], sym: bool = True, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of (-1)^k a[k] cos(2 pi k n / N)"""
    return _cosines("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(2 pi n / N)"""
    return _cosines("general_cosine", M, (alpha, 1 - alpha), sym, dtype, layout, device, requires_grad)


def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.54 - 0.46 cos(2 pi n / N)"""
    return _cosines("general_cosine", M, (0.54, 0.46), sym, dtype, layout, device, requires_grad)


def hann(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """(1 - cos(2 pi n / N)) / 2"""
    return _cosines("general_cosine", M, (0.5, 0.5), sym, dtype, layout, device, requires_grad)


def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)"""
    return _cosines("blackman", M, (0.42, 0.5, 0.08), sym, dtype, layout, device, requires_grad)


def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Four cosines whose side lobes are as low as they can be."""
    weights = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return _cosines("general_cosine", M, weights, sym, dtype, layout, device, requires_grad)


__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming",
    "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip
