"""Convolution over any number of spatial axes, as composites of windows and matrix products.

``convolution`` unfolds each image into columns, one per output position, and multiplies them by the weight
seen as a matrix. It is linear in the image and in the weight, and so are the two adjoints declared
beside it: ``convolution_input`` (the gradient of the image, which is the transposed convolution) and
``convolution_weight``. The gradient of each of the three is said with the other two.

Where the namespace has routines of its own for the common case (NumPy's has, see ``ops/xp/_convolution.py``),
they are asked first; traced and differentiated again, a convolution is always the composite.

In all three ``low`` and ``high`` are the zeros before and after each spatial axis.
"""

from __future__ import annotations

import math

from jtorch.core.op import composite
from jtorch.ops.contraction import swap
from jtorch.ops.routines import direct


def padded(xp, x, low, high):
    """``x`` (N, C, ...) with zeros around its images."""
    if not any(low) and not any(high):
        return x
    return xp.pad(x, low=(0, 0, *low), high=(0, 0, *high), interior=(0,) * len(x.shape))


def cropped(xp, x, low, sizes):
    """The part of images ``x`` that begins at ``low`` and has ``sizes``."""
    if tuple(x.shape[2:]) == tuple(sizes):
        return x
    stop = (*x.shape[:2], *(lo + n for lo, n in zip(low, sizes, strict=True)))
    return xp.slice(x, start=(0, 0, *low), stop=stop, step=(1,) * len(x.shape))


def unfolded(xp, x, kernel, stride, dilation):
    """(N, C, *kernel, *places): what each place of padded images sees, without a copy."""
    seen = xp.windows(x, kernel=kernel, stride=stride, dilation=dilation)
    r = len(kernel)
    return xp.permute(seen, axes=(0, 1, *range(2 + r, 2 + 2 * r), *range(2, 2 + r)))


def refolded(xp, columns, sizes, low, high, stride, dilation):
    """The adjoint of padding and ``unfolded``: images of ``sizes`` from (N, C, *kernel, *places)."""
    r = len(sizes)
    n, c = columns.shape[:2]
    whole = tuple(a + m + b for a, m, b in zip(low, sizes, high, strict=True))
    images = xp.fold(
        xp.permute(columns, axes=(0, 1, *range(2 + r, 2 + 2 * r), *range(2, 2 + r))),
        shape=(n, c, *whole), kernel=tuple(columns.shape[2 : 2 + r]), stride=stride, dilation=dilation,
    )  # fmt: skip
    return cropped(xp, images, low, sizes)


def window_counts(sizes, kernel, stride, dilation):
    """How many windows fit along each axis."""
    return tuple(
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    )


