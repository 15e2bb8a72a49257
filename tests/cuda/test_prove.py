"""The checks for a machine with a GPU, where there is none."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jtorch.native.cuda import driver
from tests.cuda import prove

ROOT = Path(__file__).parents[2]
needs_compiler = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)


@needs_compiler
def test_without_a_driver_nothing_is_proven(monkeypatch, capsys):
    monkeypatch.setattr(driver, "_load", lambda *names: None)
    assert prove.main([]) == 2
    assert "nothing was checked: no CUDA driver on this machine" in capsys.readouterr().err


@needs_compiler
@pytest.mark.slow
def test_the_checks_pass_on_the_device_of_the_tests():
    command = [sys.executable, "-m", "tests.cuda.prove", "--fake", "-k", "not training and not kernels"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("fake device, compute capability 9.0; driver for CUDA 12.3; numba-cuda ")
    assert "passed on fake device, all that were asked for" in done.stdout


def test_the_script_for_such_a_machine_says_what_it_would_do():
    done = subprocess.run(
        ["bash", "tools/on_gpu.sh", "--dry-run", "-k", "draws"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert all(line.startswith("+ ") for line in lines)
    (checks,) = [line for line in lines if line.endswith("/python -m tests.cuda.prove -k draws")]
    assert checks.startswith("+ timeout 400 build/on_gpu/venv/bin/python ")
    assert any("compute-sanitizer" in line for line in lines[lines.index(checks) + 1 :])
    assert not (ROOT / "build" / "on_gpu").exists()


def test_a_machine_without_network_takes_the_python_that_it_has():
    done = subprocess.run(
        ["bash", "tools/on_gpu.sh", "--dry-run", "--here"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHON": "python3.12", "LIMIT": "300"},
    )
    assert "+ timeout 300 python3.12 -m tests.cuda.prove\n" in done.stdout
    assert "pip" not in done.stdout and "venv" not in done.stdout
