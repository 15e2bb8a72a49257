"""What the figures were measured on: machine, versions, threads."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

_PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "llvmlite",
    "scipy-openblas32",
    "scikit-learn",
    "torch",
    "jax",
    "mpi4py",
    "openmpi",
)
_VARIABLES = ("JTORCH_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def thread_variables(threads: int | None) -> dict[str, str]:
    """The environment that holds every library to ``threads``, read when the libraries load.

    Nothing for None: then each library has as many as it takes by itself, or as the user's variables say.
    """
    if threads is None:
        return {}
    return dict.fromkeys(_VARIABLES, str(threads))


def describe(threads: int | None) -> dict[str, Any]:
    """The facts a reader needs to place the figures; all of it goes into the JSON."""
    import jtorch  # here: it imports NumPy, which reads the variables of threads
    from jtorch.core.threads import cores

    return {
        "command": shlex.join(["python", *sys.orig_argv[1:]]),
        "cpu": _cpu(),
        "cores": cores(),
        "threads": threads,
        "jtorch_threads": jtorch.get_num_threads(),
        "thread_variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "versions": {p: v for p in _PACKAGES if (v := _version(p))},
        "load_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = [line.partition(":")[::2] for line in lines]
    named = {key.strip(): value.strip() for key, value in facts}
    flags = set(named.get("flags", "").split())
    wide = next((name for flag, name in _VECTORS if flag in flags), "no AVX")
    return f"{named.get('model name', platform.machine())}, {wide}"


_VECTORS = (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX"))
