"""NumPy's and SciPy's own BLAS, on one thread while an op of ours runs in it, and not longer.

How they share out work changes the last bits, and ours do not depend on the number of threads. Most products
go another way (`ops/xp/_products.py`). What is left, decompositions, solvers, complex products, runs in the
copy of OpenBLAS that the user's NumPy calls run in, too. Its number of threads is one for the whole process:
while such an op runs, calls of NumPy in other Python threads see it as well. It is asked first, and set only
where it differs.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

_Function = TypeVar("_Function", bound=Callable)
_Result = TypeVar("_Result")


class Library(NamedTuple):
    """A BLAS in this process."""

    path: str
    get: Callable[[], int]
    set: Callable[[int], Any]
    direct: bool  # these are the library's own functions


def on_one_thread(function: Callable[..., _Result], /, *arguments: Any, **statics: Any) -> _Result:
    """What ``function`` gives, these libraries on one thread.

    Threads may be in it at once: the first to enter sets, the last to leave restores. By hand, as the
    context manager of threadpoolctl takes 23 us, this one 2, and as threadpoolctl ignores what a second
    Python thread sets.

    Ctrl-C may come where a function begins, and after each call of one in C. So it is no context manager,
    whose ``__exit__`` would not run then, and leaves twice: the second time is for an interrupt of the first.
    """
    ours = object()
    try:
        _enter(ours)
        return function(*arguments, **statics)
    finally:
        try:
            _leave(ours)
        finally:
            _leave(ours)


def in_lapack(function: _Function, in_scipy: bool = False) -> _Function:
    """``function`` on one thread."""

    @functools.wraps(function)
    def run(*arguments: Any, **statics: Any) -> Any:
        if in_scipy:
            import scipy.linalg  # noqa: F401 - brings the library that is to be set
        return on_one_thread(function, *arguments, **statics)

    return run  # type: ignore[return-value]


in_scipys_lapack = functools.partial(in_lapack, in_scipy=True)


def set_all(count: int) -> None:
    """Leave all of them on that many threads: for a process of our own, as the worker of a loader is."""
    for library in _libraries():
        library.set(count)


def _libraries() -> tuple[Library, ...]:
    return found("scipy.linalg" in sys.modules)


_lock = threading.RLock()  # a handler of signals may compute, too
_inside: set[object] = set()
_changed: list[tuple[Library, int]] = []  # with the number to go back to


def _enter(ours: object) -> None:
    libraries = _libraries()
    with _lock:
        is_first = not _inside
        _inside.add(ours)  # before any change: who leaves restores
        for library in libraries if is_first else ():
            before = library.get()
            if before != 1:
                _changed.append((library, before))
                library.set(1)


def _leave(ours: object) -> None:
    """The second time nothing: each step is taken back only when it is done."""
    if ours in _inside:
        with _lock:
            if len(_inside) == 1:
                _restore()
            _inside.discard(ours)


def _restore() -> None:
    while _changed:
        library, before = _changed[-1]
        library.set(before)
        _changed.pop()


def _after_fork() -> None:
    # Threads of the parent that were inside do not exist in the child.
    global _lock
    _lock = threading.RLock()
    _inside.clear()
    _restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def found(with_scipy: bool) -> tuple[Library, ...]:
    """Every BLAS that is loaded, but our private one. SciPy brings its own when it is imported."""
    from threadpoolctl import ThreadpoolController

    loaded = ThreadpoolController().select(user_api="blas").lib_controllers
    others = (lib for lib in loaded if "scipy_openblas32" not in Path(lib.filepath).parts)
    return tuple(_openblas(lib.filepath) or _other(lib) for lib in others)


def _openblas(path: str) -> Library | None:
    """An OpenBLAS with threads of its own: by its functions, which takes 0.2 us."""
    handle = ctypes.CDLL(path)
    for prefix, suffix in ((p, s) for p in ("", "scipy_") for s in ("", "64_", "_64")):
        functions: list[Any] = [getattr(handle, f"{prefix}openblas_{name}{suffix}", None) for name in _NAMES]
        if None not in functions:
            get, set_, parallel = functions
            return Library(path, get, set_, True) if parallel() == _PTHREADS else None
    return None


_NAMES = ("get_num_threads", "set_num_threads", "get_parallel")
_PTHREADS = 1


def _other(lib: Any) -> Library:
    return Library(lib.filepath, lib.get_num_threads, lib.set_num_threads, False)
