"""Functions of ``scipy.special``, whose import (0.1 s) waits until one is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def of_scipy(name: str, *arguments: Any) -> Array:
    """SciPy's function ``name`` in the dtype of the arguments: by itself it may be float64.

    Nothing is imported for no elements of floats, by which a recording asks whether an op takes a dtype.
    """
    arrays = [a for a in arguments if isinstance(a, np.ndarray | np.generic)]
    dtype = arrays[0].dtype
    if all(a.size == 0 and a.dtype.kind == "f" for a in arrays):
        return np.empty(np.broadcast_shapes(*(a.shape for a in arrays)), dtype)
    from scipy import special

    return np.asarray(getattr(special, name)(*arguments)).astype(dtype, copy=False)
