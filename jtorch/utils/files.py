"""Writing files so that nobody ever reads half of one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import secrets
import stat
import time
from pathlib import Path

_LEFT_AFTER = 600.0  # seconds without a write, after which a temporary file is nobody's any more


def write_atomically(path: str | os.PathLike, content: bytes) -> None:
    """Make ``content`` the content of ``path``: temporary file, fsync, rename, fsync of the folder.

    Until the rename the old file stays as it was; on any error the temporary file is removed, and what a
    killed process left of this file is removed by the next write. A link stays a link: what it points to is
    written. A file keeps its permissions. What is no file (a device, a pipe) is written to as it is. Raises
    OSError, IsADirectoryError for a folder.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as device:
            device.write(content)
        return
    stem = _stem(target.name)
    _sweep(target.parent, stem)
    temporary = target.with_name(f"{stem}{_machine()}-{os.getpid()}-{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _stem(name: str) -> str:
    """What the names of a file's temporary files begin with: short, whatever the file's own is."""
    return f".jtorch-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}."


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _mode(target: Path) -> int | None:
    """Kind and permissions of what is there; None where nothing is."""
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def _sweep(folder: Path, stem: str) -> None:
    """Remove what processes that are no more left of earlier writes of this file."""
    with contextlib.suppress(OSError):
        with os.scandir(folder) as entries:
            left = [entry.name for entry in entries if entry.name.startswith(stem)]
        for name in left:
            with contextlib.suppress(OSError):
                if _is_left(folder / name, name[len(stem) :]):
                    (folder / name).unlink()


def _is_left(path: Path, rest: str) -> bool:
    """Whether the writer is gone: its process, or any write for ten minutes where another has its number.

    Names hold the machine's, too: on a shared disk the process numbers of another say nothing here.
    """
    machine, _, rest = rest.partition("-")
    number = rest.partition("-")[0]
    if os.name != "posix" or machine != _machine() or not number.isdigit():
        return time.time() - path.stat().st_mtime > 144 * _LEFT_AFTER  # a day
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # somebody else's process
        return False
    return int(number) != os.getpid() and time.time() - path.stat().st_mtime > _LEFT_AFTER


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last through a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
