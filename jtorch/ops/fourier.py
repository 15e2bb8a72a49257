"""Discrete Fourier transforms along ``axes``: sums of x_n exp(-2 pi i k n / N), or with the sign turned.

The sums are divided by ``divisor``: "one", the "root" of how many terms they have, or their "count". Each
transform is linear, and its gradient is the conjugate transpose: the transform in the other direction with
the same divisor. Complex gradients are written out here, so ``holomorphic`` is False.
Source: https://docs.pytorch.org/docs/stable/fft.html
"""

from __future__ import annotations

import numpy as np

from jtorch.core.op import opaque
from jtorch.ops.linear_algebra import dtype_of

_COMPLEX = {
    np.dtype(real): np.dtype(whole)
    for real, whole in ((np.float32, np.complex64), (np.float64, np.complex128))
}
_REAL = {whole: real for real, whole in _COMPLEX.items()}
_INT = np.dtype(np.int64)


def _with(shape, axis, size):
    return (*shape[:axis], size, *shape[axis + 1 :])


@opaque(
    shape=lambda x, **_: x,
    dtype=lambda dtypes, statics: _COMPLEX.get(dtypes[0], dtypes[0]),
    holomorphic=False,
    public=None,
    axes=("axes",),
    grad_name="FftC2CBackward0",
)
def fft_complex(xp, x, *, axes, forward, divisor):
    """All N numbers of each line, of complex or real ones."""
    return xp.fft_complex(x, axes=axes, forward=forward, divisor=divisor)


@fft_complex.vjp
def _(xp, g, x_dtype, axes, forward, divisor):
    gx = xp.fft_complex(g, axes=axes, forward=not forward, divisor=divisor)
    return gx if getattr(x_dtype, "numpy", x_dtype).kind == "c" else xp.real_part(gx)


@opaque(
    shape=lambda x, axes, divisor: _with(x, axes[-1], x[axes[-1]] // 2 + 1),
    dtype=lambda dtypes, statics: _COMPLEX[dtypes[0]],
    holomorphic=False,
    public=None,
    axes=("axes",),
    grad_name="FftR2CBackward0",
)
def fft_halved(xp, x, *, axes, divisor):
    """Of real numbers: the first N // 2 + 1 along the last of ``axes``; the others are their conjugates."""
    return xp.fft_halved(x, axes=axes, divisor=divisor)


@fft_halved.vjp
def _(xp, g, x_shape, axes, divisor):
    last = axes[-1]
    gap = x_shape[last] - g.shape[last]
    if gap:
        zeros = xp.full(0.0, shape=_with(tuple(g.shape), last, gap), dtype=dtype_of(g))
        g = xp.cat(g, zeros, axis=last)
    return xp.real_part(xp.fft_complex(g, axes=axes, forward=False, divisor=divisor))


@opaque(
    shape=lambda x, axes, size, divisor: _with(x, axes[-1], size),
    dtype=lambda dtypes, statics: _REAL[dtypes[0]],
    holomorphic=False,
    public=None,
    axes=("axes",),
    grad_name="FftC2RBackward0",
)
def fft_real(xp, x, *, axes, size, divisor):
    """The real numbers, ``size`` along the last of ``axes``, whose transform begins with the
    size // 2 + 1 of x."""
    return xp.fft_real(x, axes=axes, size=size, divisor=divisor)


@fft_real.vjp
def _(xp, g, axes, size, divisor):
    """What stands for its conjugate, too, counts twice: all but the first and, of an even size, the last."""
    gx = xp.fft_halved(g, axes=axes, divisor=divisor)
    place = xp.iota(shape=tuple(gx.shape), axis=axes[-1], dtype=_INT)
    single = xp.logical_or(xp.eq(place, 0), xp.gt(place, (size - 1) // 2))
    return xp.where(single, gx, gx * 2.0)
