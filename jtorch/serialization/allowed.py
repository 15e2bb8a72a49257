"""The classes and functions that ``load`` may use though they are no plain data: those the program lists.

Source: https://docs.pytorch.org/docs/stable/notes/serialization.html#torch.serialization.add_safe_globals
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Listed = Callable[..., Any] | tuple[Callable[..., Any], str]

_listed: list[Listed] = []


def add_safe_globals(safe_globals: list[Listed]) -> None:
    """Let ``load(weights_only=True)`` use these, each a class or function, or (that, the name in the file).

    Instances are made and given their state, by ``__setstate__`` where there is one: list only what does no
    harm with any arguments.
    """
    _listed.extend(one for one in safe_globals if one not in _listed)


def get_safe_globals() -> list[Listed]:
    """What is listed."""
    return list(_listed)


def clear_safe_globals() -> None:
    """Empty the list."""
    _listed.clear()


class safe_globals:  # noqa: N801 - PyTorch's name
    """The list with these in it, inside a ``with`` block."""

    def __init__(self, safe_globals: list[Listed]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._before = get_safe_globals()
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error: object) -> None:
        _listed[:] = self._before


def listed() -> dict[str, Callable[..., Any]]:
    """By their names in a file."""
    return dict(one[::-1] if isinstance(one, tuple) else (_full_name(one), one) for one in _listed)


def _full_name(one: Callable[..., Any]) -> str:
    return f"{one.__module__}.{one.__qualname__}"
