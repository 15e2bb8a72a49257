"""NumPy's and SciPy's own BLAS, on our number of threads while an op of ours runs in it, and not longer.

Most products go another way (`xp/_products.py`). What is left, decompositions, solvers, complex products,
runs in the copy of OpenBLAS that the user's NumPy calls run in, too. Its number of threads is one for the
whole process: while such an op runs, calls of NumPy in other Python threads see it as well. It is asked
first, and set only where it differs.
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

from jtorch import threads

_Function = TypeVar("_Function", bound=Callable)


class Library(NamedTuple):
    """A BLAS in this process."""

    path: str
    get: Callable[[], int]
    set: Callable[[int], Any]
    direct: bool  # these are the library's own functions


class limited:  # noqa: N801 - reads as a word: with limited(flops)
    """A context in which these libraries run on the threads that pay for an op of so many operations.

    Threads may be in it at once: the first to enter decides, the last to leave restores. By hand, as the
    context manager of threadpoolctl takes 23 us, this one 2, and as threadpoolctl ignores what a second
    Python thread sets.
    """

    __slots__ = ("count",)

    def __init__(self, flops: float, in_scipy: bool = False) -> None:
        self.count = threads.threads_for(flops)
        if in_scipy:
            import scipy.linalg  # noqa: F401 - brings the library that is to be set

    def __enter__(self) -> None:
        libraries = _libraries()
        with _lock:
            if not _inside:
                for library in libraries:
                    before = library.get()
                    if before != self.count:
                        library.set(self.count)
                        _changed.append((library, before))
            _inside.append(self)

    def __exit__(self, *error: object) -> None:
        with _lock:
            _inside.pop()
            if not _inside:
                _restore()


def in_lapack(function: _Function, in_scipy: bool = False) -> _Function:
    """``function``, of a matrix or a batch of them, on our number of threads.

    A decomposition takes about n^3 multiplications and additions for each matrix.
    """

    @functools.wraps(function)
    def run(x: Any, *arguments: Any, **statics: Any) -> Any:
        with limited(2.0 * x.shape[-2] * x.shape[-1] * min(x.shape[-2:]), in_scipy):
            return function(x, *arguments, **statics)

    return run  # type: ignore[return-value]


in_scipys_lapack = functools.partial(in_lapack, in_scipy=True)


def set_all(count: int) -> None:
    """Leave all of them on that many threads: for a process of our own, as the worker of a loader is."""
    for library in _libraries():
        library.set(count)


def _libraries() -> tuple[Library, ...]:
    return found("scipy.linalg" in sys.modules)


_lock = threading.Lock()
_inside: list[limited] = []
_changed: list[tuple[Library, int]] = []  # with the number to go back to


def _restore() -> None:
    while _changed:
        library, before = _changed.pop()
        library.set(before)


def _after_fork() -> None:
    # Threads of the parent that were inside do not exist in the child.
    global _lock
    _lock = threading.Lock()
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
