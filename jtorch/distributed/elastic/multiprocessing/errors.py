"""``record``, which PyTorch's scripts put on their main function.

Source: https://docs.pytorch.org/docs/stable/elastic/errors.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["record"]


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """``fn`` itself: a process that fails prints its traceback, whatever started it."""
    return fn
