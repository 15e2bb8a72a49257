"""einops on jtorch, compiled: its functions, its layers, and models written with them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_functions_layers_and_models_are_eagers():
    pytest.importorskip("einops", reason="einops is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "jtorch.as_torch", str(Path(__file__).parent / "einops_models.py")],
        capture_output=True, text=True, check=False, timeout=600, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["23", "functions,", "5", "layers,", "6", "models"]
