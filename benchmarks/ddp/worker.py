"""One process of a job: ``python -m benchmarks.ddp.worker LIBRARY``. It answers until the other end is gone.

The text that runs is one for both libraries, jtorch over MPI and PyTorch over gloo. Every process computes on
batches of its own, so only averaging makes their parameters the same.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from multiprocessing.connection import Client, Connection
from typing import Any

from benchmarks.agree import Record, check, record
from benchmarks.ddp.job import ANSWER, Job
from benchmarks.models import training
from benchmarks.models.rows import MODELS
from benchmarks.program import Program
from benchmarks.timing import Calls

EAGER, COMPILED = "eager", "compiled"
# with DistributedDataParallel; the plain module in as many processes; that with a barrier after each step
AVERAGED, APART, IN_STEP = "averaged", "apart", "in step"
COLLECTIVES = "collectives"


class Worker:
    """The programs of one network, and the collectives, of a library that is ``jtorch`` or ``torch``."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.dist = torch, torch.distributed
        self.contestants: dict[str, Calls] = {}
        self.programs: dict[str, tuple[Program, Callable]] = {}
        self.wrapped: Any = None

    def prepare(self, row: str, modes: Sequence[str]) -> dict[str, list[int]]:
        """Make the programs ``MODE averaged``, ``apart`` and ``in step``, and ``collectives``.

        Bytes of each bucket of gradients, and of the buffers, which rank 0 sends before a forward.
        """
        self.programs, self.contestants = {}, {}
        for mode in modes:
            for how in (AVERAGED, APART):
                program = self._program(row, how)
                step = self.torch.compile(program.step) if mode == COMPILED else program.step
                self._add(f"{mode} {how}", program, step)
            self._add(f"{mode} {IN_STEP}", program, self._met(step))
        self._compare(row, modes)
        self.record(f"{modes[-1]} {AVERAGED}", 3)  # PyTorch fills its buckets anew, and says so in the third
        buckets, buffers = _sent(self.wrapped)
        self._collectives(buckets, buffers)
        return {"buckets": buckets, "buffers": buffers}

    def _program(self, row: str, how: str) -> Program:
        """A network with this process's batches, in a DistributedDataParallel where it is ``averaged``."""
        made: list[Any] = []

        def wrap(model: Any) -> Any:
            made.append(self.torch.nn.parallel.DistributedDataParallel(model))
            return made[0]

        with _wrapped_in(wrap if how == AVERAGED else None):
            program = MODELS[row].torch_like(self.torch)
        self.wrapped = made[0] if made else self.wrapped
        rank = self.dist.get_rank()
        program.arguments = [(x.roll(rank, 0), *others) for x, *others in program.arguments]
        return program

    def _add(self, name: str, program: Program, step: Callable) -> None:
        self.programs[name] = (program, step)
        self.contestants[name] = Calls(step, program.arguments, program.reset, mode=self._together)

    def _met(self, step: Callable) -> Callable:
        def met(*arguments: Any) -> None:
            step(*arguments)
            self.dist.barrier()

        return met

    def _compare(self, row: str, modes: Sequence[str]) -> None:
        """Raise DisagreementError where a compiled step computes something else than the eager one."""
        for how in (AVERAGED, APART) if set(modes) >= {EAGER, COMPILED} else ():
            name = f"{COMPILED} {how}"
            check(self.record(name, 1), self.record(f"{EAGER} {how}", 1), MODELS[row].tolerance, name)

    def record(self, name: str, steps: int) -> Record:
        """What the first steps compute, from the initial state."""
        program, step = self.programs[name]
        return record(program, step, steps)

    def _collectives(self, buckets: Sequence[int], buffers: Sequence[int]) -> None:
        dist, zeros, byte = self.dist, self.torch.zeros, self.torch.uint8
        gradients = [zeros(nbytes // 4) for nbytes in buckets]
        states = [zeros(nbytes, dtype=byte) for nbytes in buffers]

        def collectives() -> None:
            for state in states:
                dist.broadcast(state, 0)
            for work in [dist.all_reduce(flat, async_op=True) for flat in gradients]:
                work.wait()

        self.contestants[COLLECTIVES] = Calls(collectives, [()], mode=self._together)

    def sizes(self, all_sizes: Sequence[int]) -> None:
        """Make contestants ``all_reduce N`` of N bytes of float32."""
        for nbytes in all_sizes:
            flat = self.torch.zeros(nbytes // 4)
            self.contestants[f"all_reduce {nbytes}"] = Calls(
                self.dist.all_reduce, [(flat,)], mode=self._together
            )

    def adding(self, all_sizes: Sequence[int]) -> None:
        """Make contestants ``add N``: the addition of N bytes of float32, as a collective does it."""
        import numpy as np

        for nbytes in all_sizes:
            flat, other = np.zeros(nbytes // 4, np.float32), np.ones(nbytes // 4, np.float32)
            self.contestants[f"add {nbytes}"] = Calls(np.add, [(flat, other, flat)], mode=self._together)

    def run(self, name: str, calls: int) -> float:
        """Seconds of that many calls, begun when all processes are here."""
        return self.contestants[name].run(calls)

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        self.dist.barrier()
        yield


@contextlib.contextmanager
def _wrapped_in(wrap: Callable[[Any], Any] | None) -> Iterator[None]:
    training.wrap = wrap
    try:
        yield
    finally:
        training.wrap = None


def _sent(wrapped: Any) -> tuple[list[int], list[int]]:
    """Bytes of a DistributedDataParallel's buckets, in the order they are sent, and of its buffers."""
    by_dtype: dict[Any, int] = {}
    for buffer in wrapped.module.buffers():
        by_dtype[buffer.dtype] = by_dtype.get(buffer.dtype, 0) + buffer.numel() * buffer.element_size()
    if hasattr(wrapped.reducer, "buckets"):
        return [bucket.nbytes for bucket in wrapped.reducer.buckets], list(by_dtype.values())
    data = wrapped._get_ddp_logging_data()
    text = str(data.get("rebuilt_bucket_sizes") or data["bucket_sizes"])
    return [int(size) for size in text.split(",")], list(by_dtype.values())


def join(library: str) -> Any:
    """The library's module, with its process group joined; gloo's processes meet in a file."""
    torch = importlib.import_module(library)
    limit = timedelta(seconds=ANSWER / 2)
    if library == "jtorch":
        importlib.import_module("jtorch.distributed").init_process_group("mpi", timeout=limit)
    else:
        torch.set_num_threads(1)
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        method = f"file://{os.environ[Job.ADDRESS]}.gloo"
        torch.distributed.init_process_group("gloo", method, limit, world, rank)
    return torch


def serve(pipe: Connection, worker: Worker) -> None:
    """Answer questions, each the name of a method with its arguments, until the other end closes."""
    while True:
        try:
            question, *arguments = pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            pipe.send((True, getattr(worker, question)(*arguments)))
        except Exception as error:
            pipe.send((False, f"{type(error).__name__}: {error}"))


def main(library: str) -> None:
    with Client(os.environ[Job.ADDRESS], "AF_UNIX") as pipe:
        worker = Worker(join(library))
        pipe.send((True, worker.dist.get_rank()))
        serve(pipe, worker)
        worker.dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
