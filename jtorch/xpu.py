"""GPUs of Intel: this build has none.

Source: https://docs.pytorch.org/docs/stable/xpu.html
"""

from __future__ import annotations

from typing import NoReturn

from jtorch.compat.absent_gpu import (
    device_count as device_count,
    is_available as is_available,
    manual_seed as manual_seed,
)


def empty_cache() -> NoReturn:
    raise RuntimeError("Cannot execute emptyCache() without XPU backend.")


def synchronize() -> NoReturn:
    raise RuntimeError("Cannot execute synchronize() without XPU backend.")
