"""``python -m jtorch.compile.cache build --cuda``: a folder of texts, for machines without numba-cuda."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jtorch.native import cache_files
from tests.cuda.marks import compiles

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import jtorch

x = jtorch.linspace(-1, 1, 12).reshape(3, 4).cuda()
step = jtorch.compile(lambda x: (x.exp() * 2 + 1).sum(1), fullgraph=True)
print(sys.argv[1:], step(x).tolist(), (x * 2 + 1).sum().item())
sys.exit(int(sys.argv[1]))
"""
# stands in for the machine: the tests' device, if any, and modules that are not installed
MACHINE = """
import importlib.util, sys
lacking, device = sys.argv.pop(1).split(), sys.argv.pop(1) == "device"
for name in lacking:
    sys.modules[name] = None
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *where: None if name in lacking else found(name, *where)
from jtorch.compile.run import device_memory
from tests.cuda.device import cuda_device
if device:
    device_memory.make = cuda_device
import runpy
del sys.argv[0]
if sys.argv[0] == "-m":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    sys.path.insert(0, "")
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
BUILD = ("-m", "jtorch.compile.cache", "build", "--cuda")
WITHOUT = "numba llvmlite numba_cuda"


@pytest.fixture
def run(tmp_path, monkeypatch):
    return machine(tmp_path, monkeypatch)


def machine(tmp_path, monkeypatch, of_tests=True):
    """What runs a command on a machine that lacks some modules, and has the tests' device, or what there is
    without it."""
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path / "kernels"))
    monkeypatch.delenv("JTORCH_CUDA_TEXTS", raising=False)
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def done(*command, lacking="", device=of_tests):
        given = [sys.executable, "-c", MACHINE, lacking, "device" if device else "none", *map(str, command)]
        return subprocess.run(given, cwd=tmp_path, capture_output=True, text=True)

    return done


@compiles
@pytest.mark.slow
def test_what_is_built_runs_without_a_compiler(run, tmp_path, monkeypatch):
    built_and_used(run, tmp_path, monkeypatch)


def built_and_used(run, tmp_path, monkeypatch):
    """A folder that is built once, and serves a machine without a compiler."""
    built = run(*BUILD, "--folder", "there", "script.py", "0", "--more")
    assert built.returncode == 0, built.stderr
    assert "['0', '--more']" in built.stdout
    texts = [*cache_files.entries(tmp_path / "there")]
    assert texts and f"there: {len(texts)} texts, {len(texts)} of them new" in built.stderr
    again = run(*BUILD, "--folder", "there", "script.py", "3")
    assert again.returncode == 3 and f"there: {len(texts)} texts, 0 of them new" in again.stderr
    monkeypatch.setenv("JTORCH_CUDA_TEXTS", str(tmp_path / "there"))
    used = run("script.py", "0", "--more", lacking=WITHOUT)
    assert used.returncode == 0, used.stderr
    assert used.stdout == built.stdout


@compiles
@pytest.mark.slow
def test_a_program_that_asks_no_device_builds_nothing(run, tmp_path):
    (tmp_path / "other.py").write_text("import jtorch\njtorch.ones(3).sum()\n")
    done = run(*BUILD, "other.py")
    assert done.returncode == 1 and "other.py has computed nothing on a CUDA device" in done.stderr


@pytest.mark.slow
def test_what_a_machine_lacks_is_said_at_once(run, tmp_path):
    for lacking, device, expected in (
        (WITHOUT, True, ["compiled by numba-cuda: pip install"]),
        ("", False, ["no CUDA driver on this machine"]),
        (WITHOUT, False, ["compiled by numba-cuda: pip install", "no CUDA driver on this machine"]),
    ):
        done = run(*BUILD, "script.py", "0", lacking=lacking, device=device)
        assert done.returncode == 2 and not done.stdout
        assert "no text of a kernel can be made here" in done.stderr
        assert all(text in done.stderr for text in expected) and "Traceback" not in done.stderr
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    done = run(*BUILD, "--folder", "open", "script.py", "0")
    assert done.returncode == 2 and "others can write to" in done.stderr


def test_it_says_what_it_takes(run):
    done = run("-m", "jtorch.compile.cache", "build", "script.py")
    assert done.returncode == 2 and "--cuda" in done.stderr
