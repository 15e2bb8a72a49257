"""Files of checkpoints: written whole by a thread, kept as long as they are wanted, found again.

A file is named by a number that only grows, so that the newest is known without a clock, and after a run has
gone on from an older one.
"""

from __future__ import annotations

import re
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jtorch.core.errors import DataError
from jtorch.serialization import load
from jtorch.serialization.torch_writer import to_bytes
from jtorch.utils.files import write_atomically

_NAME = re.compile(r"(\d+)-epoch=\d+-step=\d+\.ckpt")


def write(state: dict[str, Any], path: Path) -> None:
    """Plain data alone: TypeError, naming the place, for what reading would have to unpickle."""
    write_atomically(path, to_bytes(state))


def read(path: Path) -> dict[str, Any]:
    """Raises FileNotFoundError, and DataError for a file that is broken or of another kind."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()  # compares the checksum of each tensor
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
        raise DataError(f"{path}: {error}") from None
    if broken is not None:
        raise DataError(f"{path}: the checksum of {broken!r} is wrong")
    state = load(path)
    if not isinstance(state, dict) or "global_step" not in state:
        raise DataError(f"{path}: no checkpoint of a Trainer")
    return state


def all_in(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the oldest first."""
    if not folder.is_dir():
        return []
    return sorted((p for p in folder.iterdir() if _NAME.fullmatch(p.name)), key=number)


def number(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    return int(found[1]) if found else 0


def newest(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The last one that can be read, and what is in it; None for a folder without any.

    Warns of each that is passed over. Raises DataError where all are broken.
    """
    paths = all_in(folder)
    for path in reversed(paths):
        try:
            return path, read(path)
        except (DataError, OSError, NotImplementedError) as error:
            warnings.warn(f"a checkpoint is passed over, for it can't be read: {error}", stacklevel=2)
    if paths:
        raise DataError(f"{folder}: none of {len(paths)} checkpoints can be read; empty it to begin anew")
    return None


def check_writable(folder: Path) -> None:
    """Raise OSError now, rather than after hours of training."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".jtorch-"):
        pass


def remove(folder: Path, keep: int, also: Iterable[str | None]) -> None:
    """All but the last ``keep`` and those of the names ``also``."""
    for path in all_in(folder)[:-keep]:
        if path.name not in also:
            path.unlink(missing_ok=True)


class Writer:
    """One piece of work at a time, in a thread. What it raises is raised by the next call of any method."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Wait for what is pending, then begin this."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(work,), name="jtorch-checkpoint")
        self._thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        """Raise what failed since."""
        error, self._error = self._error, None
        if error is not None:
            error.add_note("raised by the thread that writes checkpoints")
            raise error

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()
