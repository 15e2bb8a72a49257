"""Convolution over any number of spatial axes, as composites of windows and matrix products.

``convolution`` is one product: of the weight and of what each output position sees, a view of the images
in which elements stand as often as windows share them. It is linear in the image and in the weight, and
so are the two adjoints declared beside it: ``convolution_input`` (the gradient of the image, which is the
transposed convolution) and ``convolution_weight``. The gradient of each of the three is said with the
other two.

In all three ``low`` and ``high`` are the zeros before and after each spatial axis.
"""

from __future__ import annotations

import functools
import itertools
import math

from jtorch.core.op import composite
from jtorch.core.sizes import has_negative
from jtorch.ops.routines import direct, runs_at_once

_MOST_TAPS = 49  # of a window that is gone through tap by tap


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


def refolded(xp, columns, sizes, low, high, stride, dilation):
    """The adjoint of padding and windows: images of ``sizes`` from (N, C, *kernel, *places)."""
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


def _grouped(xp, t, groups, axis):
    """``t`` with axis ``axis`` as (groups, the rest of it) where there are several groups."""
    if groups == 1:
        return t
    split = (*t.shape[:axis], groups, t.shape[axis] // groups, *t.shape[axis + 1 :])
    return xp.reshape(t, shape=split)


def _images_first(groups, rank):
    """``dot_general``'s order of a result (groups?, O, N, *places) as (N, groups?, O, *places)."""
    several = int(groups > 1)
    n = 1 + several
    return (n, *range(n), *range(n + 1, n + 1 + rank))


def _whole_images(xp, out, groups):
    """(N, groups?, O, *places) with the channels of all groups on one axis."""
    if groups == 1:
        return out
    n, g, o, *places = out.shape
    return xp.reshape(out, shape=(n, g * o, *places))


def _pairs(groups, first, second):
    """``dot_general``'s axes that go together: groups, where there are several."""
    return ((first,), (second,)) if groups > 1 else ((), ())


def _plus_bias(xp, out, bias):
    """``out`` (N, O, ...), which is nobody else's, plus ``bias`` (O,)."""
    if bias is None:
        return out
    bias = xp.reshape(bias, shape=(out.shape[1], *(1,) * (len(out.shape) - 2)))
    found = direct(xp, "_temporaries", "plus", out, bias)
    return out + bias if found is None else found


def _bias_gradient(xp, g):
    return xp.sum(g, axis=(0, *range(2, len(g.shape))), keepdims=False)


def _forward(xp, x, weight, bias, groups, **geometry):
    out = _correlated(xp, padded(xp, x, geometry["low"], geometry["high"]), weight, groups, geometry)
    return _plus_bias(xp, out, bias)


def _correlated(xp, x, weight, groups, geometry):
    """Padded images (N, C, ...) and weight (O, C/groups, *kernel) to (N, O, *places)."""
    if _depthwise(xp, weight.shape, groups):
        return _channel_by_channel(xp, x, weight, geometry)
    seen = _seen(xp, x, weight.shape[2:], groups, geometry)  # (N, groups?, C/groups, *places, *kernel)
    batch, inner, order = _axes_of_images(len(weight.shape) - 2, int(groups > 1))
    out = xp.dot_general(_grouped(xp, weight, groups, 0), seen, batch=batch, inner=inner, order=order)
    return _whole_images(xp, out, groups)


@functools.cache
def _axes_of_images(rank, several):
    """``dot_general``'s axes of a weight and of what is seen: those that go together and those that it adds
    up, and the order of its result."""
    inner_weight = tuple(range(1 + several, 2 + several + rank))
    inner_seen = (1 + several, *range(2 + several + rank, 2 + several + 2 * rank))
    groups = 1 + several  # as good as any number
    return _pairs(groups, 0, 1), (inner_weight, inner_seen), _images_first(groups, rank)


def _depthwise(xp, weight_shape, groups):
    """Whether each channel is convolved alone, as a sum of images that becomes one loop.

    A product would have one row and as many sums as taps: a third of the speed, but where each image of the
    sum would be made for itself it takes a fifth to two thirds of the time.
    """
    alone = groups > 1 and tuple(weight_shape[:2]) == (groups, 1) and not runs_at_once(xp)
    return alone and math.prod(weight_shape[2:]) <= _MOST_TAPS


def _taps(xp, x, kernel, geometry):
    """For each position in a window, what all windows of padded images see there: (N, C, *places)."""
    stride, dilation = geometry["stride"], geometry["dilation"]
    places = window_counts(x.shape[2:], kernel, stride, dilation)
    for at in itertools.product(*map(range, kernel)):
        start = [i * d for i, d in zip(at, dilation, strict=True)]
        stop = [b + (p - 1) * s + 1 for b, p, s in zip(start, places, stride, strict=True)]
        yield xp.slice(x, start=(0, 0, *start), stop=(*x.shape[:2], *stop), step=(1, 1, *stride))


def _channel_by_channel(xp, x, weight, geometry, turned=False):
    """A sum of images, one for each tap: what a compiled loop adds up in registers. ``turned``: of the weight
    turned around."""
    c, kernel = weight.shape[0], tuple(weight.shape[2:])
    factors = xp.reshape(weight, shape=(c, *kernel))  # of which a part stands beside images as it is
    places = list(itertools.product(*map(range, kernel)))
    out = None
    for at, seen in zip(reversed(places) if turned else places, _taps(xp, x, kernel, geometry), strict=True):
        stop = (c, *(k + 1 for k in at))
        term = seen * xp.slice(factors, start=(0, *at), stop=stop, step=(1,) * len(stop))
        out = term if out is None else out + term
    return out


def _seen(xp, x, kernel, groups, geometry):
    """What each place of padded images sees: (N, groups?, C/groups, *places, *kernel), without a copy."""
    stride, dilation = geometry["stride"], geometry["dilation"]
    return xp.windows(_grouped(xp, x, groups, 1), kernel=tuple(kernel), stride=stride, dilation=dilation)


def _for_input(xp, g, weight, sizes, groups, **geometry):
    alone = _depthwise(xp, weight.shape, groups)
    if max(geometry["stride"]) > 1 and not alone:
        return _spread(xp, g, weight, sizes, groups, **geometry)
    # each element of an image is in the windows of the places before it: g seen through the weight backwards
    kernel, dilation = tuple(weight.shape[2:]), geometry["dilation"]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    low = [n - lo for n, lo in zip(reach, geometry["low"], strict=True)]
    apart = [(m - 1) * s + 1 for m, s in zip(g.shape[2:], geometry["stride"], strict=True)]
    high = [n + lo - m for n, lo, m in zip(sizes, geometry["low"], apart, strict=True)]
    around = _bordered(xp, g, low, high, [s - 1 for s in geometry["stride"]])
    ones = {"stride": (1,) * len(kernel), "dilation": dilation}
    if alone:
        return _channel_by_channel(xp, around, weight, ones, turned=True)
    seen = _seen(xp, around, kernel, groups, ones)  # (N, groups?, O/groups, *sizes, *kernel)
    r, several = len(kernel), int(groups > 1)
    taps = tuple(range(2 + several + r, 2 + several + 2 * r))
    if math.prod(kernel) > 1:  # what is seen is turned around: the weight is packed as it lies then
        seen = _turned(xp, seen, taps)
    out = xp.dot_general(
        _grouped(xp, weight, groups, 0), seen, batch=_pairs(groups, 0, 1),
        inner=((several, *range(2 + several, 2 + several + r)), (1 + several, *taps)),
        order=_images_first(groups, r),
    )  # fmt: skip
    return _whole_images(xp, out, groups)


def _turned(xp, seen, axes):
    """``seen`` with ``axes`` turned around. What a user may ask for is a copy, but nobody keeps this one."""
    found = direct(xp, "_temporaries", "turned", seen, axes)
    return xp.flip(seen, axes=axes) if found is None else found


def _bordered(xp, x, low, high, between):
    """``padded``, where negative numbers take away, and with zeros between the elements, too."""
    if any(between) or any(n > 0 for n in (*low, *high)):
        before, after = ((0, 0, *(max(n, 0) for n in border)) for border in (low, high))
        x = xp.pad(x, low=before, high=after, interior=(0, 0, *between))
    if not has_negative((*low, *high)):
        return x
    start = (0, 0, *(max(-n, 0) for n in low))
    stop = (*x.shape[:2], *(n - max(-h, 0) for n, h in zip(x.shape[2:], high, strict=True)))
    return xp.slice(x, start=start, stop=stop, step=(1,) * len(x.shape))


def _spread(xp, g, weight, sizes, groups, **geometry):
    """The gradient of images that windows step over: each place's share, added up where it came from."""
    n, r, several = g.shape[0], len(sizes), int(groups > 1)
    m = several + 1 + r  # axes before N in (groups?, C/groups, *kernel, N, *places)
    shares = xp.dot_general(
        _grouped(xp, weight, groups, 0), _grouped(xp, g, groups, 1), batch=_pairs(groups, 0, 1),
        inner=((several,), (1 + several,)), order=(m, *range(m), *range(m + 1, m + 1 + r)),
    )  # fmt: skip
    columns = xp.reshape(shares, shape=(n, weight.shape[1] * groups, *weight.shape[2:], *g.shape[2:]))
    return refolded(xp, columns, sizes, **geometry)


def _for_weight(xp, g, x, kernel, groups, **geometry):
    """The sum over images and places of what came back times what was seen."""
    r, several = len(kernel), int(groups > 1)
    x = padded(xp, x, geometry["low"], geometry["high"])
    if _depthwise(xp, (g.shape[1], x.shape[1] // groups, *kernel), groups):
        places = (0, *range(2, 2 + r))
        sums = [xp.sum(g * t, axis=places, keepdims=False) for t in _taps(xp, x, kernel, geometry)]
        out = xp.reshape(xp.cat(*sums, axis=0), shape=(*kernel, 1, groups))
        return xp.permute(out, axes=(r + 1, r, *range(r)))
    seen = _seen(xp, x, kernel, groups, geometry)
    places = (0, *range(2 + several, 2 + several + r))  # images and places, of both
    back, batch = _grouped(xp, g, groups, 1), _pairs(groups, 1, 1)
    o, columns = g.shape[1] // groups, x.shape[1] // groups * math.prod(kernel)
    last = several + 1 + r  # of (groups?, O/groups, C/groups, *kernel)
    if o <= columns:
        out = xp.dot_general(back, seen, batch=batch, inner=(places, places), order=tuple(range(last + 1)))
    else:  # the longer one runs along the columns of the product
        order = (*range(several), last, *range(several, last))
        out = xp.dot_general(seen, back, batch=batch, inner=(places, places), order=order)
    return xp.reshape(out, shape=(g.shape[1], x.shape[1] // groups, *kernel))


_CROSSED = {"x": "weight", "weight": "x"}  # each is saved for the gradient of the other


@composite(
    grad_name="ConvolutionBackward0",
    dtype="as_is",
    public=None,
    like_first=True,
    saved_for=_CROSSED,
    autocast="lower",
)
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


@composite(
    grad_name="ConvolutionBackward0",
    dtype="as_is",
    public=None,
    like_first=True,
    saved_for=_CROSSED,
    autocast="lower",
)
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
