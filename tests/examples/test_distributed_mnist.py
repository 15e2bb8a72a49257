"""The example of several processes learns, and prints how fast; in the form of the launcher and alone."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "../shared/data/mnist"
pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")


def run(count, *options):
    launcher = ["-m", "jtorch.distributed.run", "--nproc-per-node", str(count)]
    command = [sys.executable, *(launcher if count > 1 else []), str(ROOT / "examples/distributed_mnist.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert ended.returncode == 0, ended.stderr
    line = r"loss ([\d.]+), test accuracy ([\d.]+) %, \d+ samples/s, processes: (\d)"
    assert len(re.findall(r"parameters of all processes: [0-9a-f]{16}\n", ended.stdout)) == 1
    lines = re.findall(line, ended.stdout)
    return [(float(loss), float(accuracy), int(n)) for loss, accuracy, n in lines]


SLOW = (pytest.param(options, marks=pytest.mark.slow) for options in (["--deterministic"], ["--compile"]))


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], *SLOW])
def test_digits_are_learnt(options):
    if options == ["--compile"]:
        pytest.importorskip("numba", reason="Numba is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
    lines = run(2, "--epochs", "6", "--batch-size", "64", *options)
    assert [n for *_, n in lines] == [2] * 6
    assert lines[-1][0] < 0.3 and lines[-1][1] > 85


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the MNIST files are not in shared/data/mnist")
def test_two_processes_learn_as_one_does():
    options = ["--data", str(DATA), "--epochs", "1", "--max-steps", "60"]
    (one,), (two,) = run(1, *options), run(2, *options)
    assert two[0] == pytest.approx(one[0], rel=0.02) and two[1] > 85
