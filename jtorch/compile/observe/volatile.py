"""Calls that give something else each time, or do something that a recording would do once: refused, but for
clocks, which each call reads (see ``record/clocks.py``)."""

from __future__ import annotations

import contextvars
import random
import time
import types
from pathlib import PurePath
from typing import Any

from jtorch.compile.observe.cached import is_kept
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.stepping import Stop

_THREADS = frozenset({
    ("threading", "start"), ("_thread", "start_new_thread"), ("concurrent.futures.thread", "submit"),
    ("concurrent.futures.process", "submit"), ("concurrent.futures._base", "map"),
    ("concurrent.futures.process", "map"), ("multiprocessing.process", "start"),
    ("multiprocessing.pool", "map"), ("multiprocessing.pool", "apply_async"),
})  # fmt: skip
_DRAWING = ("random", "secrets", "uuid")
_DRAWING_ELSEWHERE = frozenset({("statistics", "samples"), ("statistics", "kde_random")})
_UNITS = ("", "_ns")
_CLOCKS = [f"{name}{u}" for name in ("time", "perf_counter", "monotonic", "process_time") for u in _UNITS]
_READ = frozenset(getattr(time, name) for name in _CLOCKS)
_WORLD = frozenset(
    [("time", name) for name in _CLOCKS]
    + [("time", name + unit) for name in ("thread_time", "clock_gettime") for unit in _UNITS]
    + [("time", name) for name in ("localtime", "gmtime", "ctime", "strftime", "asctime")]
    + [("datetime", name) for name in ("now", "utcnow", "today")]
    + [("posix", "urandom"), ("posix", "getrandom")]
)
# Modules whose functions look at files and folders, or change them; of some, only these functions.
_FILES = (
    "shutil", "tempfile", "glob", "fileinput", "subprocess", "sqlite3", "jtorch.serialization", "tarfile",
    "zipfile", "linecache", "shelve", "dbm", "mmap", "socket", "_socket", "select", "urllib.request",
    "http.client",
)  # fmt: skip
_OPENING = frozenset({
    ("codecs", "open"), ("_io", "FileIO"), ("_io", "open_code"), ("configparser", "read"), ("gzip", "open"),
    ("gzip", "GzipFile"), ("bz2", "open"), ("bz2", "BZ2File"), ("lzma", "open"), ("lzma", "LZMAFile"),
})  # fmt: skip
_OF_PATHS = frozenset({
    "exists", "lexists", "isfile", "isdir", "islink", "ismount", "getsize", "getmtime", "getatime",
    "getctime", "samefile", "realpath", "abspath", "relpath", "expanduser",
})  # fmt: skip
_OF_PATH_OBJECTS = frozenset({
    "exists", "is_file", "is_dir", "is_symlink", "is_mount", "stat", "lstat", "iterdir", "glob", "rglob",
    "walk", "read_text", "read_bytes", "write_text", "write_bytes", "open", "touch", "mkdir", "unlink",
    "rmdir", "rename", "replace", "resolve", "absolute", "expanduser", "cwd", "home", "samefile", "owner",
    "group", "chmod", "readlink", "symlink_to", "hardlink_to", "copy", "move",
})  # fmt: skip
_OF_THE_SYSTEM = frozenset({
    "stat", "lstat", "fstat", "listdir", "scandir", "getcwd", "getcwdb", "access", "open", "read", "write",
    "mkdir", "makedirs", "rmdir", "removedirs", "unlink", "remove", "rename", "renames", "replace", "chdir",
    "readlink", "putenv", "unsetenv", "system", "popen", "umask", "utime", "chmod", "link", "symlink",
    "truncate", "getloadavg", "times", "kill", "fork", "walk", "get_terminal_size",
})  # fmt: skip
_OF_NUMPY = frozenset({
    "load", "save", "savez", "savez_compressed", "loadtxt", "savetxt", "genfromtxt", "fromfile", "tofile",
    "get_printoptions", "set_printoptions", "printoptions", "seterr", "geterr", "seterrcall", "geterrcall",
    "setbufsize", "getbufsize",
})  # fmt: skip
_OF_PYTHON = frozenset({
    "settrace", "setprofile", "setrecursionlimit", "setswitchinterval", "set_int_max_str_digits", "exit",
    "settrace_all_threads", "setprofile_all_threads",
})  # fmt: skip
_OF_THE_PROCESS = frozenset({"signal", "locale"})  # as the modules are called that users import
_OF_NO_PROCESS = frozenset({"strsignal", "valid_signals", "normalize"})


