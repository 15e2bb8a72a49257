"""The process that makes batches for a loader, and what it knows about itself."""

from __future__ import annotations

import os
import random
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any

import numpy as np

import jtorch
from jtorch.core import library_threads, threads
from jtorch.utils.data.dataset import IterableDataset
from jtorch.utils.data.fetch import Recipe
from jtorch.utils.data.transport import receive, send

RESUME = -1  # the tag of a message with the base seed of another pass; other tags number the tasks
_LOOK_FOR_PARENT = 5.0  # seconds; its end also closes the socket, unless another child has inherited that


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker process: its number, how many there are, its seed, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """What a worker process of a loader is told about itself; None in any other process.

    >>> import jtorch
    >>> print(jtorch.utils.data.get_worker_info())  # here no worker is at work
    None

    Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.get_worker_info
    """
    return _worker_info


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker is started with."""

    recipe: Recipe
    base_seed: int
    worker_id: int
    num_workers: int
    worker_init_fn: Callable[[int], Any] | None


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """The answer of a worker whose part of an IterableDataset has come to its end."""


class ExceptionWrapper:
    """An exception on its way to another process: its type and its printed traceback."""

    def __init__(self, where: str) -> None:
        kind, value, trace = sys.exc_info()
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.name = kind.__name__ if kind is not None else "exception"
        self.where = where

    def without_type(self) -> ExceptionWrapper:
        """For a type that cannot be sent."""
        self.exc_type = RuntimeError
        return self

    def reraise(self) -> None:
        """Raise an exception of the same type here; RuntimeError where it takes more than a text."""
        text = f"Caught {self.name} {self.where}.\nOriginal {self.exc_msg}"
        message: Any = _Verbatim(text) if self.exc_type is KeyError else text
        try:
            exception = self.exc_type(message)
        except Exception:
            raise RuntimeError(text) from None
        raise exception


class _Verbatim(str):
    """A KeyError prints the repr of its argument: with this one, the text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def worker_main(channel: socket.socket, inherited: Sequence[socket.socket], setup: Setup) -> None:
    """Serve tasks from ``channel`` until the loader closes it or is gone.

    ``inherited``: the loader's ends, of which a forked process has copies; while those are open nobody
    could see that the loader has closed them.
    """
    for end in inherited:
        end.close()
    parent = os.getppid()
    _use_one_thread()
    try:
        _seed(setup)
        answer = _first_pass(setup)
        while _has_task(channel, parent):
            tag, indices = receive(channel)
            if tag == RESUME:
                answer = _next_pass(setup, indices)
                send(channel, RESUME, None)
                continue
            value = answer(tag, indices)
            if value is not None:
                _send(channel, tag, value, setup.worker_id)
            del value  # not kept while waiting
    except (KeyboardInterrupt, EOFError, ConnectionError):
        pass  # the loader has gone, or Ctrl-C, which it has got, too
    finally:
        channel.close()


def _use_one_thread() -> None:
    """In jtorch's ops and in what NumPy and SciPy compute: there are as many workers as are wanted.

    A library that is loaded later reads the variable. ``worker_init_fn`` may set another number.
    """
    threads.set_count(1)
    library_threads.set_all(1)
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"


def _seed(setup: Setup) -> None:
    global _worker_info
    seed = setup.base_seed + setup.worker_id
    random.seed(seed)
    jtorch.manual_seed(seed)
    low, high = setup.base_seed & 0xFFFFFFFF, setup.base_seed >> 32
    np.random.seed(np.random.SeedSequence([setup.worker_id, low, high, 0]).generate_state(4))
    _worker_info = WorkerInfo(setup.worker_id, setup.num_workers, seed, setup.recipe.dataset)


def _seed_batch(setup: Setup, number: int) -> None:
    """So that a batch depends on none before it, which a resumed pass doesn't make, nor on the workers."""
    low, high = setup.base_seed & 0xFFFFFFFF, setup.base_seed >> 32
    words = np.random.SeedSequence([number, low, high, 1]).generate_state(4)
    np.random.seed(words)
    seed = int.from_bytes(words[:2].tobytes(), "little")
    random.seed(seed)
    jtorch.manual_seed(seed)


def _has_task(channel: socket.socket, parent: int) -> bool:
    """Wait for a message; False where the parent process is gone."""
    while not wait([channel], _LOOK_FOR_PARENT):
        if os.getppid() != parent:
            return False
    return True


def _first_pass(setup: Setup) -> Callable[[int, Any], Any]:
    def begin() -> Callable[[Any], Any]:
        if setup.worker_init_fn is not None:
            setup.worker_init_fn(setup.worker_id)
        return setup.recipe.start()

    return _answers(begin, setup)


def _next_pass(setup: Setup, base_seed: int) -> Callable[[int, Any], Any]:
    """Seeded anew, so that the pass depends on nothing before it; what an init function seeded stays so."""
    setup = replace(setup, base_seed=base_seed)
    if setup.worker_init_fn is None:
        _seed(setup)
    return _answers(setup.recipe.start, setup)


def _answers(begin: Callable[[], Callable[[Any], Any]], setup: Setup) -> Callable[[int, Any], Any]:
    """From a task, a batch's number in its pass and its indices, to its answer.

    That is the batch in a tuple, an error, or None after a stream has ended.
    """
    where = f"in DataLoader worker process {setup.worker_id}"
    stream = isinstance(setup.recipe.dataset, IterableDataset)
    failed: ExceptionWrapper | None = None
    fetch: Any = None
    try:
        fetch = begin()
    except Exception:
        failed = ExceptionWrapper(where)
    ended = told = False
    seeds_batches = not stream and setup.worker_init_fn is None

    def answer(number: int, indices: Any) -> Any:
        nonlocal ended, told
        if ended:
            first, told = not told, True
            return StreamEnded() if first else None
        if failed is not None:
            ended = stream  # of a stream that never began nothing more can come
            return failed
        if seeds_batches:
            _seed_batch(setup, number)
        try:
            return (fetch(indices),)
        except StopIteration:
            if stream:
                ended = told = True
                return StreamEnded()
            return ExceptionWrapper(where)
        except Exception:
            return ExceptionWrapper(where)

    return answer


def _send(channel: socket.socket, tag: int, value: Any, worker_id: int) -> None:
    """Send the answer, or why it cannot be sent."""
    try:
        send(channel, tag, value)
    except ConnectionError:
        raise
    except Exception:
        error = ExceptionWrapper(f"in DataLoader worker process {worker_id}")
        if isinstance(value, ExceptionWrapper):
            error = value.without_type()
        send(channel, tag, error)
