"""Matrix products."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def matmul(x: Array, y: Array) -> Array:
    # two matrices: dot calls the same BLAS and starts 0.5 us sooner
    return x.dot(y) if x.ndim == 2 == y.ndim else np.matmul(x, y)
