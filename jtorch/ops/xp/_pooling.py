"""Max pooling by compiled loops, where there are some: ``jtorch`` fills in what finds them.

See ``native/pooling.py``; this package knows nothing of it, and ``ops/pooling.py`` says what is computed.
"""

from __future__ import annotations

import numpy as np

from jtorch.core import higher

Array = np.ndarray
Numbers = tuple[int, ...]


def max_pool(x: Array, *geometry: Numbers) -> tuple[Array, Array] | None:
    """As ``ops/pooling.py`` says; ``geometry`` is places, kernel, stride, padding and dilation. None where
    there are no loops for it."""
    return None if higher.pooling is None else higher.pooling().max_pool(x, *geometry)


def max_unpool(g: Array, place: Array, shape: Numbers, *geometry: Numbers) -> Array | None:
    """The gradient of the images; None where there are no loops for it."""
    return None if higher.pooling is None else higher.pooling().max_unpool(g, place, tuple(shape), *geometry)
