"""``torch.cuda.amp``: mixed precision on a CUDA device, under the names it had before ``torch.amp``.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

import functools as _functools
from typing import Any

from jtorch.amp import (
    GradScaler as _GradScaler,
    autocast as _autocast,
    custom_bwd as _custom_bwd,
    custom_fwd as _custom_fwd,
)
from jtorch.core.dtypes import float16 as _float16

custom_fwd = _functools.partial(_custom_fwd, device_type="cuda")
custom_bwd = _functools.partial(_custom_bwd, device_type="cuda")


class autocast(_autocast):  # noqa: N801 - PyTorch's name
    """``torch.amp.autocast("cuda", ...)``: without a device it warns and does nothing."""

    def __init__(self, enabled: bool = True, dtype: Any = _float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """``torch.amp.GradScaler("cuda", ...)``: without a device it warns and passes everything through."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
