"""The files of the kernel cache: their folder, their format, and the command that looks after them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import logging
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jtorch.core import config

FORMAT = 1
SUFFIX = ".kernel"

_log = logging.getLogger("jtorch.cache")
_MAGIC = b"jtorch kernel\r\n\0"
# Magic, format, key of the source, checksum of the code, length of the code.
_HEADER = struct.Struct("<16sI32s32sQ")
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_DECIDING = ("native", "compile/codegen")  # folders whose files decide a kernel's code beside its source
_NUMBAS = ("NUMBA_BOUNDSCHECK", "NUMBA_DEBUGINFO", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")  # settings, too
_warned: set[str] = set()


def digest(*parts: bytes) -> bytes:
    """SHA-256 over parts that cannot run into each other."""
    h = hashlib.sha256()
    for part in parts:
        h.update(len(part).to_bytes(8, "little"))
        h.update(part)
    return h.digest()


def _warn_once(subject: str, message: str, *details: object) -> None:
    if subject not in _warned:
        _warned.add(subject)
        _log.warning(message, *details)


# ---- the folder


def root_folder() -> Path | None:
    """Where kernels are kept: JTORCH_CACHE, else the platform's cache folder; None where it is
    switched off.
    """
    chosen = str(config.get("CACHE"))
    if chosen == "0":
        return None
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform not in ("win32", "darwin") and os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "jtorch" / "kernels"
    home = _home()
    if home is None:
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", home))
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = home / ".cache"
    return base / "jtorch" / "kernels"


def _home() -> Path | None:
    """The user's folder; None, with one warning, for a user who has none (a container's number without
    an entry among the passwords): kernels are then compiled in each process.
    """
    try:
        return Path("~").expanduser()
    except RuntimeError:
        _warn_once("home", "no kernel cache: this user has no home folder; set JTORCH_CACHE to a folder")
        return None


def open_folder(warn: bool = True) -> Path | None:
    """The folder for this build and CPU, made if need be; None (with one warning, unless `warn` is
    false) where it cannot be trusted or made.
    """
    folder, refused = try_folder()
    if refused and warn:
        _warn_once(str(root_folder()), "%s", refused)
    return folder


def try_folder() -> tuple[Path | None, str]:
    """(`open_folder`'s folder, why there is none); "" where it is switched off."""
    root = root_folder()
    return (None, "") if root is None else _tried(root, fingerprint, "CACHE")


def shared_folder() -> Path | None:
    """The folder of texts that are the same on all machines, of this version; None where JTORCH_CUDA_TEXTS
    names none. Raises OSError where it cannot be made, or trusted."""
    chosen = str(config.get("CUDA_TEXTS"))
    if not chosen:
        return None
    folder, refused = _tried(Path(chosen).expanduser().absolute(), sources_fingerprint, "CUDA_TEXTS")
    if refused:
        raise OSError(refused)
    return folder


def _tried(root: Path, name: Callable[[], str], setting: str) -> tuple[Path | None, str]:
    try:
        folder = root / name()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        untrusted = next((place for place in (root, folder) if not _is_ours(os.lstat(place))), None)
    except OSError as error:
        return None, f"no kernel cache: {error}"
    if untrusted is not None:
        return None, (
            f"kernel cache not used: others can write to {untrusted} (want: a folder of your own, mode 700); "
            f"set JTORCH_{setting}"
        )
    return folder, ""


def _is_ours(status: os.stat_result) -> bool:
    """A folder or plain file, no link, that belongs to this user and that nobody else may write."""
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return False
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_MAY_WRITE


@functools.cache
def fingerprint() -> str:
    """Name of the folder: a hash of all that decides a kernel's code beside its source. Imports no
    Numba, no LLVM. Raises OSError in an installation without its source: one version's kernels could not
    be told from another's.
    """
    parts = [str(FORMAT), _version("numba"), _version("llvmlite"), sys.platform, _cpu()]
    parts += [os.environ.get(name, "") for name in _NUMBAS]
    return digest(*(part.encode() for part in parts), *_deciding_sources()).hex()[:24]


@functools.cache
def sources_fingerprint() -> str:
    """The same of what machines and compilers have no part in."""
    return digest(str(FORMAT).encode(), *_deciding_sources()).hex()[:24]


def _deciding_sources() -> list[bytes]:
    package = Path(__file__).resolve().parents[1]
    deciding = [package / "core" / "philox.py"]
    for folder in _DECIDING:
        found = sorted((package / folder).glob("*.py"))
        if not found:
            raise FileNotFoundError(f"no source in {package / folder}, by which kernels are told apart")
        deciding += found
    return [path.read_bytes() for path in deciding]


def _version(package: str) -> str:
    """A package's version from the name of its dist-info folder: 0.5 ms, where importlib.metadata
    takes 14.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    site = Path(spec.origin).parent.parent
    prefix, suffix = f"{package}-", ".dist-info"
    for name in (path.name for path in site.iterdir()):
        if name.startswith(prefix) and name.endswith(suffix):
            return name[len(prefix) : -len(suffix)]
    from importlib import metadata

    return metadata.version(package)


def _cpu() -> str:
    """The CPU's identity and features; the kernel's own list on Linux, LLVM's elsewhere."""
    wanted = {
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "flags",
        "Features",
        "CPU implementer",
        "CPU part",
        "isa",
    }
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            lines = []
            for line in file:
                if not line.strip():
                    break
                if line.split("\t", 1)[0].rstrip(" :") in wanted:
                    lines.append(line)
        return "".join(lines)
    except OSError:
        try:
            import llvmlite.binding as llvm
        except ImportError:  # then nothing is compiled, and there is nothing in the folder
            return ""
        return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


# ---- one entry


def read(folder: Path, symbol: str, key: bytes) -> bytes | None:
    """The object code of an entry, or None where there is none that can be trusted (a damaged one
    warns once).
    """
    path = folder / (symbol + SUFFIX)
    try:
        descriptor = os.open(
            path,
            # a pipe without a writer would wait for one: not blocked, it is seen to be no file
            os.O_RDONLY
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_BINARY", 0),
        )
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not _is_ours(status):
                _warn_once("entry", "kernel cache: %s is not used: others can write it", path)
                return None
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn_once("entry", "kernel cache: %s cannot be read: %s", path, error)
        return None
    fault = find_fault(content, key)
    if fault:
        _warn_once("entry", "kernel cache: %s is damaged (%s) and is compiled again", path, fault)
        return None
    return content[_HEADER.size :]


def find_fault(content: bytes, key: bytes | None = None) -> str:
    """What is wrong with an entry's bytes; empty where nothing is. With `key`: it must be that
    source's.
    """
    if len(content) < _HEADER.size:
        return "shorter than its header"
    magic, version, stored_key, checksum, length = _HEADER.unpack_from(content)
    code = content[_HEADER.size :]
    if magic != _MAGIC or version != FORMAT:
        return "another format"
    if len(code) != length:
        return f"{len(code)} bytes of code where the header says {length}"
    if checksum != digest(stored_key, code):
        return "wrong checksum"
    if key is not None and stored_key != key:
        return "made from another source"
    return ""


def write(folder: Path, symbol: str, key: bytes, code: bytes, text: str) -> None:
    """Store an entry and its source, each complete or not at all. A disk that refuses costs one
    warning.
    """
    header = _HEADER.pack(_MAGIC, FORMAT, key, digest(key, code), len(code))
    language = ".ll" if text.lstrip().startswith(("define", ";", "target", "declare")) else ".py"
    try:
        _write_whole(folder / (symbol + language), text.encode())
        _write_whole(folder / (symbol + SUFFIX), header + code)
    except OSError as error:
        _warn_once("write", "kernel cache: cannot store in %s: %s", folder, error)


def _write_whole(path: Path, content: bytes) -> None:
    # A name of its own per writer: of two processes that store one kernel the later wins, and both
    # wrote the same.
    import tempfile

    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


# ---- the command


def entries(root: Path) -> Iterator[Path]:
    """Every entry of every fingerprint below `root`."""
    return iter(sorted(root.glob(f"*/*{SUFFIX}")))


def _list(root: Path) -> int:
    total = 0
    for path in entries(root):
        size = path.stat().st_size
        total += size
        print(f"{size:>9}  {path.parent.name}  {path.stem}")
    try:
        used = fingerprint()
    except OSError as error:  # without its source
        used = f"none: {error}"
    print(f"{total:>9}  bytes in {root}; this build and CPU use {used}")
    return 0


def faults(root: Path) -> Iterator[tuple[Path, str]]:
    """Every entry below `root` that would not be used, and why."""
    for path in entries(root):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            fault = "no plain file"
        else:
            ours = "" if _is_ours(status) else "others can write it"
            fault = find_fault(path.read_bytes()) or ours
        if fault:
            yield path, fault


def _verify(root: Path) -> int:
    bad = list(faults(root))
    for path, fault in bad:
        print(f"{path}: {fault}")
    print(f"{len(bad)} bad entries in {root}")
    return 1 if bad else 0


def _clear(root: Path) -> int:
    """Remove what this cache wrote, and only that."""
    count = 0
    for path in entries(root):
        for sibling in (path, path.with_suffix(".py"), path.with_suffix(".ll")):
            sibling.unlink(missing_ok=True)
        count += 1
    for leftover in root.glob("*/.*.part"):
        leftover.unlink(missing_ok=True)
    for folder in root.glob("*/"):
        with contextlib.suppress(OSError):
            folder.rmdir()
    print(f"removed {count} entries from {root}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """`ls`, `verify` (exit status 1 where an entry is bad) or `clear`."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m jtorch.native.cache", description="the kernel cache")
    parser.add_argument("action", choices=("ls", "verify", "clear"))
    action = parser.parse_args(arguments).action
    root = root_folder()
    if root is None:
        print("the kernel cache is switched off (JTORCH_CACHE=0)")
        return 0
    return {"ls": _list, "verify": _verify, "clear": _clear}[action](root)
