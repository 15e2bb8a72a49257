"""Arguments of transforms: checked, and random ones drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jtorch

TWO_SIZES = "Please provide only two dimensions (h, w) for size."


def two(size: Any, error_msg: str) -> Any:
    """(height, width). Raises ValueError, with this text, for another count."""
    if isinstance(size, int):
        return size, size
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(error_msg)
    return size


def happens(p: float) -> bool:
    """True with probability ``p``."""
    return bool(jtorch.rand(1).item() < p)


def uniform(low: float, high: float) -> float:
    return low + (high - low) * float(jtorch.rand(1, dtype=jtorch.float64).item())


def whole(low: int, high: int) -> int:
    """One of ``low`` to ``high - 1``."""
    return int(jtorch.randint(low, high, (1,)).item())
