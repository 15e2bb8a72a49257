"""GPUs of Intel: this build has none.

Source: https://docs.pytorch.org/docs/stable/xpu.html
"""

from __future__ import annotations

from typing import NoReturn


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: the seed of a GPU that is not there."""
    int(seed)


def empty_cache() -> NoReturn:
    raise RuntimeError("Cannot execute emptyCache() without XPU backend.")


def synchronize() -> NoReturn:
    raise RuntimeError("Cannot execute synchronize() without XPU backend.")
