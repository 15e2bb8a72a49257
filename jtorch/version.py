"""The version that scripts see: the PyTorch release whose behaviour jtorch follows.

Source: https://docs.pytorch.org/docs/stable/torch.html
"""

from __future__ import annotations

import re
from typing import Any


class TorchVersion(str):
    """A version as a text that compares by its numbers: ``__version__ >= (2, 0)`` and ``>= "1.10"``."""

    __slots__ = ()

    def _numbers(self) -> tuple[int, ...]:
        return _numbers(self)

    def __lt__(self, other: Any) -> bool:
        return self._numbers() < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return self._numbers() <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return self._numbers() > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return self._numbers() >= _numbers(other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and "+" in other:
            return str.__eq__(self, other)
        return isinstance(other, (str, tuple, list)) and self._numbers() == _numbers(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _numbers(version: Any) -> tuple[int, ...]:
    """(2, 13) for "2.13.0+cpu": without trailing zeros, so that 2.0 equals 2."""
    parts = re.findall(r"\d+", str(version).split("+")[0]) if isinstance(version, str) else list(version)
    found = [int(part) for part in parts]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


__version__ = TorchVersion("2.13.0+jtorch")
cuda: str | None = None
hip: str | None = None
git_version: str | None = None
debug = False
