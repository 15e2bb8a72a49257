"""What the driver says of the device.

Source: https://docs.pytorch.org/docs/stable/generated/torch.cuda.get_device_properties.html
"""

from __future__ import annotations

from typing import Any, NamedTuple

_ATTRIBUTES = {  # of CUdevice_attribute in cuda.h
    "warp_size": 10, "clock_rate": 13, "multi_processor_count": 16, "is_integrated": 18, "pci_bus_id": 33,
    "pci_device_id": 34, "pci_domain_id": 50, "L2_cache_size": 38, "max_threads_per_multi_processor": 39,
    "max_threads_per_block": 1, "shared_memory_per_block": 8, "shared_memory_per_multiprocessor": 81,
    "regs_per_multiprocessor": 82, "is_multi_gpu_board": 84, "shared_memory_per_block_optin": 97,
}  # fmt: skip


class DeviceProperties(NamedTuple):
    """Memory in bytes, the clock in kilohertz."""

    name: str
    major: int
    minor: int
    total_memory: int
    warp_size: int
    clock_rate: int
    multi_processor_count: int
    is_integrated: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    L2_cache_size: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    shared_memory_per_block: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int
    is_multi_gpu_board: int
    shared_memory_per_block_optin: int


def of(native: Any) -> DeviceProperties:
    """Those of a device of the driver's."""
    with native.own():
        facts = {name: native.attribute(number) for name, number in _ATTRIBUTES.items()}
        _, total = native.memory.free_and_total()
    major, minor = native.capability
    return DeviceProperties(name=native.name, major=major, minor=minor, total_memory=total, **facts)
