"""Processes that the script starts: forked ones have the import hook, the others are told to install it."""

from __future__ import annotations

import multiprocessing
from multiprocessing import spawn
from typing import Any

_INSTALL = "from jtorch.as_torch import install; install(); "


def inherit() -> None:
    """Let the children of ``multiprocessing`` install the hook before they read the script."""
    original = spawn.get_command_line

    def command_line(**options: Any) -> list[str]:
        line = original(**options)
        place = line.index("-c") + 1 if "-c" in line else None
        if place is not None:
            line[place] = _INSTALL + line[place]
        return line

    spawn.get_command_line = command_line  # type: ignore[assignment]
    multiprocessing.set_forkserver_preload(["jtorch.as_torch.preload"])
