"""Convolution and pooling over images, as composites of windows, matrix products and strided slices.

``conv2d`` unfolds each image into columns, one per output position, and multiplies them by the weight seen
as a matrix. ``max_pool2d`` and ``avg_pool2d`` combine one strided slice per window position, which NumPy
runs at full speed and which fuses into one loop when compiled.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from jtorch.op import composite
from jtorch.ops import axes as ax
from jtorch.ops.contraction import swap

# -- convolution -----------------------------------------------------------------------------------------


def _padded(xp, x, low, high):
    """``x`` (N, C, H, W) with zeros around its images."""
    if not any(low) and not any(high):
        return x
    return xp.pad(x, low=(0, 0, *low), high=(0, 0, *high), interior=(0, 0, 0, 0))


def _columns(xp, x, kernel, stride, dilation, groups):
    """(N, [groups,] C/groups * KH * KW, OH * OW): what each output position of a padded image sees."""
    seen = xp.windows(x, kernel=kernel, stride=stride, dilation=dilation)
    n, c, oh, ow, kh, kw = seen.shape
    rows = xp.permute(seen, axes=(0, 1, 4, 5, 2, 3))
    lead = (n, c * kh * kw) if groups == 1 else (n, groups, c // groups * kh * kw)
    return xp.reshape(rows, shape=(*lead, oh * ow))


def _as_matrix(xp, weight, groups, n):
    """The weight as (O, K), or as (n, groups, O/groups, K) without a copy where there are groups."""
    o, k = weight.shape[0], math.prod(weight.shape[1:])
    if groups == 1:
        return xp.reshape(weight, shape=(o, k))
    matrix = xp.reshape(weight, shape=(groups, o // groups, k))
    return xp.expand(matrix, shape=(n, groups, o // groups, k))


@composite(grad_name="ConvolutionBackward0", dtype="as_is", methods=())
def conv2d(xp, x, weight, bias, *, stride, low, high, dilation, groups):
    """``low`` and ``high`` are the zeros (above, left) and (below, right) of each image."""
    x = _padded(xp, x, low, high)
    kernel = tuple(weight.shape[2:])
    columns = _columns(xp, x, kernel, stride, dilation, groups)
    out = xp.matmul(_as_matrix(xp, weight, groups, x.shape[0]), columns)
    if bias is not None:
        shape = (weight.shape[0], 1) if groups == 1 else (groups, weight.shape[0] // groups, 1)
        out = out + xp.reshape(bias, shape=shape)
    height, width = _window_counts(x.shape[2:], kernel, stride, dilation)
    return xp.reshape(out, shape=(x.shape[0], weight.shape[0], height, width))


@conv2d.vjp
def _(xp, g, x, weight, needs, stride, low, high, dilation, groups):
    gx = gw = gb = None
    n, o = x.shape[0], weight.shape[0]
    places = math.prod(g.shape[2:])
    lead = (n, o) if groups == 1 else (n, groups, o // groups)
    rows = xp.reshape(g, shape=(*lead, places))
    if needs[0]:
        gx = _input_gradient(
            xp, rows, g.shape, x.shape, weight, stride, low, high, dilation, groups
        )
    if needs[1]:
        padded = _padded(xp, x, low, high)
        columns = _columns(xp, padded, tuple(weight.shape[2:]), stride, dilation, groups)
        gw = xp.reshape(_weight_gradient(xp, rows, columns), shape=tuple(weight.shape))
    if needs[2]:
        gb = xp.sum(g, axis=(0, 2, 3), keepdims=False)
    return gx, gw, gb


def _input_gradient(xp, rows, g_shape, x_shape, weight, stride, low, high, dilation, groups):
    n, c, h, w = x_shape
    kernel = tuple(weight.shape[2:])
    columns = xp.matmul(swap(xp, _as_matrix(xp, weight, groups, n)), rows)
    columns = xp.reshape(columns, shape=(n, c, *kernel, *g_shape[2:]))
    whole = (n, c, h + low[0] + high[0], w + low[1] + high[1])
    gx = xp.fold(
        xp.permute(columns, axes=(0, 1, 4, 5, 2, 3)),
        shape=whole, kernel=kernel, stride=stride, dilation=dilation,
    )  # fmt: skip
    if whole == tuple(x_shape):
        return gx
    start = (0, 0, *low)
    stop = (n, c, low[0] + h, low[1] + w)
    return xp.slice(gx, start=start, stop=stop, step=(1, 1, 1, 1))


def _weight_gradient(xp, rows, columns):
    """Sum over the batch of ``rows @ columns.T``: one small product per image, or one large one."""
    if (
        rows.shape[-1] >= rows.shape[-2]
    ):  # then the products per image are no larger than the columns
        return xp.sum(xp.matmul(rows, swap(xp, columns)), axis=(0,), keepdims=False)
    last = rows.ndim - 1
    batch_inside = (*range(1, last), 0, last)  # (N, ..., R, P) to (..., R, N, P)

    def flat(t):
        t = xp.permute(t, axes=batch_inside)
        return xp.reshape(t, shape=(*t.shape[:-2], t.shape[-2] * t.shape[-1]))

    return xp.matmul(flat(rows), swap(xp, flat(columns)))


def _window_counts(sizes, kernel, stride, dilation):
    return tuple(
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    )


@conv2d.face
def _(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of images (N, C, H, W) with ``weight`` (O, C/groups, KH, KW).

    ``padding`` is a number, a pair, "valid" or "same". Gives (N, O, OH, OW). Raises RuntimeError where
    channels, dtypes or sizes don't fit.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html
    """
    stride, dilation = ax.pair(stride), ax.pair(dilation)
    low, high = _padding(padding, weight.shape[2:], stride, dilation)
    _check_conv(input, weight, bias, low, high, dilation, groups)
    statics = {"stride": stride, "low": low, "high": high, "dilation": dilation, "groups": groups}
    return (input, weight, bias), statics


