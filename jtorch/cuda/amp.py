"""``torch.cuda.amp``: mixed precision on a CUDA device, under the names it had before ``torch.amp``.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from collections.abc import Callable as _Callable
from typing import Any

from jtorch.amp import (
    GradScaler as _GradScaler,
    autocast as _autocast,
    custom_bwd as _custom_bwd,
    custom_fwd as _custom_fwd,
)
from jtorch.amp.autocast_mode import warn_of_early_name as _warn_of_early_name
from jtorch.core.dtypes import float16 as _float16


def custom_fwd(fwd: _Callable | None = None, *, cast_inputs: Any = None) -> _Callable:
    """``torch.amp.custom_fwd(..., device_type="cuda")``; a FutureWarning says so."""
    _warn_of_early_name("custom_fwd", "cuda", by_keyword=True)
    return _custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: _Callable) -> _Callable:
    """``torch.amp.custom_bwd(..., device_type="cuda")``; a FutureWarning says so."""
    _warn_of_early_name("custom_bwd", "cuda", by_keyword=True)
    return _custom_bwd(bwd, device_type="cuda")


class autocast(_autocast):  # noqa: N801 - PyTorch's name
    """``torch.amp.autocast("cuda", ...)``, as a FutureWarning says: without a device it warns and does
    nothing."""

    def __init__(self, enabled: bool = True, dtype: Any = _float16, cache_enabled: bool = True) -> None:
        _warn_of_early_name("autocast", "cuda")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """``torch.amp.GradScaler("cuda", ...)``, as a FutureWarning says: without a device it warns and passes
    everything through."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn_of_early_name("GradScaler", "cuda")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
