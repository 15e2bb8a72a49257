"""NNPACK: not used by this build."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["flags", "is_available", "set_flags"]


def is_available() -> bool:
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Taken, without effect. Gives what was set before."""
    return (False,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Taken, without effect."""
    yield
