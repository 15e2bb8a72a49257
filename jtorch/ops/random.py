"""Random numbers from a counter: element ``i`` of the ``call``-th random op under ``seed``.

The same numbers come out in both modes and wherever fusion moves them, because nothing but these three
integers decides them. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from jtorch.core.op import composite, elementwise


@elementwise(
    text="philox_u64({seed}, {call}, {index})",
    costly=True,
    integer_text="philox_u64({seed}, {call}, {index})",
    dtype="static",
    differentiable=False,
    public=None,
)
def random_bits(xp, seed, call, *, shape, dtype):
    return xp.random_bits(seed, call, shape=shape, dtype=dtype)


@elementwise(
    text="uniform_{to}({bits})",
    costly=True,
    integer_text="uniform_{to}({bits})",
    dtype="static",
    differentiable=False,
    public=None,
    draws=True,
    fuses_small=True,
)
def uniform(xp, bits, *, dtype):
    """Floats in [0, 1) with 24 (float32) or 53 (float64) random bits."""
    return xp.uniform(bits, dtype=dtype)


@elementwise(
    text="normal_{to}({bits})",
    costly=True,
    integer_text="normal_{to}({bits})",
    dtype="static",
    differentiable=False,
    public=None,
    draws=True,
    fuses_small=True,
)
def normal(xp, bits, *, dtype):
    """Standard normal floats."""
    return xp.normal(bits, dtype=dtype)


@elementwise(
    text="bounded({bits}, {low}, {high})",
    integer_text="bounded({bits}, {low}, {high})",
    dtype="index",
    differentiable=False,
    public=None,
)
def bounded(xp, bits, low, high):
    """Integers in [low, high)."""
    return xp.bounded(bits, low, high)


@composite(
    n_outputs=2,
    hidden=1,
    dtype="as_is",
    like_first=True,
    public=None,
    grad_name="NativeDropoutBackward0",
    fuses=False,
)
def dropout_with(xp, x, seed, call, p):
    """(x with each element zeroed with probability ``p`` and the others scaled by 1/(1-p), the scales)."""
    bits = xp.random_bits(seed, call, shape=tuple(x.shape), dtype="uint64")
    kept = xp.ge(xp.uniform(bits, dtype=x.dtype), p)
    scale = xp.where(kept, 1.0, xp.full(0.0, shape=tuple(x.shape), dtype=x.dtype)) * _rescale(p)
    return x * scale, scale


def _rescale(p):
    return 1.0 / (1.0 - p) if hasattr(p, "dtype") or p < 1.0 else 0.0


@dropout_with.vjp
def _(xp, g, out1):
    return g[0] * out1, None, None, None
