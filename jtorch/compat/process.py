"""Questions and switches of the whole process, as PyTorch has them in the module ``torch``.

Source: https://docs.pytorch.org/docs/stable/torch.html#utilities
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from jtorch.core import devices

_always = [False]


def set_warn_always(b: bool, /) -> None:
    """Taken for compatibility: PyTorch tells some warnings once a process, here ``warnings`` decides that.

    Raises RuntimeError for what is no bool."""
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _always[0] = b


def is_warn_always_enabled() -> bool:
    """What ``set_warn_always`` was given last."""
    return _always[0]


def get_device_module(device: Any = None) -> ModuleType:
    """The module ``jtorch.cpu``, ``jtorch.cuda``... of a device, or of the current one without one.

    Raises RuntimeError where there is none, as for "meta"."""
    kind = devices.device("cpu" if device is None else device).type
    try:
        return importlib.import_module(f"jtorch.{kind}")
    except ImportError:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        ) from None


def compiled_with_cxx11_abi() -> bool:
    """True: there is no C++ to link to."""
    return True
