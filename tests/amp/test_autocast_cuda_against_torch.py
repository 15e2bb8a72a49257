"""Runs ``autocast_cuda_against_torch.py`` in a process of its own: fake tensors load PyTorch's Dynamo, which
changes PyTorch for good (distributions check nothing any more), and all its functions are called there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ops.support import needs_torch


@needs_torch
@pytest.mark.slow
def test_dtypes_are_those_of_pytorchs_dispatcher():
    tests = Path(__file__).with_name("autocast_cuda_against_torch.py")
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tests.parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout and "skipped" not in done.stdout
