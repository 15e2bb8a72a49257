"""Whose code is observed while a function is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jtorch

PROGRAM = """
import dataclasses, numba.core.types.abstract, numpy as np, jtorch
from jtorch.compile.observe.kinds import is_observed

def users(x):
    return x

for function in (
    users, np.linalg.norm.__wrapped__, dataclasses.replace, jtorch.manual_seed,
    numba.core.types.abstract._on_type_disposal,
):
    print(int(is_observed(function.__code__, function.__globals__)), end="")
print("", np.__file__)
"""


@pytest.mark.parametrize("linked", [False, True])
def test_libraries_are_not_observed_wherever_links_lead_to_them(tmp_path, linked):
    """Environments link lib64 to lib: what a module says of its place is not where the links lead."""
    site = Path(np.__file__).parents[1]
    if linked:
        (tmp_path / "lib64").symlink_to(site)
        site = tmp_path / "lib64"
    root = str(Path(jtorch.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), root])},
    )  # fmt: skip
    flags, place = done.stdout.split()
    assert (flags, Path(place).parents[1]) == ("10000", site)
