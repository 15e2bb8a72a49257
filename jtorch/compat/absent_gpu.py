"""What every kind of GPU that this build lacks answers: see ``mps`` and ``xpu``."""

from __future__ import annotations


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: the seed of a GPU that is not there."""
    int(seed)
