"""``fused=True``: the updates of all parameters as one compiled call."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import jtorch

_KERNELS_KNOW = ("float32", "float64")


def fused(update: Callable[[], None], groups: Sequence[dict[str, Any]]) -> Callable[[], None]:
    """``update`` compiled; as it is where Numba is missing or kernels don't know a parameter's dtype."""
    dtypes = {p.dtype.name for group in groups for p in group["params"]}
    if not dtypes.issubset(_KERNELS_KNOW) or importlib.util.find_spec("numba") is None:
        return update
    compiler: Any = jtorch.compile  # a module that is called
    return compiler(update)