def see_clock(stop: Stop, callee: Any, args: list[Any]) -> bool:
    """``callee(*args)`` is about to be called: whether it is a clock, which each call reads."""
    is_clock = isinstance(callee, types.BuiltinFunctionType) and callee in _READ and not args
    if not is_clock or not stop.callee or is_kept(stop):
        return False
    found = stop.observer.read_clock(callee)
    stop.put(stop.callee, lambda: found)
    return True


def check_volatile(observer: Observer, frame: types.FrameType, callee: Any, args: list[Any]) -> None:
    """Raise the CompileError of a call that gives something else each time, or changes the process. What is
    called is no user's: asking such objects for a name might run code of theirs."""
    owner = getattr(callee, "__self__", None)
    if owner is None and args:
        owner = args[0]
    name, module = getattr(callee, "__name__", ""), str(getattr(callee, "__module__", None))
    if module == "None" and not isinstance(owner, type):  # a method written in C
        module = type(owner).__module__
    if (module, name) in _THREADS:
        raise observer.error(
            frame,
            "starts work in another thread or process, which a recording would do once",
            "Do that outside, or in a function that is disabled for compiling (jtorch.compiler.disable).",
        )
    if module in ("sys", "threading") and name in _OF_PYTHON:
        raise observer.error(
            frame, f"calls {module}.{name}(), which a recording would do once", "Do that outside."
        )
    public = module.removeprefix("_")
    if public in _OF_THE_PROCESS and name not in _OF_NO_PROCESS and not isinstance(callee, type):
        raise observer.error(
            frame,
            f"calls {public}.{name}(), which asks or changes what the whole process has: a "
            "recording would do it once",
            "Do that outside, and pass in what you asked for.",
        )
    if public == "decimal" and name == "setcontext":
        raise observer.error(
            frame,
            "calls decimal.setcontext(), which a recording would do once",
            "Do that outside, or enter decimal.localcontext().",
        )
    if isinstance(owner, contextvars.ContextVar) and name in ("set", "reset"):
        raise observer.error(
            frame,
            f"sets the context variable {owner.name!r}, which a recording would do once",
            "Set it outside.",
        )
    if _is_about_files(module, name, owner):
        raise observer.error(
            frame,
            f"calls {name}() of {module}, and a recording would keep what it finds, or do once what it does",
            "Do that outside, and pass in what you read; or in a function that is disabled for compiling "
            "(jtorch.compiler.disable).",
        )
    of_class = (
        getattr(callee, "__objclass__", None) if isinstance(callee, types.MethodDescriptorType) else None
    )
    if of_class is not object and of_class in random.Random.__mro__:  # Random.random, of no object yet
        module = "random"
    if isinstance(owner, random.Random):  # also of a class of the user's, whose own methods are watched
        module = "random"
    elif type(owner).__module__.startswith("numpy.random"):
        module = type(owner).__module__
    elif isinstance(owner, type) and owner.__module__ == "datetime":
        module = "datetime"
    is_elsewhere = (module, name) in _DRAWING_ELSEWHERE or (module.startswith("scipy") and name == "rvs")
    if is_elsewhere or module in _DRAWING or module.startswith("numpy.random") or (module, name) in _WORLD:
        raise observer.error(
            frame,
            f"calls {module}.{name}(), which gives something else at each call and a recording would keep",
            "Draw with jtorch.rand, or call it outside and pass what it gives in.",
        )


_IN_FILES = tuple(f"{module}." for module in _FILES)


def _is_about_files(module: str, name: str, owner: Any) -> bool:
    root = module.partition(".")[0]
    if (module, name) in _OPENING or module in _FILES or module.startswith(_IN_FILES):
        return True
    if module in ("posixpath", "ntpath", "genericpath"):
        return name in _OF_PATHS
    cls = owner if isinstance(owner, type) else type(owner)
    if name in _OF_PATH_OBJECTS and (root == "pathlib" or PurePath in cls.__mro__):
        return True
    if module in ("posix", "nt", "os"):
        return name in _OF_THE_SYSTEM
    return root == "numpy" and name in _OF_NUMPY
