"""Python texts of sizes, to be worked out all at once for a call's sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jtorch.core.dim import Dim, DimFloat


class Expressions:
    """Texts, each once, and the number of each among them."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def of(self, value: Any) -> int:
        """The number of an expression, or of a plain number."""
        text = value.text if type(value) in (Dim, DimFloat) else repr(value)
        return self.texts.setdefault(text, len(self.texts))

    def function(self, names: Sequence[str], space: Mapping[str, Any]) -> Callable[..., list[Any]]:
        """Of sizes of these ``names``: all expressions, in their order; texts see ``space``."""
        text = f"lambda {', '.join(names)}: [{', '.join(self.texts)}]"
        return eval(compile(text, "<jtorch sizes>", "eval"), dict(space))
