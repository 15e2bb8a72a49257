"""Matrices with zeros above or below a diagonal.

Source: https://docs.pytorch.org/docs/stable/generated/torch.tril.html
"""

from __future__ import annotations

import numpy as np

from jtorch.core.op import composite

_INT = np.dtype(np.int64)


def _kept_where(xp, x, compare, diagonal):
    shape = tuple(x.shape[-2:])
    above = xp.sub(xp.iota(shape=shape, axis=1, dtype=_INT), xp.iota(shape=shape, axis=0, dtype=_INT))
    return xp.where(compare(above, diagonal), x, _zero(xp, np.dtype(getattr(x.dtype, "numpy", x.dtype))))


def _zero(xp, dtype):
    if dtype.kind == "V":  # beside which NumPy's floats are not weak
        return xp.full(0.0, shape=(), dtype=dtype)
    return False if dtype.kind == "b" else 0 if dtype.kind in "iu" else 0.0


def _lower(xp, x, diagonal):
    return _kept_where(xp, x, xp.le, diagonal)


def _upper(xp, x, diagonal):
    return _kept_where(xp, x, xp.ge, diagonal)


@composite(dtype="as_is", public=None, fuses_small=True)
def tril(xp, x, *, diagonal):
    return _lower(xp, x, diagonal)


@tril.vjp
def _(xp, g, diagonal):
    return _lower(xp, g, diagonal)


@composite(dtype="as_is", public=None, fuses_small=True)
def triu(xp, x, *, diagonal):
    return _upper(xp, x, diagonal)


@triu.vjp
def _(xp, g, diagonal):
    return _upper(xp, g, diagonal)
