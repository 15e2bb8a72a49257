"""Shows on a machine with a GPU what tests without one cannot: ``python -m tests.cuda.prove [-k WORD]``

The programs of ``test_hardware.py`` run on this machine's driver and cuBLAS, and none may skip. ``--fake``
runs them on the tests' device instead: that shows that they are right, and nothing of a GPU. The exit status
is 0 if all passed, 1 if not, and 2 if there is nothing to run them on. Further arguments are pytest's.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from jtorch.compile.run.cuda_texts import NO_COMPILER
from jtorch.core.errors import CudaError
from jtorch.native.cuda.device import Device
from tests.cuda.device import cuda_device

CHECKS = Path(__file__).with_name("test_hardware.py")


class Proving:
    """The plugin of pytest that brings the device, and counts."""

    __name__ = "prove"  # by which the tests find it

    def __init__(self, device: Device) -> None:
        self.device = device
        self.passed, self.skipped = 0, list[str]()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.passed += report.when == "call" and report.passed
        self.skipped += [report.nodeid] if report.skipped else []


def main(arguments: Sequence[str]) -> int:
    fake = "--fake" in arguments
    try:
        if importlib.util.find_spec("numba_cuda") is None:
            raise CudaError(NO_COMPILER)
        device = cuda_device() if fake else Device()
        device.blas  # noqa: B018 - loads it
    except CudaError as error:
        print(f"nothing was checked: {error}", file=sys.stderr)
        return 2
    print(described(device), flush=True)
    proving = Proving(device)
    options = ["-q", "-n", "0", "-m", "", "-p", "no:cacheprovider", "--durations=8"]
    failed = pytest.main([str(CHECKS), *options, *(a for a in arguments if a != "--fake")], plugins=[proving])
    done = not failed and not proving.skipped and proving.passed > 0
    print(f"{proving.passed} passed on {device.name}, {'all' if done else 'and not all'} that were asked for")
    return 0 if done else 1


def described(device: Device) -> str:
    """What the checks run on."""
    version = ctypes.c_int()
    device.cuda.cuDriverGetVersion(ctypes.byref(version))
    capability = ".".join(map(str, device.capability))
    return (
        f"{device.name}, compute capability {capability}; driver for CUDA {version.value // 1000}."
        f"{version.value % 1000 // 10}; numba-cuda {metadata.version('numba-cuda')}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
