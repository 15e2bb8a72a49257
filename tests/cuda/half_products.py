"""Products of matrices of 16 bits whose sums are whole numbers: exact in float32, so that rounded once they
are the same in any order, and rounded in parts they are not."""

from __future__ import annotations

import numpy as np

import jtorch
from jtorch.nn import functional as F


def whole(*shape: int, dtype, seed: int = 0):
    """Numbers from 1 to 15, of which products are exact."""
    numbers = np.random.default_rng(seed).integers(1, 16, shape)
    return jtorch.from_numpy(numbers.astype(np.float32)).to(dtype)


SHAPES = {
    "matrices": (lambda x, y: x @ y, [(3, 300), (300, 4)]),
    "turned": (lambda x, y: x.t() @ y.t(), [(300, 3), (4, 300)]),
    "batches": (lambda x, y: x @ y, [(2, 3, 200), (2, 200, 4)]),
    "vectors": (lambda x, y: x @ y, [(400,), (400,)]),
    "parts": (lambda x, y: x[1:, 3:] @ y[3:], [(3, 203), (203, 4)]),
    "a layer": (lambda x, y: F.linear(x, y), [(2, 5, 200), (3, 200)]),
    "two axes of terms": (lambda x, y: jtorch.einsum("abc,acb->a", x, y), [(3, 20, 15), (3, 15, 20)]),
    "windows": (lambda x, y: F.conv1d(x, y), [(2, 40, 9), (4, 40, 3)]),
    "nothing": (lambda x, y: x @ y, [(3, 0), (0, 4)]),
}


def arguments(name: str, dtype) -> list:
    return [whole(*shape, dtype=dtype, seed=k) for k, shape in enumerate(SHAPES[name][1])]
