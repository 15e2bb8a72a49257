"""The tests' device as the one that tensors lie on."""

from __future__ import annotations

import pytest

from jtorch.compile.run import device_memory
from tests.cuda.device import cuda_device


@pytest.fixture
def cuda():
    """``"cuda"`` is there, by the tests' driver; the device is given. What the device holds against the
    program fails the test."""
    device = cuda_device()
    device_memory.use(device_memory.DeviceMemory(device))
    try:
        yield device
        device.synchronize()
        assert device.fake.fault is None, device.fake.fault
    finally:
        device_memory.use(None)
