"""Max pooling: one pass over the windows.

NumPy combines one strided slice of the images per position in the window, three times each, and a slice
with steps costs ten times what one without does. For the windows of (64, 6, 24, 24) by 2 x 2 (us, NumPy /
here): 414 / 46, and its gradient 216 / 71. A kernel is compiled for each window and each dtype, not for the
sizes of images.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from jtorch.native import loops

Array = np.ndarray
Numbers = tuple[int, ...]

_RANKS = (1, 2)
_DTYPES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class Window(NamedTuple):
    """What a kernel is compiled for."""

    kernel: Numbers
    stride: Numbers
    padding: Numbers
    dilation: Numbers
    inside: bool  # no window reaches beyond the images


def max_pool(x: Array, places: Numbers, *geometry: Numbers) -> tuple[Array, Array] | None:
    """(the largest of each window, which position of the window it is at) of images (N, C, H, W) or lines
    (N, C, L); ``geometry`` is kernel, stride, padding and dilation.

    Of equal elements the first counts, of NaNs the last. None where no kernel can be had, or is worth it.
    """
    run = _loop("max_pool", x.dtype, x.shape, places, geometry)
    if run is None:
        return None
    best = np.empty((*x.shape[:2], *places), x.dtype)
    place = np.empty(best.shape, np.int8)
    run(best, place, np.ascontiguousarray(x))
    return best, place


def max_unpool(g: Array, place: Array, shape: Numbers, places: Numbers, *geometry: Numbers) -> Array | None:
    """The gradient of the images, of ``shape``: what went to each window at the position that counted."""
    if not g.shape == place.shape == (*shape[:2], *places) or place.dtype != np.int8:
        return None  # what hooks made of them, which NumPy broadcasts or refuses
    run = _loop("max_unpool", g.dtype, shape, places, geometry)
    if run is None:
        return None
    out = np.zeros(shape, g.dtype)
    run(np.ascontiguousarray(g), np.ascontiguousarray(place), out)
    return out


def _loop(
    entry: str, dtype: np.dtype, shape: Numbers, places: Numbers, geometry: tuple[Numbers, ...]
) -> loops.Run | None:
    """What runs ``entry`` on (values and places of windows, images)."""
    key = (entry, dtype, shape, places, geometry)
    known = loops.KNOWN.get(key)
    if known is not None:
        return known
    small = math.prod(shape) < loops.WORTHWHILE or math.prod(geometry[0]) > 127
    if small or len(places) not in _RANKS or dtype not in _DTYPES or not math.prod(places):
        return None
    if len(places) == 1:  # lines are images of one row each
        shape, places = (*shape[:2], 1, shape[2]), (1, *places)
        geometry = tuple((one, *numbers) for one, numbers in zip((1, 1, 0, 1), geometry, strict=True))
    kernel, stride, padding, dilation = geometry
    axes = zip(places, stride, kernel, dilation, shape[2:], strict=True)
    inside = not any(padding) and all((o - 1) * s + (k - 1) * d < n for o, s, k, d, n in axes)
    window = Window(kernel, stride, padding, dilation, inside)
    source = {"max_pool": _max_pool_source, "max_unpool": _max_unpool_source}[entry](_DTYPES[dtype], window)
    numbers = (shape[0] * shape[1], *shape[2:], *places)
    return loops.loop(key, source, entry, 3, numbers, math.prod(shape))


_HEAD = """\
import numpy as np

ARGUMENTS = ("{dtype}*", "i8*", "{dtype}*", "i64", "i64", "i64", "i64", "i64")
LOWEST, ZERO = np.{name}(-np.inf), np.{name}(0)


def {entry}(values, position, images, planes, h, w, oh, ow):
    for p in range(planes):
        for i in range({rows}):
            at = (p * oh + i) * ow
            top = i * {stride[0]} - {padding[0]}
            for j in range({columns}):
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
                if y >= 0 and y < h and x >= 0 and x < w:
                    here = (p * h + y) * w + x
                    images[here] = images[here] + values[at + j]
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
    # the last windows first: what meets at an element is added up as the composite does, by position
    head = _head("max_unpool", dtype, window, "oh - 1, -1, -1", "ow - 1, -1, -1")
    return head + _BACK.format(**window._asdict()) + _PUT + "    return 0\n"


def _head(entry: str, dtype: str, window: Window, rows: str = "oh", columns: str = "ow") -> str:
    name = {"f32": "float32", "f64": "float64"}[dtype]
    facts = window._asdict()
    return _HEAD.format(entry=entry, dtype=dtype, name=name, rows=rows, columns=columns, **facts)


def _element(y: str, x: str, inside: bool) -> str:
    """The element there; beyond the images nothing is lower."""
    element = f"images[(p * h + {y}) * w + {x}]"
    return element if inside else f"{element} if 0 <= {y} < h and 0 <= {x} < w else LOWEST"