def _padding(padding, kernel, stride, dilation):
    """(zeros before, zeros after) per image axis."""
    if padding == "valid":
        return (0, 0), (0, 0)
    if padding == "same":
        if stride != (1, 1):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    if isinstance(padding, str):
        raise RuntimeError(f"Invalid padding string: {padding!r}")
    both = ax.pair(padding)
    if min(both) < 0:
        raise RuntimeError("negative padding is not supported")
    return both, both


def _check_conv(input, weight, bias, low, high, dilation, groups):
    shape, kernel = input.shape, weight.shape
    if input.ndim != 4:
        raise RuntimeError(
            "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: "
            f"{list(shape)}"
        )
    if weight.ndim != 4:
        raise RuntimeError(f"conv2d: weight must be (O, C/groups, KH, KW), but got {list(kernel)}")
    if kernel[1] * groups != shape[1]:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(kernel)}, expected input{list(shape)} to have "
            f"{kernel[1] * groups} channels, but got {shape[1]} channels instead"
        )
    if kernel[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got "
            f"weight of size {list(kernel)} instead"
        )
    if bias is not None and tuple(bias.shape) != (kernel[0],):
        raise RuntimeError(
            f"Given weight of size {list(kernel)}, expected bias to be 1-dimensional with {kernel[0]} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype is not input.dtype:
            raise RuntimeError(
                f"Input type ({input.dtype}) and {name} type ({other.dtype}) should be the same"
            )
    have = [n + a + b for n, a, b in zip(shape[2:], low, high, strict=True)]
    want = [d * (k - 1) + 1 for d, k in zip(dilation, kernel[2:], strict=True)]
    if have[0] < want[0] or have[1] < want[1]:
        raise RuntimeError(
            f"Calculated padded input size per channel: ({have[0]} x {have[1]}). Kernel size: "
            f"({want[0]} x {want[1]}). Kernel size can't be greater than actual input size"
        )


# -- pooling ---------------------------------------------------------------------------------------------


def _parts(xp, x, kernel, stride, dilation):
    """One strided slice of the padded images per position in the window, row by row."""
    n, c = x.shape[:2]
    height, width = _window_counts(x.shape[2:], kernel, stride, dilation)
    for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
        top, left = i * dilation[0], j * dilation[1]
        bottom = top + (height - 1) * stride[0] + 1
        right = left + (width - 1) * stride[1] + 1
        yield xp.slice(
            x, start=(0, 0, top, left), stop=(n, c, bottom, right), step=(1, 1, *stride)
        )  # fmt: skip


def _bordered(xp, x, padding):
    """``x`` with -inf around its images."""
    if not any(padding):
        return x
    n, c, h, w = x.shape
    p, q = padding
    border = xp.full(-math.inf, shape=(n, c, h + 2 * p, w + 2 * q), dtype=x.dtype)
    return xp.slice_put(border, x, start=(0, 0, p, q), stop=(n, c, p + h, q + w), step=(1, 1, 1, 1))


@composite(
    n_outputs=2, hidden=1, grad_name="MaxPool2DWithIndicesBackward0", dtype="floating", methods=()
)
def max_pool2d(xp, x, *, kernel, stride, padding, dilation):
    """(the largest of each window, which position of the window it is at, row by row)

    Of equal elements the first counts, of NaNs the last, as in PyTorch.
    """
    parts = _parts(xp, _bordered(xp, x, padding), kernel, stride, dilation)
    best = next(parts)
    small = np.dtype(np.int8 if math.prod(kernel) <= 127 else np.int64)
    place = xp.full(0, shape=tuple(best.shape), dtype=small)
    for k, part in enumerate(parts, 1):
        larger = xp.logical_or(xp.gt(part, best), xp.isnan(part))
        place = xp.where(larger, k, place)
        best = xp.maximum(best, part)
    return best, place


@max_pool2d.vjp
def _(xp, g, x_shape, out1, kernel, stride, padding, dilation):
    g = g[0]
    parts = [xp.where(xp.eq(out1, k), g, 0.0) for k in range(math.prod(kernel))]
    return _unpool(xp, parts, x_shape, kernel, stride, padding, dilation)


def _unpool(xp, parts, shape, kernel, stride, padding, dilation):
    """The adjoint of ``_parts``: images that hold the sum of what went into each position."""
    n, c, h, w = shape
    height, width = parts[0].shape[2:]
    tiled = (height * kernel[0], width * kernel[1]) == (h, w)
    if kernel == stride and tiled and not any(padding) and dilation == (1, 1):
        kw = kernel[1]
        rows = [_woven(xp, parts[k : k + kw], 4) for k in range(0, len(parts), kw)]
        return xp.reshape(_woven(xp, rows, 3), shape=tuple(shape))
    # side by side in front: each part stays in one piece, which is what ``fold`` adds up
    windows = xp.reshape(_woven(xp, parts, 0), shape=(*kernel, n, c, height, width))
    windows = xp.permute(windows, axes=(2, 3, 4, 5, 0, 1))
    whole = (n, c, h + 2 * padding[0], w + 2 * padding[1])
    full = xp.fold(windows, shape=whole, kernel=kernel, stride=stride, dilation=dilation)
    if not any(padding):
        return full
    p, q = padding
    return xp.slice(full, start=(0, 0, p, q), stop=(n, c, p + h, q + w), step=(1, 1, 1, 1))


def _woven(xp, parts, axis):
    """Arrays of one shape side by side along a new axis."""
    if len(parts) == 1:
        return xp.unsqueeze(parts[0], axes=(axis,))
    return xp.cat(*(xp.unsqueeze(p, axes=(axis,)) for p in parts), axis=axis)


def _pool_face(name):
    def sizes(input, kernel_size, stride, padding, dilation, ceil_mode):
        kernel, dilation = ax.pair(kernel_size), ax.pair(dilation)
        stride = kernel if stride is None or stride == () else ax.pair(stride)
        padding = ax.pair(padding)
        if ceil_mode:
            raise NotImplementedError(f"{name}(ceil_mode=True) is not there: pad the input instead")
        if min(stride) < 1:
            raise RuntimeError(f"stride should not be zero, got {stride}")
        if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
            raise RuntimeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={max(padding)}, kernel_size={min(kernel)} and dilation={max(dilation)}"
            )
        if input.ndim != 4:
            raise RuntimeError(
                f"{name}(): Expected 3D or 4D input, but got input of size: {list(input.shape)}"
            )
        have = [n + 2 * p for n, p in zip(input.shape[2:], padding, strict=True)]
        counts = _window_counts(have, kernel, (1, 1), dilation)
        if min(counts) < 1:
            c, h, w = input.shape[1:]
            raise RuntimeError(
                f"Given input size: ({c}x{h}x{w}). Calculated output size: ({c}x{max(0, counts[0])}x"
                f"{max(0, counts[1])}). Output size is too small"
            )
        return {"kernel": kernel, "stride": stride, "padding": padding}, dilation

    return sizes


