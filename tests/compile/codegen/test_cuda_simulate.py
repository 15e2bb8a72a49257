"""CUDA kernels under numba-cuda's simulator equal the interpreter, and the CPU's kernels where nothing is
reordered. One process runs all programs; each is a test here."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jtorch.compile.codegen.cuda_simulate import run_batch
from tests.compile.codegen.cuda_programs import PROGRAMS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("numba_cuda") is None,
        reason="numba-cuda is not installed (the extra 'cuda')",
    ),
]
ROOT = Path(__file__).parents[3]
TIMEOUT = 300.0  # seconds


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What became of every program. Of several pytest-xdist workers, one runs them for all."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    report, claim = folder / "cuda_report.json", folder / "cuda_report.claim"
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        deadline = time.monotonic() + TIMEOUT
        while not report.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    else:
        _run_programs(report)
    return json.loads(report.read_text())


def _run_programs(report: Path) -> None:
    """Run all programs in a process that has the simulator."""
    unfinished = report.with_suffix(".part")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.compile.codegen.cuda_chain", str(unfinished)],
        cwd=ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    unfinished.rename(report)  # at once: others wait for it


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(outcome, program):
    assert outcome[program] is None, outcome[program]


def test_outside_of_the_simulator_is_an_error(monkeypatch):
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    with pytest.raises(RuntimeError, match="NUMBA_ENABLE_CUDASIM=1"):
        run_batch([], [])
