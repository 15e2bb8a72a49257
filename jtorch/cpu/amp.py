"""``torch.cpu.amp``: mixed precision on the CPU, under the names it had before ``torch.amp``.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from typing import Any

from jtorch.amp import GradScaler as _GradScaler, autocast as _autocast
from jtorch.amp.autocast_mode import warn_of_early_name as _warn_of_early_name
from jtorch.core.dtypes import bfloat16 as _bfloat16


class autocast(_autocast):  # noqa: N801 - PyTorch's name
    """``torch.amp.autocast("cpu", ...)``, as a FutureWarning says"""

    def __init__(self, enabled: bool = True, dtype: Any = _bfloat16, cache_enabled: bool = True) -> None:
        _warn_of_early_name("autocast", "cpu")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """``torch.amp.GradScaler("cpu", ...)``, as a FutureWarning says"""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn_of_early_name("GradScaler", "cpu")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__all__ = ["GradScaler", "autocast"]