def _matrix(xp, weight, groups, n):
    """The weight as (O, K), or as (n, groups, O/groups, K) without a copy where there are groups."""
    o, k = weight.shape[0], math.prod(weight.shape[1:])
    if groups == 1:
        return xp.reshape(weight, shape=(o, k))
    matrix = xp.reshape(weight, shape=(groups, o // groups, k))
    return xp.expand(matrix, shape=(n, groups, o // groups, k))


def _rows(xp, g, groups):
    """Outputs (N, O, *places) as (N, [groups,] O/groups, places)."""
    n, o = g.shape[:2]
    lead = (n, o) if groups == 1 else (n, groups, o // groups)
    return xp.reshape(g, shape=(*lead, math.prod(g.shape[2:])))


def _columns(xp, x, kernel, groups, stride, low, high, dilation):
    """(N, [groups,] C/groups * kernel, places): what each output position of an image sees."""
    seen = unfolded(xp, padded(xp, x, low, high), kernel, stride, dilation)
    n, c = x.shape[:2]
    k = math.prod(kernel)
    lead = (n, c * k) if groups == 1 else (n, groups, c // groups * k)
    return xp.reshape(seen, shape=(*lead, math.prod(seen.shape[2 + len(kernel) :])))


def _plus_bias(xp, out, bias):
    """``out`` (N, O, ...) plus ``bias`` (O,)."""
    if bias is None:
        return out
    return out + xp.reshape(bias, shape=(out.shape[1], *(1,) * (len(out.shape) - 2)))


def _bias_gradient(xp, g):
    return xp.sum(g, axis=(0, *range(2, len(g.shape))), keepdims=False)


def _forward(xp, x, weight, bias, groups, **geometry):
    found = direct(xp, "_convolution", "forward", x, weight, bias, groups, **geometry)
    if found is not None:
        return found
    kernel = tuple(weight.shape[2:])
    columns = _columns(xp, x, kernel, groups, **geometry)
    out = xp.matmul(_matrix(xp, weight, groups, x.shape[0]), columns)
    sizes = [a + n + b for a, n, b in zip(geometry["low"], x.shape[2:], geometry["high"], strict=True)]
    places = window_counts(sizes, kernel, geometry["stride"], geometry["dilation"])
    return _plus_bias(xp, xp.reshape(out, shape=(x.shape[0], weight.shape[0], *places)), bias)


def _for_input(xp, g, weight, sizes, groups, **geometry):
    found = direct(xp, "_convolution", "for_input", g, weight, sizes, groups, **geometry)
    if found is not None:
        return found
    n, c = g.shape[0], weight.shape[1] * groups
    columns = xp.matmul(swap(xp, _matrix(xp, weight, groups, n)), _rows(xp, g, groups))
    columns = xp.reshape(columns, shape=(n, c, *weight.shape[2:], *g.shape[2:]))
    return refolded(xp, columns, sizes, **geometry)


def _for_weight(xp, g, x, kernel, groups, **geometry):
    """Sum over the batch of ``rows @ columns.T``: one small product per image, or one large one."""
    found = direct(xp, "_convolution", "for_weight", g, x, kernel, groups, **geometry)
    if found is not None:
        return found
    rows, columns = _rows(xp, g, groups), _columns(xp, x, kernel, groups, **geometry)
    shape = (g.shape[1], x.shape[1] // groups, *kernel)
    if rows.shape[-1] >= rows.shape[-2]:  # then the products per image are no larger than the columns
        products = xp.matmul(rows, swap(xp, columns))
        return xp.reshape(xp.sum(products, axis=(0,), keepdims=False), shape=shape)
    last = len(rows.shape) - 1
    batch_inside = (*range(1, last), 0, last)  # (N, ..., R, P) to (..., R, N, P)

    def flat(t):
        t = xp.permute(t, axes=batch_inside)
        return xp.reshape(t, shape=(*t.shape[:-2], t.shape[-2] * t.shape[-1]))

    return xp.reshape(xp.matmul(flat(rows), swap(xp, flat(columns))), shape=shape)


_CROSSED = {"x": "weight", "weight": "x"}  # each is saved for the gradient of the other


@composite(grad_name="ConvolutionBackward0", dtype="as_is", public=None, like_first=True, saved_for=_CROSSED)
def convolution(xp, x, weight, bias, *, stride, low, high, dilation, groups):
    """x (N, C, ...), weight (O, C/groups, *kernel), bias (O,) to (N, O, ...)"""
    return _forward(xp, x, weight, bias, groups, stride=stride, low=low, high=high, dilation=dilation)


@convolution.vjp
def _(xp, g, x, weight, needs, stride, low, high, dilation, groups):
    at = {"stride": stride, "low": low, "high": high, "dilation": dilation}
    return (
        _for_input(xp, g, weight, tuple(x.shape[2:]), groups, **at) if needs[0] else None,
        _for_weight(xp, g, x, tuple(weight.shape[2:]), groups, **at) if needs[1] else None,
        _bias_gradient(xp, g) if needs[2] else None,
    )


@composite(grad_name="ConvolutionBackward0", dtype="as_is", public=None, like_first=True, saved_for=_CROSSED)
def convolution_input(xp, x, weight, bias, *, sizes, stride, low, high, dilation, groups):
    """x (N, O, ...), weight (O, C/groups, *kernel), bias (C,) to (N, C, *sizes): ``convolution`` backwards"""
    out = _for_input(xp, x, weight, sizes, groups, stride=stride, low=low, high=high, dilation=dilation)
    return _plus_bias(xp, out, bias)


@convolution_input.vjp
def _(xp, g, x, weight, needs, stride, low, high, dilation, groups):
    at = {"stride": stride, "low": low, "high": high, "dilation": dilation}
    return (
        _forward(xp, g, weight, None, groups, **at) if needs[0] else None,
        _for_weight(xp, x, g, tuple(weight.shape[2:]), groups, **at) if needs[1] else None,
        _bias_gradient(xp, g) if needs[2] else None,
    )
