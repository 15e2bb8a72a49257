"""``torch.cuda.amp``: mixed precision on a GPU, which this build has not.

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

custom_fwd = _functools.partial(_custom_fwd, device_type="cuda")
custom_bwd = _functools.partial(_custom_bwd, device_type="cuda")


class autocast(_autocast):  # noqa: N801 - PyTorch's name
    """``torch.amp.autocast("cuda", ...)``: warns and does nothing, for there is no GPU."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """``torch.amp.GradScaler("cuda", ...)``: warns and passes everything through, for there is no GPU."""

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
