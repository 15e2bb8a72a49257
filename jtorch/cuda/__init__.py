"""CUDA as scripts ask about it.

There is one device, where a driver is; the first question looks for it, and importing this does not. Without
one questions are answered truthfully (``is_available()`` is False), what PyTorch lets pass without a GPU
passes (seeds, ``empty_cache``), and what needs one raises "Torch not compiled with CUDA enabled". All work is
in one queue, whatever stream it is put in. Draws are those of the CPU's generator, wherever they lie.
Source: https://docs.pytorch.org/docs/stable/cuda.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from jtorch import random as _generator
from jtorch.compat.legacy import CUDA_TYPES as _CUDA_TYPES
from jtorch.core import devices as _devices, higher as _higher
from jtorch.core.devices import DeviceError as DeviceError
from jtorch.cuda import amp as amp
from jtorch.cuda.properties import DeviceProperties as _DeviceProperties, of as _properties_of
from jtorch.cuda.streams import (
    Event as Event,
    Stream as Stream,
    StreamContext as StreamContext,
    current_stream as current_stream,
    default_stream as default_stream,
    set_stream as set_stream,
    stream as stream,
)


def is_available() -> bool:
    """Whether there is a CUDA device that computes."""
    return _devices.cuda_is_available()


def is_initialized() -> bool:
    """Whether it was used or looked for, and found."""
    return _higher.device is not None and bool(_higher.device().is_found())


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 is computed on the device, which it is in float32: by emulation, in PyTorch's word."""
    return including_emulation and is_available()


def device_count() -> int:
    """1 where there is a device, however many the driver has: jtorch uses the first."""
    return int(is_available())


def get_arch_list() -> list[str]:
    return []


def manual_seed(seed: int) -> None:
    """Nothing: draws on a device are those of ``jtorch.manual_seed``."""
    int(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Nothing: there is no generator on a GPU."""


seed_all = seed


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise DeviceError("Torch not compiled with CUDA enabled")


def _native(device: Any = None) -> Any:
    """The device. Raises DeviceError where there is none, RuntimeError for another one."""
    if not is_available():
        _refuse()
    if device is not None:
        _devices.check(_devices.device("cuda", device) if isinstance(device, int) else device)
    assert _higher.device is not None
    return _higher.device().current().native


def _counted(name: str) -> int:
    return int(getattr(_native().statistics, name)) if is_initialized() else 0


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors, and kernels for them, have now."""
    return _counted("allocated")


def max_memory_allocated(device: Any = None) -> int:
    """The most of it since the start, or ``reset_peak_memory_stats``."""
    return _counted("max_allocated")


def memory_reserved(device: Any = None) -> int:
    """Bytes that the driver was asked for and has not got back."""
    return _counted("reserved")


def max_memory_reserved(device: Any = None) -> int:
    """The most of it since the start, or ``reset_peak_memory_stats``."""
    return _counted("max_reserved")


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Count the most anew, from what there is now."""
    now = _native(device).statistics
    now.max_allocated, now.max_reserved = now.allocated, now.reserved


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def memory_stats(device: Any = None) -> dict[str, Any]:
    """The statistics under PyTorch's names, as far as they are counted; empty before a device is used."""
    if not is_initialized():
        return {}
    now = _native(device).statistics
    return {
        "allocated_bytes.all.current": now.allocated,
        "allocated_bytes.all.peak": now.max_allocated,
        "num_device_alloc": now.driver_calls,
        "reserved_bytes.all.current": now.reserved,
        "reserved_bytes.all.peak": now.max_reserved,
    }


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(bytes of the device that nobody has, all bytes), as the driver counts, other processes' among them."""
    native = _native(device)
    with native.own():
        free, total = native.memory.free_and_total()
    return int(free), int(total)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The statistics as text, a line each."""
    now = _native(device).statistics
    return "\n".join(f"{name:>14} {value:>16,}" for name, value in vars(now).items())


def empty_cache() -> None:
    """Give the driver back what is kept of freed memory, of the device and pinned."""
    if is_initialized():
        native = _native()
        with native.own():
            native.synchronize()
            native.memory.empty_cache()
            native.pinned.empty_cache()


def synchronize(device: Any = None) -> None:
    """Wait until all is done."""
    native = _native(device)
    with native.own():
        native.synchronize()


def init() -> None:
    """Look for the device now."""
    _native()


def current_device() -> int:
    """0: there is one."""
    _native()
    return 0


def set_device(device: Any) -> None:
    """Nothing, for the one there is. Raises RuntimeError for another."""
    _native(device)


def get_device_name(device: Any = None) -> str:
    """As the driver calls it."""
    return str(_native(device).name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability, (major, minor)."""
    major, minor = _native(device).capability
    return major, minor


def get_device_properties(device: Any = None) -> _DeviceProperties:
    """What the driver says of the device: name, memory, multiprocessors, and more."""
    return _properties_of(_native(device))


def ipc_collect() -> None:
    """Nothing: no memory of a device is shown to other processes. Raises DeviceError without one."""
    _native()


def initial_seed() -> int:
    """That of ``jtorch.initial_seed``, whose generator draws for the device, too."""
    _native()
    return _generator.initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """That of ``jtorch.get_rng_state``, whose generator draws for the device, too."""
    _native(device)
    return _generator.get_rng_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Let the generator, which draws for host and device, go on from this state."""
    _native(device)
    _generator.set_rng_state(new_state)


def get_rng_state_all() -> list:
    """The state for each device."""
    return [get_rng_state()] if is_available() else []


def set_rng_state_all(new_states: Any) -> None:
    """Let each device go on from its state. Raises DeviceError for more of them than there are."""
    for k, state in enumerate(new_states):
        set_rng_state(state, k)


def _needs_cuda(name: str) -> Callable[..., NoReturn]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        _native()
        raise NotImplementedError(f"jtorch.cuda.{name}: jtorch has no such thing of a device")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Not there. Raises DeviceError without a device, NotImplementedError with one."
    return refused


_NEEDING = (
    "can_device_access_peer", "current_blas_handle", "memory_snapshot", "set_per_process_memory_fraction",
    "utilization",
)  # fmt: skip
globals().update({name: _needs_cuda(name) for name in _NEEDING})


class device:  # noqa: N801 - PyTorch's name
    """``with torch.cuda.device(k)``: raises where a GPU is named that is not there; None and negative numbers
    name none."""

    def __init__(self, device: Any) -> None:
        if device is not None and not (isinstance(device, int) and device < 0):
            _native(device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


globals().update(_CUDA_TYPES)


def __getattr__(name: str) -> Any:  # the names made above, for type checkers
    raise AttributeError(f"module 'jtorch.cuda' has no attribute {name!r}")
