"""CUDA as scripts ask about it: there is none in this build.

Questions are answered truthfully (``is_available()`` is False), what PyTorch lets pass without a GPU passes
(seeds, ``empty_cache``), and what needs one raises "Torch not compiled with CUDA enabled".
Source: https://docs.pytorch.org/docs/stable/cuda.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from jtorch.compat.legacy import CUDA_TYPES as _CUDA_TYPES
from jtorch.core.devices import DeviceError
from jtorch.cuda import amp


def is_available() -> bool:
    """False: this build computes on the CPU."""
    return False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def device_count() -> int:
    return 0


def get_arch_list() -> list[str]:
    return []


def manual_seed(seed: int) -> None:
    """Nothing: the seed of a GPU that is not there."""
    int(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Nothing: there is no generator on a GPU."""


seed_all = seed


def empty_cache() -> None:
    """Nothing: no memory is held on a GPU."""


def memory_allocated(device: Any = None) -> int:
    """0: no memory is held on a GPU."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
memory_cached = max_memory_cached = memory_allocated


def get_rng_state_all() -> list:
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Raises DeviceError for the state of any GPU."""
    if list(new_states):
        _refuse()


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise DeviceError("Torch not compiled with CUDA enabled")


def _needs_cuda(name: str) -> Callable[..., NoReturn]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse()

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Needs a GPU. Raises DeviceError: this build has none."
    return refused


_NEEDING = (
    "can_device_access_peer", "current_blas_handle", "current_device", "current_stream", "default_stream",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "init",
    "initial_seed", "ipc_collect", "mem_get_info", "memory_snapshot", "memory_stats", "memory_summary",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "set_device",
    "set_per_process_memory_fraction", "set_rng_state", "set_stream", "synchronize", "utilization",
)  # fmt: skip
globals().update({name: _needs_cuda(name) for name in _NEEDING})


class Stream:
    """A queue of a GPU. Raises RuntimeError: this build has none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("torch.cuda.Stream requires CUDA support")


class Event:
    """A mark in a queue of a GPU. Raises RuntimeError: this build has none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("Tried to instantiate dummy base class Event")


class device:  # noqa: N801 - PyTorch's name
    """``with torch.cuda.device(k)``: raises where a GPU is named; None and negative numbers name none."""

    def __init__(self, device: Any) -> None:
        if device is not None and not (isinstance(device, int) and device < 0):
            _refuse()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


globals().update(_CUDA_TYPES)


def __getattr__(name: str) -> Any:  # the names made above, for type checkers
    raise AttributeError(f"module 'jtorch.cuda' has no attribute {name!r}")
