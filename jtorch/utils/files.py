"""Writing files so that nobody ever reads half of one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import re
import secrets
import stat
import time
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_STEM = re.compile(r"\.jtorch-[0-9a-f]{16}\.")  # see ``_stem``
_DAY = 86400.0  # seconds without a write: for a temporary file whose writer can't be asked for


def write_atomically(path: str | os.PathLike, content: bytes) -> None:
    """Make ``content`` the content of ``path``: temporary file, fsync, rename, fsync of the folder.

    Until the rename the old file stays as it was; on any error the temporary file is removed, and what a
    killed process left of this file is removed by the next write. A link stays a link: what it points to is
    written. A file keeps its permissions, and one that may not be written is not replaced; another name of
    it (a hard link) keeps the old content. What is no file (a device, a pipe) is written to as it is. Raises
    OSError, IsADirectoryError for a folder, PermissionError for a read-only file.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as device:
            device.write(content)
        return
    if mode is not None and not os.access(target, os.W_OK):  # the rename itself asks the folder alone
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    stem = _stem(target.name)
    _sweep(target.parent, stem)
    temporary, file = _temporary(target.parent, stem)
    try:
        with file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                temporary.replace(target)  # while the lock is held: a file without one is up for sweeping
        if fcntl is None:  # Windows renames no open file, and removes none either
            temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _temporary(folder: Path, stem: str) -> tuple[Path, BinaryIO]:
    """A new file for writing, locked for as long as it is open."""
    while True:
        path = folder / f"{stem}{_machine()}-{secrets.token_hex(6)}.tmp"
        file = path.open("xb")
        try:
            _lock(file.fileno(), wait=True)
            if os.name != "posix" or os.fstat(file.fileno()).st_nlink:
                return path, file
        except BaseException:
            file.close()
            path.unlink(missing_ok=True)
            raise
        file.close()  # another process swept it before it was locked


def _lock(handle: int, wait: bool) -> bool | None:
    """Take the lock of an open file, which the kernel takes back when the writer closes it or is killed.

    False where another has it, None where the system or the disk has no locks.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _stem(name: str) -> str:
    """What the names of a file's temporary files begin with: short, whatever the file's own is."""
    return f".jtorch-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}."


def _machine() -> str:
    """The running kernel: what containers of one machine share, whatever their names and process numbers.

    Locks tell what it knows. Those of another machine may not reach this one, even on a shared disk.
    """
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        name = platform.node()
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _mode(target: Path) -> int | None:
    """Kind and permissions of what is there; None where nothing is."""
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def sweep(folder: str | os.PathLike) -> None:
    """Remove what killed processes left in a folder of writing files of any name."""
    with contextlib.suppress(OSError):
        names = [path.name for path in Path(folder).iterdir()]
        for stem in {found[0] for name in names if (found := _STEM.match(name))}:
            _sweep(Path(folder), stem)


def _sweep(folder: Path, stem: str) -> None:
    """Remove what processes that are no more left of earlier writes of this file."""
    with contextlib.suppress(OSError):
        with os.scandir(folder) as entries:
            left = [entry.name for entry in entries if entry.name.startswith(stem)]
        for name in left:
            with contextlib.suppress(OSError):
                _remove_left(folder / name, name[len(stem) :].partition("-")[0])


def _remove_left(path: Path, machine: str) -> None:
    """Remove a temporary file whose writer is gone: the lock is free, here. Else nothing for a day tells.

    The lock is held while the file is removed, so that a writer who has just made it and not locked it yet
    waits, and finds it gone.
    """
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        return
    old = time.time() - found.st_mtime > _DAY
    if fcntl is None or not os.access(path, os.W_OK):
        if old:
            path.unlink()
        return
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)  # a lock over NFS needs a file open for writing
    try:
        free = _lock(handle, wait=False)
        if (free and machine == _machine()) or (free is not False and old):
            path.unlink()
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last through a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
