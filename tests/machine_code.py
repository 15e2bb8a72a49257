"""Where eager mode must have machine code: a test of it that skips anywhere else would hide that it broke."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from jtorch import config
from jtorch.compile import cache_files

expected = (
    bool(config.get("JIT"))
    and sys.implementation.name == "cpython"
    and importlib.util.find_spec("numba") is not None
    and cache_files.open_folder(warn=False) is not None
)
needs_machine_code = pytest.mark.skipif(
    not expected, reason="no machine code here: Numba is not installed, JTORCH_JIT is 0 or there is no cache"
)
