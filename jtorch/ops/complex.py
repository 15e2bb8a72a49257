"""Complex numbers: their parts, their conjugate, and making them of reals.

Gradients follow PyTorch's convention (the conjugate Wirtinger derivative); what is not holomorphic says so,
see ``node.complex_class``.
Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#autograd-for-complex-numbers
"""

from __future__ import annotations

import numpy as np

from jtorch.core.op import elementwise, opaque


def is_complex(x):
    """Whether the elements of an array, a traced one or a Tensor are complex numbers."""
    return getattr(x.dtype, "numpy", x.dtype).kind == "c"


def real_dtype(dtype):
    """The dtype of the parts of complex numbers; that of reals as it is."""
    return _PARTS.get(dtype, dtype)


def _real_dtype(dtypes, statics):
    return _PARTS[dtypes[0]]


_PARTS = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}
_WHOLE = {part: whole for whole, part in _PARTS.items()}


@elementwise(text="{x}", holomorphic=False, methods=())
def conj(xp, x):
    """Complex numbers with the sign of their imaginary part turned; reals as they are."""
    return xp.conj(x)


@conj.vjp
def _(xp, g):
    return xp.conj(g)


@opaque(
    shape=lambda x: x,
    dtype=_real_dtype,
    aliases=True,
    put=lambda xp, base, value: xp.make_complex(value, xp.imag_part(base)),
    grad_name="SelectBackward0",
    public=None,
    leads=True,
)
def real_part(xp, x):
    return xp.real_part(x)


@real_part.vjp
def _(xp, g, x_dtype):
    return xp.cast(g, dtype=x_dtype)


@opaque(
    shape=lambda x: x,
    dtype=_real_dtype,
    aliases=True,
    put=lambda xp, base, value: xp.make_complex(xp.real_part(base), value),
    grad_name="SelectBackward0",
    public=None,
    leads=True,
)
def imag_part(xp, x):
    return xp.imag_part(x)


@imag_part.vjp
def _(xp, g):
    return xp.make_complex(g * 0.0, g)


@opaque(
    shape=lambda real, imag: real,
    dtype=lambda dtypes, statics: _WHOLE[dtypes[0]],
    holomorphic=False,
    grad_name="ComplexBackward0",
    public=None,
    leads=True,
)
def make_complex(xp, real, imag):
    """real + i imag, of arrays of one shape."""
    return xp.make_complex(real, imag)


@make_complex.vjp
def _(xp, g):
    return xp.real_part(g), xp.imag_part(g)


@opaque(shape=lambda x: x, dtype=_real_dtype, grad_name="AngleBackward0", public=None, leads=True)
def phase(xp, x):
    """The angle of complex numbers in the plane."""
    return xp.phase(x)


@phase.vjp
def _(xp, g, x):
    # d angle = (-y dx + x dy) / |x|^2
    squared = xp.real_part(x * xp.conj(x))
    over = xp.where(xp.eq(squared, 0.0), 0.0, g / xp.where(xp.eq(squared, 0.0), 1.0, squared))
    return xp.make_complex(-(over * xp.imag_part(x)), over * xp.real_part(x))
