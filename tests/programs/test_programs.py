"""The same small PyTorch programs on jtorch and on PyTorch: the losses they print are equal.

They compute in float64; 1e-9 leaves room for the order of sums over a few steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.ops.support import needs_torch

HERE = Path(__file__).parent
PROGRAMS = sorted(p.stem for p in HERE.glob("*.py") if p.stem not in ("start", "test_programs"))


def printed(command: list[str], program: str, *arguments: str) -> np.ndarray:
    """The numbers a program prints, one a line."""
    done = subprocess.run(
        [sys.executable, *command, str(HERE / f"{program}.py"), "--steps", "4", *arguments],
        capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return np.array([float(line) for line in done.stdout.split()])


def test_there_are_seven():
    assert len(PROGRAMS) == 7


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("program", PROGRAMS)
def test_prints_what_pytorch_prints(program):
    ours = printed(["-m", "jtorch.as_torch"], program)
    theirs = printed([], program)
    assert ours.size >= 4
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_the_loss_falls_from_given_parameters(tmp_path):
    """Without PyTorch, too: from an .npz, a program learns, and another start gives another loss."""
    rng = np.random.default_rng(1)
    shapes = {"first.weight": (12, 5), "first.bias": (12,), "second.weight": (3, 12), "second.bias": (3,)}
    file = tmp_path / "weights.npz"
    np.savez(file, **{name: 0.3 * rng.standard_normal(shape) for name, shape in shapes.items()})
    command = ["-m", "jtorch.as_torch"]
    given = printed(command, "function_hooks", "--init", str(file))
    assert given[3] < given[0]
    assert given[0] != printed(command, "function_hooks")[0]
