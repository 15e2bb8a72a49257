"""``x @ weight.T + bias`` and its gradients with as few calls of NumPy as they take.

``ops/contraction.py`` says what is computed. A layer of an RNN computes so little that the way there counts:
of 64 features for 32 rows (us, composite / here) 8.1 / 7.2, and its gradients 7.3 / 6.6.
"""

from __future__ import annotations

import math

import numpy as np

from jtorch.ops.xp._products import ALWAYS_SERIAL as _ALWAYS_SERIAL, affine as _affine, dot as _dot

Array = np.ndarray


def forward(x: Array, weight: Array, bias: Array | None) -> Array | None:
    """(..., in) to (..., out). None for a bias that is not one number for each of ``out``."""
    rows = x if x.ndim == 2 else _rows(x)
    if bias is not None and (bias.ndim != 1 or len(bias) != len(weight) or bias.dtype is not x.dtype):
        return None
    if len(rows) * weight.size < _ALWAYS_SERIAL:
        out = rows.dot(weight.T)
        out = out if bias is None else np.add(out, bias, out)
    else:
        out = _dot(rows, weight.T) if bias is None else _affine(rows, weight.T, bias)
    if x.ndim > 2:
        out = out.reshape(*x.shape[:-1], len(weight))
    return out if x.ndim > 1 else out.reshape(len(weight))


def gradients(
    g: Array, x: Array, weight: Array, needs: tuple[bool, ...]
) -> tuple[Array | None, Array | None]:
    """Those of ``x`` and ``weight``, where they are needed."""
    return for_input(g, weight) if needs[0] else None, for_weight(g, x) if needs[1] else None


def for_input(g: Array, weight: Array) -> Array:
    if g.ndim == 2:
        return g.dot(weight) if len(g) * weight.size < _ALWAYS_SERIAL else _dot(g, weight)
    return _dot(_rows(g), weight).reshape(*g.shape[:-1], weight.shape[1])


def for_weight(g: Array, x: Array) -> Array:
    if g.ndim == 2:
        return g.T.dot(x) if g.shape[1] * x.size < _ALWAYS_SERIAL else _dot(g.T, x)
    return _dot(_rows(g).T, _rows(x))


def _rows(x: Array) -> Array:
    """All axes but the last as one: a vector is one row."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
