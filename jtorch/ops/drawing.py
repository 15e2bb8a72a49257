"""Draws beside uniform and normal ones, and the tests of what is drawn from, which read all elements."""

from __future__ import annotations

from jtorch.core.op import composite, elementwise, opaque


@elementwise(
    text="exponential_{to}({bits})",
    costly=True,
    integer_text="exponential_{to}({bits})",
    dtype="static",
    differentiable=False,
    public=None,
    draws=True,
    fuses_small=True,
)
def exponential(xp, bits, *, dtype):
    """Exponential floats of rate 1."""
    return xp.exponential(bits, dtype=dtype)


@opaque(
    shape=lambda u, rate: rate,
    dtype=lambda dtypes, statics: dtypes[1],
    differentiable=False,
    public=None,
    may_raise=True,
    leads=True,
)
def poisson_quantile(xp, u, rate):
    """The Poisson count at ``u``, a float64 in (0, 1), for each rate of the same shape."""
    return xp.poisson_quantile(u, rate)


@opaque(
    shape=lambda u, count, prob: u,
    dtype=lambda dtypes, statics: dtypes[1],
    differentiable=False,
    public=None,
    may_raise=True,
    leads=True,
)
def binomial_quantile(xp, u, count, prob):
    """The number of successes in ``count`` tries at ``u``, a float64 in (0, 1)."""
    return xp.binomial_quantile(u, count, prob)


@composite(differentiable=False, public=None)
def all_shares(xp, x, y):
    """Whether all elements of both are in [0, 1]: a bool without axes."""
    inside = xp.logical_and(
        xp.logical_and(xp.ge(x, 0.0), xp.le(x, 1.0)), xp.logical_and(xp.ge(y, 0.0), xp.le(y, 1.0))
    )
    return xp.all(inside, axis=tuple(range(len(x.shape))), keepdims=False)


@opaque(
    shape=lambda x, test: x,
    dtype=lambda dtypes, statics: dtypes[0],
    differentiable=False,
    public=None,
    may_raise=True,
    leads=True,
)
def checked(xp, x, *, test):
    """``x``, or an error where its elements are not what ``test`` says."""
    return xp.checked(x, test=test)
