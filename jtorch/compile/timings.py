"""What one compilation cost, stage by stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Timings:
    """Seconds spent in each stage of a compilation; ``first_call`` is the whole first call."""

    trace: float = 0.0
    passes: float = 0.0
    fuse: float = 0.0
    plan: float = 0.0  # loop nests, order, memory
    emit: float = 0.0  # source text
    build: float = 0.0  # LLVM, or loading from the cache, and the argument blocks
    first_call: float = 0.0
    kernels_compiled: int = 0

    @property
    def codegen(self) -> float:
        """Seconds from the fused graph to source text and memory plan."""
        return self.plan + self.emit

    @property
    def total(self) -> float:
        return self.trace + self.passes + self.fuse + self.plan + self.emit + self.build

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        setattr(self, stage, getattr(self, stage) + time.perf_counter() - start)
