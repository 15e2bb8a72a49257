"""What a recording raises where Python can't pass it on: in a generator that is left early and closed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def noted_already(refused: Sequence[BaseException]) -> Iterator[None]:
    """The interpreter prints nothing of what is in ``refused``, which the recording raises at its end."""
    before = sys.unraisablehook

    def hook(told: Any) -> None:
        if not any(told.exc_value is error for error in refused):
            before(told)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        if sys.unraisablehook is hook:
            sys.unraisablehook = before
