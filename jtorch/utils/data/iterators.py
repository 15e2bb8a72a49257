"""One pass over a loader: batches made here, or by worker processes and handed out in order."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import warnings
import weakref
from collections import deque
from multiprocessing.connection import wait
from pickle import PicklingError
from typing import Any

import jtorch
from jtorch.utils.data.dataset import IterableDataset
from jtorch.utils.data.pin_memory import pinned
from jtorch.utils.data.progress import Progress
from jtorch.utils.data.transport import send, take, unpack
from jtorch.utils.data.worker import RESUME, ExceptionWrapper, Setup, StreamEnded, worker_main

_IN_HAND = 64  # tasks that a worker has at most: 16 bytes each on a socket that holds some 270 messages
_ALL_IN_HAND = 256  # and all of them: each answer is a descriptor on its way, and those are limited
_PATIENCE = 5.0  # seconds that a worker gets to finish its batch before it is ended


class _BaseDataLoaderIter:
    """What both kinds of pass share: the indices, the base seed, the check of a stream's length."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._pins = loader.pin_memory and jtorch.cuda.is_available()
        if loader.pin_memory and not self._pins:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory "
                "won't be used.",
                stacklevel=4,
            )
        self._stream = isinstance(loader.dataset, IterableDataset)
        self._begin()

    def _begin(self) -> None:
        """Begin a pass: all that draws from the generators is here, in the order of any other pass."""
        loader = self._loader
        self._progress = Progress.begin(loader)
        self._indices: Any = iter(loader._index_sampler)
        # Drawn with and without workers, so that their number doesn't change the order of the items.
        self._base_seed = int(jtorch.randint(2**63 - 1, (1,), generator=loader.generator).item())
        self._yielded = 0
        self._expected = loader._stream_length
        if not self._stream:
            self._pass_by_indices()

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __next__(self) -> Any:
        """The next batch."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def _pass_by_indices(self) -> None:
        skip = self._progress.skip
        passed = sum(1 for _ in itertools.islice(self._indices, skip))
        if passed < skip:
            raise self._too_short(passed)
        self._progress.passed_by()

    def _next_indices(self) -> Any:
        try:
            return next(self._indices)
        except StopIteration:
            raise
        except BaseException:  # a generator that has failed is at its end, but the pass is not
            self._progress.freeze()
            raise

    def _catch_up(self) -> None:
        """What remains to do where a pass is gone on with: read a stream up to there once more."""
        progress = self._progress
        while progress.given < progress.skip:
            before = progress.given
            try:
                next(self)
            except StopIteration:
                raise self._too_short(before) from None
            except Exception:
                if progress.given == before:  # no error of a batch, which the earlier process had got, too
                    raise

    def _too_short(self, found: int) -> RuntimeError:
        return RuntimeError(
            f"DataLoader: the loaded state is {self._progress.skip} batches into a pass, but a pass has only "
            f"{found} now. Load the state of another pass, or go on with the data that it was made with"
        )

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def _count(self) -> None:
        """Warn of a stream that is longer than it said."""
        self._yielded += 1
        if self._expected is None or self._yielded <= self._expected:
            return
        text = (
            f"Length of IterableDataset {self._loader.dataset} was reported to be {self._expected}"
            f"(when accessing len(dataloader)), but {self._yielded} samples have been fetched. "
        )
        if self._loader.num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warnings.warn(text, stacklevel=3)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._fetch = loader._recipe().start()

    def _catch_up(self) -> None:
        super()._catch_up()
        if not self._stream:  # draw the order now, while the generators stand so
            first = list(itertools.islice(self._indices, 1))
            self._indices = itertools.chain(first, self._indices)

    def __next__(self) -> Any:
        try:
            indices = self._next_indices()
        except StopIteration:
            self._progress.end()
            raise
        try:
            batch = self._fetch(indices)
        except Exception as error:
            if self._stream and isinstance(error, StopIteration):
                self._progress.end()
            else:
                self._progress.count()
            raise
        except BaseException:  # Ctrl-C: the batch has not been given
            self._indices = itertools.chain([indices], self._indices)
            raise
        self._progress.count()
        if self._expected is not None:
            self._count()
        return pinned(batch) if self._pins else batch


class _Task:
    """A batch that was asked for: of which worker, from which indices, and the answer once it is there."""

    __slots__ = ("answer", "indices", "worker")

    def __init__(self, worker: int, indices: Any) -> None:
        self.worker = worker
        self.indices = indices
        self.answer: Any = None


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Tasks go round the workers in turn; each works in order, so the next batch is the next of its worker.

    A batch whose making fails raises its error in its turn, and the pass can go on. So it can after the death
    of a worker: what else it was to do goes to the others.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._in_order = loader.in_order
        self._workers: list[Any] = []
        self._channels: list[socket.socket] = []
        # Runs when this object is gone, and at the latest at the end of the program.
        self._shut_down = weakref.finalize(self, _shut_down, self._workers, self._channels, os.getpid())
        try:
            for worker_id in range(loader.num_workers):
                self._start_worker(worker_id)
        except BaseException:
            self._shut_down()
            raise
        self._hand_out()

    def _start_worker(self, worker_id: int) -> None:
        loader = self._loader
        context = loader._context()
        ours, theirs = socket.socketpair()
        self._channels.append(ours)
        setup = Setup(loader._recipe(), self._base_seed, worker_id, loader.num_workers, loader.worker_init_fn)
        inherited = tuple(self._channels) if context.get_start_method() == "fork" else ()
        worker = context.Process(target=worker_main, args=(theirs, inherited, setup), daemon=True)
        try:
            worker.start()
        except (TypeError, AttributeError, PicklingError):
            warnings.warn(
                "Got pickle error when attempting to start a worker Process. This might be because the "
                "worker Process arguments are not picklable. Python 3.14+ changed the multiprocessing start "
                "method in non-Mac POSIX platforms to 'forkserver', which requires the worker Process "
                "arguments to be picklable. You can also try multiprocessing.set_start_method('fork').",
                stacklevel=5,
            )
            raise
        finally:
            theirs.close()
        self._workers.append(worker)

    # -- passes ------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Begin a pass: fill all workers' hands."""
        count = self._loader.num_workers
        self._tasks: dict[int, _Task] = {}
        self._busy = [True] * count  # alive, and not at the end of its stream
        self._turns = itertools.cycle(range(count))
        self._sent = 0 if self._stream else self._progress.skip  # tasks are numbered within the whole pass
        self._to_send: list[deque[int]] = [deque() for _ in range(count)]
        self._in_hand = [0] * count
        for _ in range(self._loader.prefetch_factor * count):
            self._ask()

    def _reset(self) -> bool:
        """Begin another pass with the same workers; False where one of them is gone."""
        if not self._shut_down.alive:
            return False
        self._begin()
        try:
            for channel in self._channels:
                send(channel, RESUME, self._base_seed)
            for channel, worker in zip(self._channels, self._workers, strict=True):
                while self._receive(channel, worker)[0] != RESUME:
                    pass
        except (EOFError, ConnectionError):
            self._shut_down()
            return False
        except BaseException:  # some have begun the pass, perhaps: none can be asked to begin another
            self._shut_down()
            raise
        self._hand_out()
        return True

    def _ask(self) -> None:
        """Send the next indices to the worker whose turn it is."""
        if not any(self._busy):
            return
        try:
            indices = self._next_indices()
        except StopIteration:
            return
        self._tasks[self._sent] = _Task(-1, indices)
        self._assign(self._sent)
        self._sent += 1

    def _assign(self, number: int) -> None:
        task = self._tasks[number]
        task.worker = self._next_worker()
        self._to_send[task.worker].append(number)
        self._feed(task.worker)

    def _feed(self, worker: int) -> None:
        """Send a worker its tasks, as far as its hands are free: neither side may ever wait in send."""
        waiting = self._to_send[worker]
        most = max(2, min(_IN_HAND, _ALL_IN_HAND // len(self._busy)))
        while waiting and self._in_hand[worker] < most:
            number = waiting.popleft()
            self._in_hand[worker] += 1
            with contextlib.suppress(ConnectionError):  # a death shows when its answer is waited for
                send(self._channels[worker], number, self._tasks[number].indices)

    def _next_worker(self) -> int:
        """The next in turn; with ``in_order=False`` one that has little to do."""
        candidates = [k for k, busy in enumerate(self._busy) if busy]
        if not self._in_order:
            to_do = [task.worker for task in self._tasks.values() if task.answer is None]
            load = [to_do.count(k) for k in range(len(self._busy))]
            least = min(load[k] for k in candidates)
            candidates = [k for k in candidates if load[k] == least]
        return next(k for k in self._turns if k in candidates)

    # -- answers -----------------------------------------------------------------------------------

    def __next__(self) -> Any:
        while self._tasks:
            number = next(iter(self._tasks))
            if self._in_order:
                ready = [number] if self._tasks[number].answer is not None else []
            else:
                ready = [n for n, task in self._tasks.items() if task.answer is not None]
            if not ready:
                self._wait_for(number)
                continue
            self._ask()  # before the batch is taken: where the sampler fails, it can still be had
            answer = self._tasks.pop(ready[0]).answer
            self._progress.count()
            if isinstance(answer, ExceptionWrapper):
                answer.reraise()
            if self._expected is not None:
                self._count()
            return pinned(answer[0]) if self._pins else answer[0]
        self._progress.end()
        if not self._loader.persistent_workers:
            self._shut_down()
        raise StopIteration

    def _wait_for(self, number: int) -> None:
        """Take one message: from the worker that has this task, or without order from any."""
        chosen = self._tasks[number].worker
        if not self._in_order:
            chosen = self._first_to_speak()
        try:
            tag, answer = self._receive(self._channels[chosen], self._workers[chosen])
        except EOFError:
            self._bury(chosen)
            return
        self._in_hand[chosen] -= 1
        self._feed(chosen)
        if isinstance(answer, StreamEnded):
            self._leave_out(chosen)
            self._ask()
        elif tag in self._tasks:
            self._tasks[tag].answer = answer

    def _first_to_speak(self) -> int:
        waiting = sorted({task.worker for task in self._tasks.values()})
        channels = [self._channels[k] for k in waiting]
        heard = self._heard(channels, [self._workers[k].sentinel for k in waiting])
        return next(k for k in waiting if self._channels[k] in heard or self._workers[k].sentinel in heard)

    def _receive(self, channel: socket.socket, worker: Any) -> tuple[int, Any]:
        heard = self._heard([channel], [worker.sentinel])
        if channel not in heard and not wait([channel], 0):  # what it said before its death comes first
            raise EOFError
        tag, descriptor, size = take(channel)
        try:
            return tag, unpack(descriptor, size)
        except Exception:  # the answer to this task, or its turn would never come
            return tag, ExceptionWrapper("on its way from a DataLoader worker process")

    def _heard(self, channels: list[socket.socket], sentinels: list[int]) -> list[Any]:
        timeout = self._loader.timeout
        heard = wait([*channels, *sentinels], timeout if timeout > 0 else None)
        if not heard:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        return heard

    def _leave_out(self, worker: int) -> list[int]:
        """Ask nothing more of a worker; gives the tasks that it owes, in order."""
        self._busy[worker] = False
        self._to_send[worker].clear()
        owed = [n for n, task in self._tasks.items() if task.worker == worker and task.answer is None]
        if self._stream:  # nobody else has its part of the stream
            for number in owed:
                del self._tasks[number]
        return owed

    def _bury(self, worker: int) -> None:
        """Report a worker's death. The batch that it was at is lost; the others go to those who live."""
        owed = self._leave_out(worker)
        if not self._stream:
            del self._tasks[owed[0]]
            self._progress.count()
            for number in owed[1:]:
                if any(self._busy):
                    self._assign(number)
                else:
                    del self._tasks[number]
            self._ask()
        if self._stream or not any(self._busy):
            self._progress.freeze()
        process = self._workers[worker]
        process.join(_PATIENCE)
        raise RuntimeError(
            f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly{_cause(process.exitcode)}"
        )


def _cause(exitcode: int | None) -> str:
    if exitcode is None:
        return ""
    if exitcode < 0:
        return f": killed by signal {-exitcode} ({signal.strsignal(-exitcode)})"
    return f": exit code {exitcode}"


def _shut_down(workers: list[Any], channels: list[socket.socket], owner: int) -> None:
    """End the workers: the end of its channel tells each that it may go."""
    if os.getpid() != owner:  # a forked process has copies of all this; the workers aren't its children
        return
    for channel in channels:
        # Not close alone: a worker of another loader, forked since, may have a copy that keeps it open.
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)
        channel.close()
    for worker in workers:
        # Its sentinel tells that it has ended, not its exit code: a collection of garbage that comes here in
        # the middle of multiprocessing's own waitpid finds a process whose exit code is taken, not yet noted.
        if not wait([worker.sentinel], _PATIENCE):
            worker.terminate()
        if not wait([worker.sentinel], _PATIENCE):
            worker.kill()
        worker.join()
        with contextlib.suppress(ValueError):  # such a one: closed when it is collected
            worker.close()
    workers.clear()
