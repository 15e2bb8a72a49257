"""A device whose ops the host computes, from copies: for questions about dtypes, not about kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from jtorch.compile.run import device_memory
from jtorch.core.device_array import DeviceArray
from jtorch.eager import on_device
from tests.cuda.device import cuda_device


class HostComputed(device_memory.DeviceMemory):
    """It has no kernels."""

    def routine(self, *given: Any) -> None:
        return None

    def kernels(self, *given: Any, **keywords: Any) -> Callable[[tuple], Any] | None:
        return None

    def widened(self, array: DeviceArray) -> DeviceArray:
        return self.uploaded(array.concrete("a test").astype(np.float32))

    def rounded(self, array: DeviceArray, dtype: np.dtype) -> DeviceArray:
        return self.uploaded(array.concrete("a test").astype(dtype))


@contextmanager
def by_host(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """``"cuda"`` is there, and the host computes what lies on it."""
    patch.setattr(on_device.Computing, "_in_float32", lambda *given: None)
    device_memory.use(HostComputed(cuda_device()))
    try:
        yield
    finally:
        device_memory.use(None)
