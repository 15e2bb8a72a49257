"""Accelerators: this build has none, and says so.

Source: https://docs.pytorch.org/docs/stable/accelerator.html
"""

from __future__ import annotations

from typing import Any, NoReturn

from jtorch.core.devices import DeviceError, device


def is_available() -> bool:
    """False: tensors are computed on the CPU."""
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available: bool = False) -> device | None:
    """None: there is no accelerator."""
    return None


def _none() -> NoReturn:
    raise DeviceError("Cannot access accelerator device when none is available.")


def current_device_index() -> int:
    _none()


def current_device_idx() -> int:
    _none()


def set_device_index(device: Any, /) -> None:
    _none()


def set_device_idx(device: Any, /) -> None:
    _none()


def current_stream(device: Any = None, /) -> Any:
    _none()


def set_stream(stream: Any) -> None:
    _none()


def synchronize(device: Any = None, /) -> None:
    """Raises DeviceError: PyTorch refuses, too, where there is nothing to wait for."""
    _none()
