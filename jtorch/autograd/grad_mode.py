"""``jtorch.autograd.grad_mode``: whether ops record.

Source: https://docs.pytorch.org/docs/stable/autograd.html#locally-disabling-gradient-computation
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

__all__ = [
    "enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled",
    "set_multithreading_enabled",
]  # fmt: skip


class set_multithreading_enabled:  # noqa: N801
    """Accepted for PyTorch's sake: a backward pass runs in the thread that called it, either way."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        pass
