"""Max pooling by compiled loops, where there are some: ``jtorch`` fills in what finds them.

See ``native/pooling.py``; this package knows nothing of it, and ``ops/pooling.py`` says what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray

find: Callable[[], Any] | None = None


def max_pool(x: Array, **geometry: Any) -> tuple[Array, Array] | None:
    """As ``ops/pooling.py`` says; None where there are no loops for it."""
    return None if find is None else find().max_pool(x, **geometry)


def max_unpool(g: Array, place: Array, shape: tuple[int, ...], **geometry: Any) -> Array | None:
    """The gradient of the images; None where there are no loops for it."""
    return None if find is None else find().max_unpool(g, place, tuple(shape), **geometry)
