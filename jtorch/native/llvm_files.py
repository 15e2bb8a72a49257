"""LLVM text that is written by hand: the files in ``llvm/``, whose gaps are words in capitals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).with_name("llvm")


def read(name: str, gaps: Mapping[str, Any] | None = None) -> str:
    """The text of ``llvm/NAME.ll``, with what belongs into its gaps."""
    return filled((_FOLDER / f"{name}.ll").read_text(encoding="utf-8"), gaps or {})


def filled(text: str, gaps: Mapping[str, Any]) -> str:
    """``text`` with each gap replaced: long names first, as others may be a part of them."""
    for name in sorted(gaps, key=len, reverse=True):
        text = text.replace(name, str(gaps[name]))
    return text
