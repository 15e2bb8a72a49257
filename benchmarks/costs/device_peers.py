"""Other libraries on a device, in this process: there no pools of threads are in each other's way.

PyTorch has a clock of events, as jtorch has; JAX has none, and is timed on the host until its results are
there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.models import training
from benchmarks.program import Program, Workload
from benchmarks.timing import host_clock

PEERS = {"torch": "", "torch.compile": "reduce-overhead", "jax": ""}
"""Name -> what is done to its model."""


@dataclass(frozen=True)
class OnDevice:
    """A program whose parameters, state and data lie on a device. ``begin`` forgets the most memory so far,
    ``peak`` gives its bytes since, if the library tells."""

    program: Program
    clock: Callable[[], Callable[[], float]]
    begin: Callable[[], None]
    peak: Callable[[], int | None]


def peer(name: str, workload: Workload, device: str) -> OnDevice:
    """The workload as that library runs it. Raises NotImplementedError where it is not written for it."""
    return _in_jax(workload, device) if name == "jax" else _in_torch(name, workload, device)


def on(library: Any, workload: Workload, device: str) -> Program:
    """The program with its parameters, state and data there, in a library with PyTorch's interface."""
    with library.device(device):  # a default that is set is a mode in PyTorch, of all that is called later
        program = workload.torch_like(library)
    program.arguments = [tuple(a.to(device) for a in row) for row in program.arguments]
    return program


def events(cuda: Any) -> Callable[[], float]:
    """A clock of two events around the work in the stream, of a library's ``cuda``."""
    start = cuda.Event(enable_timing=True)
    start.record()

    def seconds() -> float:
        end = cuda.Event(enable_timing=True)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    return seconds


def _in_torch(name: str, workload: Workload, device: str) -> OnDevice:
    import torch

    before, training.how = training.how, PEERS[name]
    try:
        program = on(torch, workload, device)
    finally:
        training.how = before
    if device != "cuda":
        return OnDevice(program, host_clock, lambda: None, lambda: None)
    cuda = torch.cuda
    return OnDevice(program, lambda: events(cuda), cuda.reset_peak_memory_stats, cuda.max_memory_allocated)


def _in_jax(workload: Workload, device: str) -> OnDevice:
    if workload.jax is None:
        raise NotImplementedError(f"{workload.name} is not written for JAX")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or it takes most of the device
    import jax

    found = jax.devices(device)[0]
    with jax.default_device(found):
        program = workload.jax()

    def peak() -> int | None:
        return (found.memory_stats() or {}).get("peak_bytes_in_use")

    return OnDevice(program, host_clock, lambda: None, peak)
