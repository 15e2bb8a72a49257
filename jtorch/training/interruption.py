"""Ctrl-C and SIGTERM as a question that is asked between steps."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While it is entered a first signal sets ``asked``; a second Ctrl-C is a KeyboardInterrupt at once.

    Signals reach the main thread alone: entered in another one it changes nothing.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        self._owner = os.getpid()
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in _SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _ask(self, number: int, frame: Any) -> None:
        if os.getpid() != self._owner:  # a worker of a loader, forked from here: it ends when its loader does
            if number == signal.SIGTERM:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
