"""Compiled kernels on disk, so that a second process compiles nothing and does not import LLVM.

An entry is two files named by the kernel: `SYMBOL.kernel` (a header, a checksum, the object code)
and `SYMBOL.py` (the source it came from, to be read). They lie in a folder named by the fingerprint
of everything else that decides the code: the versions, the text of jtorch's own code generator, and
the CPU. Nothing in an entry is ever unpickled or run as Python. A damaged or foreign entry is
compiled again; a folder that is not ours alone is not used.

`python -m jtorch.native.cache ls|verify|clear` shows, checks and empties it.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jtorch.core import config, progress, threads
from jtorch.native import cache_files, loader

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_log = logging.getLogger("jtorch.cache")


class Built(NamedTuple):
    """Where a kernel is, and whether this call had to compile it."""

    address: int
    was_compiled: bool


@dataclass
class Counters:
    """What the cache did in this process: entries found on disk, not found, and kernels compiled."""

    hits: int = 0
    misses: int = 0
    compiled: int = 0


counters = Counters()
_loaded: dict[bytes, dict[str, int]] = {}
_lock = threading.RLock()


def _fresh_lock() -> None:
    # A fork may come while another thread of the parent holds the lock; that thread does not exist
    # in the child.
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock)


class _Wanted(NamedTuple):
    """One thing to have: its identity, the text kept beside it, and how to make it."""

    symbol: str
    text: str
    write: Callable[[], str]  # its LLVM IR
    effort: loader.Effort
    check: Callable[[bytes, str], None] | None = None  # what must hold of its code
    is_floor: bool = False


def is_offered() -> bool:
    """Whether kernels can be compiled and kept here."""
    return config.jitted() and cache_files.open_folder(warn=False) is not None


Made = TypeVar("Made")


def once_offered(make: Callable[..., Made]) -> Callable[..., Made | None]:
    """``make``, which is called once for each arguments; None where LLVM refuses what it makes, or is not
    there, and as long as kernels are switched off or have no folder."""
    made: dict[tuple, Made | None] = {}

    @functools.wraps(make)
    def get(*arguments: Any) -> Made | None:
        if arguments not in made:
            if not is_offered():
                return None
            try:
                made[arguments] = make(*arguments)
            except (RuntimeError, ImportError, OSError):  # a kernel that does not compile is a RuntimeError
                made[arguments] = None
        return made[arguments]

    get.cache_clear = made.clear  # type: ignore[attr-defined]
    return get


def get_or_build(source: str, entry: str) -> Built:
    """The address of kernel `entry` of the module text `source`: from this process, the disk, or
    the compiler.

    Raises KernelBuildError where it does not compile. Never raises for the state of the disk.
    """
    return get_or_build_many([(source, entry)])[0]


def get_or_build_many(kernels: Sequence[tuple[str, str]]) -> list[Built]:
    """`get_or_build` for all of (source, entry) at once, loaded together (cheaper than one by one)."""
    from jtorch.native import build

    def wanted(source: str, entry: str) -> _Wanted:
        symbol = build.symbol_name(source, entry)
        return _Wanted(
            symbol, source, lambda: build.llvm_text(source, entry), loader.Effort.WHOLE, build.check
        )

    wants = [wanted(source, entry) for source, entry in kernels]
    compiled = _get_all(wants)
    return [Built(_loaded[_key(w)][w.symbol], _key(w) in compiled) for w in wants]


def get_or_build_ir(text: str, name: str) -> dict[str, int]:
    """Addresses of the functions that hand-written LLVM IR `text` defines, by way of the same
    cache, where it is `name`.
    """
    return get_or_build_written_ir(text, name, lambda: text, loader.Effort.WHOLE)


def get_or_build_written_ir(
    identity: str, name: str, write: Callable[[], str], effort: loader.Effort = loader.Effort.QUICK
) -> dict[str, int]:
    """The same for IR that is written only where it is not in the cache: all that decides it is in
    `identity`.
    """
    (found,) = get_or_build_all_written_ir([Written(identity, name, write, effort)])
    return found


class Written(NamedTuple):
    """IR as ``get_or_build_written_ir`` takes it. What comes after one that ``is_floor`` finds it by name."""

    identity: str
    name: str
    write: Callable[[], str]
    effort: loader.Effort
    is_floor: bool = False

    @property
    def symbol(self) -> str:
        return f"jtorch_{self.name}_{cache_files.digest(self.identity.encode()).hex()[:16]}"


def get_or_build_all_written_ir(written: Sequence[Written]) -> list[dict[str, int]]:
    """The same for several at a time, which are compiled at a time as well."""
    wants = [_Wanted(w.symbol, w.identity, w.write, w.effort, is_floor=w.is_floor) for w in written]
    _get_all(wants)
    return [_loaded[_key(want)] for want in wants]


def _get_all(wanted: Sequence[_Wanted]) -> set[bytes]:
    """Have all of them in `_loaded`; return the keys of those that were compiled for it."""
    missing: dict[bytes, _Wanted] = {}
    codes: dict[bytes, bytes] = {}
    with _lock:
        unknown = {_key(want): want for want in wanted if _key(want) not in _loaded}
        folder = cache_files.open_folder() if unknown else None
        for key, want in unknown.items():
            code = cache_files.read(folder, want.symbol, key) if folder else None
            if code is None:
                counters.misses += 1
                missing[key] = want
            else:
                counters.hits += 1
                codes[key] = code
        for done, (key, want, code) in enumerate(_compiled(missing, folder is not None), 1):
            counters.compiled += 1
            codes[key] = code
            _log.info("compiled %s, %d bytes (%d of %d)", want.symbol, len(code), done, len(missing))
            if folder:
                cache_files.write(folder, want.symbol, key, code, want.text)
        for key in [key for key in codes if unknown[key].is_floor]:
            (_loaded[key],) = loader.load_many([codes.pop(key)])
            loader.offer(_loaded[key])
        _loaded.update(zip(codes, loader.load_many(list(codes.values())), strict=True))
    return set(missing)


def _key(want: _Wanted) -> bytes:
    return cache_files.digest(want.symbol.encode(), want.text.encode())


def _compiled(missing: Mapping[bytes, _Wanted], kept: bool) -> Iterator[tuple[bytes, _Wanted, bytes]]:
    """What is missing with its code, in order. LLVM works on as many at a time as there are threads, while
    this one writes the text of the next.
    """
    count = min(threads.at_first(), len(missing))
    if count < 2:
        for done, (key, want) in enumerate(missing.items()):
            progress.tell(done, len(missing), kept)
            yield key, want, _compile(want, want.write())
        return
    from concurrent.futures import ThreadPoolExecutor  # which a process that compiles nothing need not import

    pool, waiting, done = ThreadPoolExecutor(count, "jtorch_compiler"), deque(missing.items()), 0
    begun: deque[tuple[bytes, _Wanted, Future[bytes]]] = deque()
    try:
        while waiting or begun:
            if waiting:
                key, want = waiting.popleft()
                begun.append((key, want, _begin(pool, want)))
            while begun and (begun[0][2].done() or not waiting):
                key, want, code = begun.popleft()
                progress.tell(done, len(missing), kept)
                yield key, want, code.result()
                done += 1
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(pool: ThreadPoolExecutor, want: _Wanted) -> Future[bytes]:
    from concurrent.futures import Future

    text = want.write()
    try:
        return pool.submit(_compile, want, text)
    except RuntimeError:  # the interpreter is about to end, or there is no thread to be had
        compiled: Future[bytes] = Future()
        compiled.set_result(_compile(want, text))
        return compiled


def _compile(want: _Wanted, text: str) -> bytes:
    code = loader.compile_ir(text, want.effort)
    if want.check is not None:
        want.check(code, want.symbol)
    return code


if __name__ == "__main__":
    from jtorch.core.command import run

    raise SystemExit(run(cache_files.main, "python -m jtorch.native.cache"))
