"""Where there must be machine code, and which: a test that skips anywhere else would hide that it broke."""

from __future__ import annotations

import importlib.util
import platform
import sys

import pytest

from jtorch.core import config
from jtorch.native import cache_files

kernels = (
    config.jitted()
    and sys.implementation.name == "cpython"
    and importlib.util.find_spec("numba") is not None
    and cache_files.open_folder(warn=False) is not None
)
# of ops and the engine: it counts no reference by itself, but under the interpreter's lock
expected = kernels and getattr(sys, "_is_gil_enabled", lambda: True)()

needs_kernels = pytest.mark.skipif(
    not kernels, reason="no kernels here: Numba is not installed, JTORCH_JIT is 0 or there is no cache"
)
needs_machine_code = pytest.mark.skipif(
    not expected, reason="no machine code of ops here: threads run side by side, or nothing makes kernels"
)
needs_own_linker = pytest.mark.skipif(
    config.get("JIT") == "llvm" or (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="LLVM loads kernels here: not Linux on x86-64, or JTORCH_JIT=llvm",
)