_max_sizes, _avg_sizes = _pool_face("max_pool2d"), _pool_face("avg_pool2d")


@max_pool2d.face
def _(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The largest element of each window of (N, C, H, W) images; borders count as -inf.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html
    """
    if return_indices:
        raise NotImplementedError("max_pool2d(return_indices=True) is not there")
    statics, dilation = _max_sizes(input, kernel_size, stride, padding, dilation, ceil_mode)
    return (input,), statics | {"dilation": dilation}


@composite(grad_name="AvgPool2DBackward0", dtype="floating", methods=())
def avg_pool2d(xp, x, *, kernel, stride, padding, count_borders, divisor):
    """Means of windows; a border of zeros counts where ``count_borders``; ``divisor`` 0 is the count."""
    return _window_sums(xp, x, kernel, stride, padding) * _weights(
        xp, x.shape, x.dtype, kernel, stride, padding, count_borders, divisor
    )


def _window_sums(xp, x, kernel, stride, padding):
    padded = _padded(xp, x, padding, padding)
    if math.prod(kernel) > 16:  # a slice per position would be many passes over little data
        seen = xp.windows(padded, kernel=kernel, stride=stride, dilation=(1, 1))
        return xp.sum(seen, axis=(4, 5), keepdims=False)
    parts = _parts(xp, padded, kernel, stride, (1, 1))
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def _weights(xp, shape, dtype, kernel, stride, padding, count_borders, divisor):
    """What each window's sum is multiplied by: a number, or (1, 1, OH, OW) where borders don't count."""
    if divisor or count_borders or not any(padding):
        return 1.0 / (divisor or math.prod(kernel))
    ones = xp.full(1.0, shape=(1, 1, *shape[2:]), dtype=dtype)
    return 1.0 / _window_sums(xp, ones, kernel, stride, padding)


@avg_pool2d.vjp
def _(xp, g, x_shape, kernel, stride, padding, count_borders, divisor):
    weights = _weights(xp, x_shape, g.dtype, kernel, stride, padding, count_borders, divisor)
    parts = [g * weights] * math.prod(kernel)
    return _unpool(xp, parts, x_shape, kernel, stride, padding, (1, 1))


@avg_pool2d.face
def _(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None,
):  # fmt: skip
    """The mean of each window of (N, C, H, W) images.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool2d.html
    """
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    statics, _ = _avg_sizes(input, kernel_size, stride, padding, 1, ceil_mode)
    return (input,), statics | {
        "count_borders": bool(count_include_pad), "divisor": int(divisor_override or 0)
    }  # fmt: skip
