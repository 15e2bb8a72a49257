"""Files, folders and settings of the process: refused, with the line and a way out."""

import abc
import codecs
import configparser
import contextvars
import gc
import glob
import gzip
import io
import linecache
import locale
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import types
import weakref
import zipfile
from pathlib import Path

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import t

MAIN = threading.get_ident()
VARIABLE = contextvars.ContextVar("VARIABLE", default=1)

CALLS = {
    "Path.read_text": lambda p: p.read_text(),
    "Path.write_text": lambda p: p.write_text("x"),
    "Path.exists": lambda p: p.exists(),
    "Path.is_file": lambda p: p.is_file(),
    "Path.stat": lambda p: p.stat(),
    "Path.iterdir": lambda p: list(p.parent.iterdir()),
    "Path.open": lambda p: p.open(),
    "Path.cwd": lambda p: Path.cwd(),
    "os.path.exists": lambda p: os.path.exists(p),  # noqa: PTH110
    "os.path.getsize": lambda p: os.path.getsize(p),  # noqa: PTH202
    "os.path.isdir": lambda p: os.path.isdir(p),  # noqa: PTH112
    "os.listdir": lambda p: os.listdir(p.parent),  # noqa: PTH208
    "os.stat": lambda p: os.stat(p),  # noqa: PTH116
    "os.getcwd": lambda p: os.getcwd(),  # noqa: PTH109
    "os.walk": lambda p: list(os.walk(p.parent)),
    "os.remove": lambda p: os.remove(p),  # noqa: PTH107
    "glob": lambda p: glob.glob(str(p)),  # noqa: PTH207
    "shutil": lambda p: shutil.copy(p, p.with_suffix(".b")),
    "tempfile": lambda p: tempfile.mkdtemp(),
    "numpy.load": lambda p: np.load(p),
    "numpy.set_printoptions": lambda p: np.set_printoptions(precision=8),
    "numpy.get_printoptions": lambda p: np.get_printoptions(),
    "numpy.geterr": lambda p: np.geterr(),
    "jtorch.load": lambda p: jtorch.load(p),
    "sys.setrecursionlimit": lambda p: sys.setrecursionlimit(5000),
    "codecs.open": lambda p: codecs.open(str(p)),  # noqa: SIM115
    "io.FileIO": lambda p: io.FileIO(p),
    "gzip.open": lambda p: gzip.open(p),  # noqa: SIM115
    "ConfigParser.read": lambda p: configparser.ConfigParser().read(p),
    "zipfile.ZipFile": lambda p: zipfile.ZipFile(p),
    "linecache.getline": lambda p: linecache.getline(str(p), 1),
    "socket.create_connection": lambda p: socket.create_connection(("localhost", 1)),
    "os.getrandom": lambda p: os.getrandom(1),
    "time.clock_gettime": lambda p: time.clock_gettime(time.CLOCK_MONOTONIC),
    "signal.signal": lambda p: signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM)),
    "signal.getsignal": lambda p: signal.getsignal(signal.SIGTERM),
    "locale.setlocale": lambda p: locale.setlocale(locale.LC_CTYPE),
    "locale.localeconv": lambda p: locale.localeconv(),
    "ContextVar.set": lambda p: VARIABLE.set(2),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_recording_would_keep_or_do_once_is_refused(name, tmp_path):
    path = tmp_path / "a"
    path.write_text("2.0")

    def f(x):
        CALLS[name](path)
        return x

    for _ in range(2):
        with pytest.raises(CompileError, match=r"test_volatile.py:\d+.*(outside|a recording would)"):
            jtorch.compile(f)(t(1))
    assert path.read_text() == "2.0"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_paths_may_be_put_together():
    f = jtorch.compile(lambda x: x * len(os.path.join("a", "bc")) * len((Path("a") / "b").name))  # noqa: PTH118
    assert f(t(1)).tolist() == [4.0]


def test_functions_of_a_users_with_such_names_are_watched():
    for module in ("glob_helpers", "randomly", "shutilities"):
        names = {"__name__": module, "table": {"k": 2.0}}
        exec("def exists(x): return x * table['k']", names)
        f = jtorch.compile(lambda x, exists=names["exists"]: exists(x))
        assert f(t(1)).tolist() == [2.0]
        names["table"]["k"] = 5.0
        assert f(t(1)).tolist() == [5.0]


def _in_a_thread(f, x):
    results = []
    # of its own, as no test before has set anything in it
    context = {"context": contextvars.Context()} if sys.version_info >= (3, 14) else {}
    thread = threading.Thread(target=lambda: results.append(f(x)), name="another", **context)
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: threading.get_ident() == MAIN,
        lambda: threading.current_thread() is threading.main_thread(),
        lambda: threading.current_thread().name != "another",
    ],
)
def test_which_thread_it_is_counts(ask):
    f = jtorch.compile(lambda x: x * (2 if ask() else 3))
    for _ in range(2):
        assert f(t(1)).tolist() == [2.0]
        assert _in_a_thread(f, t(1)).tolist() == [3.0]


def test_a_weak_reference_that_dies():
    class Thing:
        def __init__(self):
            self.rate = 2.0

    thing = Thing()
    reference = weakref.ref(thing)
    f = jtorch.compile(lambda x: x * (reference().rate if reference() is not None else 3))
    assert f(t(1)).tolist() == [2.0]
    thing.rate = 5.0
    assert f(t(1)).tolist() == [5.0]
    del thing
    gc.collect()
    assert f(t(1)).tolist() == [3.0]


def test_a_class_that_is_registered_with_an_abstract_one():
    class Abstract(abc.ABC):  # noqa: B024
        pass

    def matches(value):
        match value:
            case Abstract():
                return True
        return False

    for ask in (lambda v: isinstance(v, (int, Abstract)), lambda v: issubclass(type(v), Abstract), matches):
        thing = types.new_class("Thing", ())()
        f = jtorch.compile(lambda x, ask=ask, thing=thing: x * (2 if ask(thing) else 3))
        assert f(t(1)).tolist() == [3.0]
        Abstract.register(type(thing))
        assert f(t(1)).tolist() == [2.0]
