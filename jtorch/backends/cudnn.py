"""cuDNN: not there. Its switches keep what they are set to. Where ``allow_tf32`` is False no product on a
CUDA device is rounded to TF32 (`jtorch.core.settings.allows_tf32`); nothing depends on the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from jtorch.core import settings

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"  # "ieee" sets ``allow_tf32`` to False, "tf32" and "none" to True


class _Switches(ModuleType):
    """This module: products ask for one of its switches."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "allow_tf32":
            settings.allow_tf32_in_convolutions(value)
        elif name == "fp32_precision":
            self.allow_tf32 = settings.asked_precision(value) != "highest"
        super().__setattr__(name, value)


_this = sys.modules[__name__]
_this.__class__ = _Switches
settings.allow_tf32_in_convolutions(allow_tf32)  # where this module is loaded again, too


def is_available() -> bool:
    return False


def version() -> int | None:
    """None: there is no cuDNN."""
    return None


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Set the switches in the ``with`` block."""
    given = dict(locals())
    before = {name: getattr(_this, name) for name in given}
    _set(given)
    try:
        yield
    finally:
        _set(before)


def _set(switches: dict[str, bool | int]) -> None:
    for name, value in switches.items():
        setattr(_this, name, value)
