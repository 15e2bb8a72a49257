"""Complex numbers and their parts."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def conj(x: Array) -> Array:
    return np.conjugate(x) if x.dtype.kind == "c" else np.positive(x)


def real_part(x: Array) -> Array:
    return x.real


def imag_part(x: Array) -> Array:
    return x.imag


def make_complex(real: Array, imag: Array) -> Array:
    dtype = np.complex128 if real.dtype == np.float64 else np.complex64
    out = np.empty(real.shape, dtype)
    out.real, out.imag = real, imag
    return out


def phase(x: Array) -> Array:
    return np.angle(x)
