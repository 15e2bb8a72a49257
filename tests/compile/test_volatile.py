"""Files, folders and settings of the process: refused, with the line and a way out."""

import contextvars
import glob
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import jtorch
from jtorch.errors import CompileError
from tests.compile.observing import t

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
