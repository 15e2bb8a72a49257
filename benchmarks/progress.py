"""What is being measured, on a terminal: one line of standard error that is written over. Silent elsewhere.

Ctrl-C ends the measuring alone: what was measured until then is kept, and printed.
"""

from __future__ import annotations

import shutil
import sys
from types import TracebackType
from typing import TextIO

from jtorch.core.command import INTERRUPTED


class Progress:
    """``say`` what is being done, ``line`` what was found.

    As a context manager it leaves no line half written; a KeyboardInterrupt ends the block and is noted as
    ``interrupted``.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.interrupted = False
        self._stream = sys.stderr if stream is None else stream
        self._shown = self._stream.isatty()

    def say(self, text: str) -> None:
        """Write over what was said before."""
        if self._shown:
            width = shutil.get_terminal_size().columns
            self._stream.write(f"\r\x1b[K{text[: width - 1]}")
            self._stream.flush()

    def line(self, text: str) -> None:
        """A line that stays."""
        if self._shown:
            self._stream.write(f"\r\x1b[K{text}\n")
            self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.say("")
        self.interrupted = isinstance(error, KeyboardInterrupt)
        return self.interrupted

    def status(self, failed: bool) -> int:
        """The exit status of the command; says on standard error that figures are missing."""
        if self.interrupted:
            print("interrupted: the figures are those measured until then", file=sys.stderr)
            return INTERRUPTED
        return int(failed)
