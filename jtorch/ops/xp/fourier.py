"""Discrete Fourier transforms, by SciPy: what it is given in single precision stays in it."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
_Axes = tuple[int, ...]


def _divides(forward: bool, divisor: str) -> str:
    """SciPy's word for what a sum is divided by: its "backward" is none going forward, all going back."""
    if divisor == "root":
        return "ortho"
    return "backward" if forward == (divisor == "one") else "forward"


def fft_complex(x: Array, *, axes: _Axes, forward: bool, divisor: str) -> Array:
    from scipy import fft

    if not x.size:
        return np.zeros(x.shape, np.result_type(x, np.complex64))
    transform = fft.fftn if forward else fft.ifftn
    return transform(x, axes=axes, norm=_divides(forward, divisor))


def fft_halved(x: Array, *, axes: _Axes, divisor: str) -> Array:
    from scipy import fft

    if not x.size:
        shape = list(x.shape)
        shape[axes[-1]] = shape[axes[-1]] // 2 + 1
        return np.zeros(shape, np.result_type(x, np.complex64))
    return fft.rfftn(x, axes=axes, norm=_divides(True, divisor))


def fft_real(x: Array, *, axes: _Axes, size: int, divisor: str) -> Array:
    from scipy import fft

    sizes = [x.shape[axis] for axis in axes[:-1]] + [size]
    if not x.size:
        shape = list(x.shape)
        shape[axes[-1]] = size
        return np.zeros(shape, x.real.dtype)
    return fft.irfftn(x, s=sizes, axes=axes, norm=_divides(False, divisor))
