"""Max pooling: one pass over the windows.

NumPy combines one strided slice of the images per position in the window, three times each, and a slice
with steps costs ten times what one without does. For the windows of (64, 6, 24, 24) by 2 x 2 (us, NumPy /
here): 414 / 46, and its gradient 216 / 71. A kernel is compiled for each window and each dtype, not for the
sizes of images.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jtorch.native import cache

Array = np.ndarray
Pair = tuple[int, int]

_WORTHWHILE = 256  # elements: for fewer it is not worth compiling one
_DTYPES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class Window(NamedTuple):
    """What a kernel is compiled for."""

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    inside: bool  # no window reaches beyond the images


def max_pool(x: Array, places: tuple[int, ...], **geometry: Any) -> tuple[Array, Array] | None:
    """(the largest of each window, which position of the window it is at) of images (N, C, H, W).

    Of equal elements the first counts, of NaNs the last. None where no kernel can be had, or is worth it.
    """
    call = _kernel("max_pool", x.dtype, x.shape, places, geometry)
    if call is None:
        return None
    best = np.empty((*x.shape[:2], *places), x.dtype)
    place = np.empty(best.shape, np.int8)
    call(best, place, np.ascontiguousarray(x))
    return best, place


def max_unpool(
    g: Array, place: Array, shape: tuple[int, ...], places: tuple[int, ...], **geometry: Any
) -> Array | None:
    """The gradient of the images, of ``shape``: what went to each window at the position that counted."""
    if not g.shape == place.shape == (*shape[:2], *places) or place.dtype != np.int8:
        return None  # what hooks made of them, which NumPy broadcasts or refuses
    call = _kernel("max_unpool", g.dtype, shape, places, geometry)
    if call is None:
        return None
    out = np.zeros(shape, g.dtype)
    call(np.ascontiguousarray(g), np.ascontiguousarray(place), out)
    return out


def _kernel(
    entry: str, dtype: np.dtype, shape: tuple[int, ...], places: tuple[int, ...], geometry: dict[str, Any]
) -> Callable | None:
    """What runs ``entry`` on (values and places of windows, images)."""
    small = math.prod(shape) < _WORTHWHILE or math.prod(geometry["kernel"]) > 127
    if small or len(places) != 2 or dtype not in _DTYPES or not math.prod(places):
        return None
    axes = zip(places, geometry["stride"], geometry["kernel"], geometry["dilation"], shape[2:], strict=True)
    inside = not any(geometry["padding"]) and all((o - 1) * s + (k - 1) * d < n for o, s, k, d, n in axes)
    run = _compiled(entry, _DTYPES[dtype], Window(inside=inside, **geometry))
    if run is None:
        return None

    def call(values: Array, position: Array, images: Array) -> None:
        block = [a.__array_interface__["data"][0] for a in (values, position, images)]
        run(_Block(*block, shape[0] * shape[1], *shape[2:], *places))

    return call


_Block = ctypes.c_int64 * 8


@cache.once_offered
def _compiled(entry: str, dtype: str, window: Window) -> Callable:
    """The kernel as a C function of its block of arguments."""
    source = {"max_pool": _max_pool_source, "max_unpool": _max_unpool_source}[entry](dtype, window)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(cache.get_or_build(source, entry).address)


_HEAD = """\
import numpy as np

ARGUMENTS = ("{dtype}*", "i8*", "{dtype}*", "i64", "i64", "i64", "i64", "i64")
LOWEST, ZERO = np.{name}(-np.inf), np.{name}(0)


def {entry}(values, position, images, planes, h, w, oh, ow):
    for p in range(planes):
        for i in range(oh):
            at = (p * oh + i) * ow
            top = i * {stride[0]} - {padding[0]}
            for j in range(ow):
                left = j * {stride[1]} - {padding[1]}
"""

_STEP = """\
                value = {value}
                larger = (value > best) | (value != value)
                best = value if larger else best
                k = {k} if larger else k
"""

_LARGEST = """\
                values[at + j] = best
                position[at + j] = k
    return 0
"""

_BACK = """\
                k = position[at + j]
                y = top + k // {kernel[1]} * {dilation[0]}
                x = left + k % {kernel[1]} * {dilation[1]}
"""

# a border takes nothing, nor does a position that a hook made up
_PUT = """\
                if 0 <= y < h and 0 <= x < w:
                    images[(p * h + y) * w + x] += values[at + j]
"""

_READ = """\
                value = values[at + j]
                k = position[at + j]
"""

_WRITE = """\
                images[(p * h + top + {y}) * w + left + {x}] = value if k == {k} else ZERO
"""


def _max_pool_source(dtype: str, window: Window) -> str:
    lines = [_head("max_pool", dtype, window)]
    for k, (a, b) in enumerate(itertools.product(*map(range, window.kernel))):
        value = _element(f"top + {a * window.dilation[0]}", f"left + {b * window.dilation[1]}", window.inside)
        first = f"                best = {value}\n                k = {_first_inside(window)}\n"
        lines.append(_STEP.format(value=value, k=k) if k else first)
    return "".join([*lines, _LARGEST])


def _first_inside(window: Window) -> str:
    """The first position inside the images, which counts where all are -inf, as the border is."""
    rows, columns = (
        f"max(0, ({d - 1} - {start}) // {d})" if p else "0"
        for start, p, d in zip(("top", "left"), window.padding, window.dilation, strict=True)
    )
    return f"{rows} * {window.kernel[1]} + {columns}"


def _max_unpool_source(dtype: str, window: Window) -> str:
    if window.inside and window.stride == window.kernel and window.dilation == (1, 1):
        # each element lies in one window: written once, without asking where the largest is
        positions = enumerate(itertools.product(*map(range, window.kernel)))
        put = "".join(_WRITE.format(k=k, y=a, x=b) for k, (a, b) in positions)
        return _head("max_unpool", dtype, window) + _READ + put + "    return 0\n"
    return _head("max_unpool", dtype, window) + _BACK.format(**window._asdict()) + _PUT + "    return 0\n"


def _head(entry: str, dtype: str, window: Window) -> str:
    name = {"f32": "float32", "f64": "float64"}[dtype]
    return _HEAD.format(entry=entry, dtype=dtype, name=name, **window._asdict())


def _element(y: str, x: str, inside: bool) -> str:
    """The element there; beyond the images nothing is lower."""
    element = f"images[(p * h + {y}) * w + {x}]"
    return element if inside else f"{element} if 0 <= {y} < h and 0 <= {x} < w else LOWEST"
