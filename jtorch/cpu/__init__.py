"""The CPU as a device: the one there is. Source: https://docs.pytorch.org/docs/stable/cpu.html"""

from __future__ import annotations

from typing import Any

from jtorch.cpu import amp as amp


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> str:
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Nothing: every op has finished when it returns."""
