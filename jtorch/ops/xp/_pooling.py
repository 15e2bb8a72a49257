"""Max pooling by compiled loops, where there are some: ``jtorch`` fills in what finds them.

See ``native/pooling.py``; this package knows nothing of it, and ``ops/pooling.py`` says what is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core import higher

Array = np.ndarray


def max_pool(x: Array, **geometry: Any) -> tuple[Array, Array] | None:
    """As ``ops/pooling.py`` says; None where there are no loops for it."""
    if higher.pooling is None:
        return None
    if x.ndim != 3:
        return higher.pooling().max_pool(x, **geometry)
    found = higher.pooling().max_pool(x[:, :, None], **_one_row(geometry))
    return None if found is None else (found[0][:, :, 0], found[1][:, :, 0])


def max_unpool(g: Array, place: Array, shape: tuple[int, ...], **geometry: Any) -> Array | None:
    """The gradient of the images; None where there are no loops for it."""
    if higher.pooling is None:
        return None
    shape = tuple(shape)
    if len(shape) != 3:
        return higher.pooling().max_unpool(g, place, shape, **geometry)
    rows = (*shape[:2], 1, shape[2])
    found = higher.pooling().max_unpool(g[:, :, None], place[:, :, None], rows, **_one_row(geometry))
    return None if found is None else found.reshape(shape)


def _one_row(geometry: dict[str, Any]) -> dict[str, Any]:
    """That of lines as images of one row each."""
    return {name: (int(name != "padding"), *numbers) for name, numbers in geometry.items()}
