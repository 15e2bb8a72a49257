"""Starts several processes of the scripts beside this file; each of them asserts for itself."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
Ended = namedtuple("Ended", "status text seconds")


def missing():
    """Why no processes can be started here; empty where they can."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    beside = Path(sys.executable).parent / "mpiexec"
    if not beside.exists() and shutil.which("mpiexec") is None:
        return "there is no mpiexec"
    return ""


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the markers
def pytest_collection_modifyitems(items):
    """Starting processes takes seconds: of each file one such test is in the quick part."""
    reason, met = missing(), set()
    for item in items:
        if "launch" not in getattr(item, "fixturenames", ()):
            continue
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.path in met:
            item.add_marker("slow")
        met.add(item.path)


@pytest.fixture
def launch(tmp_path):
    """``launch(2, "collectives.py", *arguments)`` runs the script in two processes; status, text, seconds."""

    def run(count, script, *arguments, options=(), check=True, **environment):
        path = script if script.startswith(("-m", "/")) else str(SCRIPTS / script)
        command = [sys.executable, "-m", "jtorch.distributed.run", "--nproc-per-node", str(count), *options]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        places = {"PYTHONPATH": str(ROOT)}
        begin = time.monotonic()
        ended = subprocess.run(
            [*command, *path.split(), *arguments], capture_output=True, text=True, timeout=80, cwd=tmp_path,
            env={**os.environ, **threads, **places, **environment}, check=False,
        )  # fmt: skip
        text = ended.stdout + ended.stderr
        assert not check or ended.returncode == 0, text
        return Ended(ended.returncode, text, time.monotonic() - begin)

    return run
