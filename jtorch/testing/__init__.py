"""For tests of programs that use jtorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jtorch.testing.assertions import assert_allclose, assert_close

__all__ = ["assert_allclose", "assert_close", "assert_no_retrace"]


@contextmanager
def assert_no_retrace(function: Any = None) -> Iterator[None]:
    """Inside, no compiled function (or only this one not) may be recorded again.

    The first recording of a function is none of these, nor is a call that its plans answer. Raises
    AssertionError with the table of what was recorded again, and why.

    >>> import jtorch
    >>> double = jtorch.compile(lambda x: x * 2)
    >>> _ = double(jtorch.ones(3))
    >>> with jtorch.testing.assert_no_retrace(double):
    ...     _ = double(jtorch.zeros(3))
    """
    from jtorch.compile.inspect.ledger import Ledger, listening

    if function is not None and not hasattr(function, "retraces"):
        raise TypeError(f"assert_no_retrace takes a compiled function, got {type(function).__name__}")
    seen = Ledger()

    def hear(which: Any, entry: Any) -> None:
        if function is None or which is function:
            seen.append(entry)

    with listening(hear):
        yield
    if seen:
        names = ", ".join(sorted({f"'{entry.function}'" for entry in seen}))
        raise AssertionError(f"recorded again: {names}\n{seen}")
