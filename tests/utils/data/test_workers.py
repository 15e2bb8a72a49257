"""DataLoader with worker processes: order, seeds, errors, deaths, and what is left behind."""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import jtorch
from jtorch.core import library_threads
from jtorch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info, iterators
from jtorch.utils.data.transport import receive, send

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="workers need a system that passes descriptors"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.usefixtures("forked"),
]

DATA = TensorDataset(jtorch.arange(10), jtorch.arange(10) * 10.0)


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0


def children():
    import multiprocessing

    return multiprocessing.active_children()


@pytest.fixture(scope="module", autouse=True)
def helpers_of_multiprocessing():
    """Processes that Python starts once, for good, when a start method first needs them."""
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()
    forkserver.ensure_running()
    gc.collect()
    gc.freeze()  # each test collects garbage twice: not among thousands of tests
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_left_behind():
    gc.collect()
    before, alive = descriptors(), set(children())
    yield
    gc.collect()
    assert set(children()) <= alive
    assert descriptors() == before


class Items(Dataset):
    """0 to n - 1; ``at[k]`` is called before item k."""

    def __init__(self, n=8, **at):
        self.n = n
        self.at = {int(k[1:]): action for k, action in at.items()}

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        if k in self.at:
            self.at[k]()
        return k


class Stream(IterableDataset):
    def __init__(self, n=9):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.n)) if info is None else iter(range(info.id, self.n, info.num_workers))


def failing():
    raise KeyError("what it was")


class PeculiarError(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def peculiar():
    raise PeculiarError(1, 2)


def dying():
    os.kill(os.getpid(), signal.SIGKILL)


def leaving():
    os._exit(3)


def sleeping():
    time.sleep(30)


def through(iterator):
    """(values, errors) of all that is left, errors passed over."""
    values, errors = [], []
    while True:
        try:
            batch = next(iterator)
        except StopIteration:
            return values, errors
        except Exception as error:
            errors.append(error)
            assert len(errors) < 50
        else:
            values.append(batch.tolist() if isinstance(batch, jtorch.Tensor) else batch)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_all_start_methods_give_the_same(method):
    loader = DataLoader(DATA, 3, num_workers=2, multiprocessing_context=method)
    expected = [[t.tolist() for t in batch] for batch in DataLoader(DATA, 3)]
    assert [[t.tolist() for t in batch] for batch in loader] == expected and len(loader) == 4


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_order(workers, batch_size):
    slow_first = Items(8, k0=lambda: time.sleep(0.05))
    loader = DataLoader(slow_first, batch_size, num_workers=workers, prefetch_factor=1)
    assert through(iter(loader)) == through(iter(DataLoader(Items(8), batch_size)))


@pytest.mark.slow
def test_shuffle_does_not_depend_on_workers():
    def order(workers):
        generator = jtorch.Generator().manual_seed(5)
        loader = DataLoader(Items(20), 4, shuffle=True, num_workers=workers, generator=generator)
        return [through(iter(loader))[0] for _ in range(2)]

    assert order(0) == order(2)


def test_without_order_all_come():
    loader = DataLoader(Items(12, k0=lambda: time.sleep(0.2)), 1, num_workers=2, in_order=False)
    found = [k for (k,) in through(iter(loader))[0]]
    assert sorted(found) == list(range(12)) and found[0] != 0


@pytest.mark.slow
def test_streams():
    assert through(iter(DataLoader(Stream(), 2, num_workers=2)))[0] == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    assert through(iter(DataLoader(Stream(3), None, num_workers=2)))[0] == [0, 1, 2]
    dropped = DataLoader(Stream(), 2, num_workers=2, drop_last=True)
    assert through(iter(dropped))[0] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert through(iter(DataLoader(Stream(0), 2, num_workers=2))) == ([], [])


class Seeds(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, k):
        info = get_worker_info()
        draws = (random.random(), float(np.random.rand()), jtorch.rand(1).item())
        return info.id, info.seed, info.num_workers, type(info.dataset).__name__, draws


@pytest.mark.slow
def test_workers_are_seeded():
    def rows(seed):
        generator = jtorch.Generator().manual_seed(seed)
        return list(DataLoader(Seeds(), None, num_workers=2, generator=generator))

    found = rows(1)
    assert [row[0] for row in found] == [0, 1, 0, 1] and {row[2:4] for row in map(tuple, found)} == {
        (2, "Seeds")
    }
    assert found[1][1] == found[0][1] + 1
    assert len({tuple(row[4]) for row in found}) == 4
    assert found == rows(1) and found[0][4] != rows(2)[0][4]
    assert get_worker_info() is None


def test_init_function_and_collate_function():
    def init(worker_id):
        get_worker_info().dataset.n = 100 + worker_id

    class Told(Items):
        def __getitem__(self, k):
            return self.n

    loader = DataLoader(Told(4), 2, num_workers=2, worker_init_fn=init, collate_fn=tuple)
    assert list(loader) == [(100, 100), (101, 101)]


def test_an_exception_comes_with_its_traceback_and_costs_one_batch():
    values, errors = through(iter(DataLoader(Items(8, k3=failing), 1, num_workers=2)))
    assert values == [[0], [1], [2], [4], [5], [6], [7]]
    (error,) = errors
    assert type(error) is KeyError
    text = str(error)
    assert text.startswith("Caught KeyError in DataLoader worker process 1.\nOriginal Traceback (most recent")
    assert "in failing" in text and "KeyError: 'what it was'" in text


def test_an_exception_that_takes_more_than_a_text():
    (error,) = through(iter(DataLoader(Items(1, k0=peculiar), 1, num_workers=1)))[1]
    assert type(error) is RuntimeError and "Caught PeculiarError in DataLoader worker process 0" in str(error)


def test_what_cannot_be_sent_is_an_error():
    loader = DataLoader(Items(2), 1, num_workers=1, collate_fn=lambda items: lambda: None)
    values, errors = through(iter(loader))
    assert values == [] and len(errors) == 2 and "Caught" in str(errors[0])
    assert "local object" in str(errors[0])  # that cannot be pickled, which 3.13 calls "get"

    class LocalError(Exception):
        pass

    def local():
        raise LocalError("inside")

    (error,) = through(iter(DataLoader(Items(1, k0=local), 1, num_workers=1)))[1]
    assert type(error) is RuntimeError and "Caught LocalError" in str(error) and "inside" in str(error)


def test_an_init_function_that_fails():
    def init(worker_id):
        raise ValueError("no start")

    for data, count in ((Items(2), 2), (Stream(4), 1)):
        values, errors = through(iter(DataLoader(data, 1, num_workers=1, worker_init_fn=init)))
        assert values == [] and len(errors) == count
        assert isinstance(errors[0], ValueError) and "no start" in str(errors[0])


@pytest.mark.parametrize(
    ("death", "cause"), [(dying, r"killed by signal 9 \(Killed\)"), (leaving, "exit code 3")]
)
def test_a_death_costs_the_batch_it_happened_in(death, cause):
    loader = DataLoader(Items(12, k2=death), 1, num_workers=2, prefetch_factor=3)
    values, errors = through(iter(loader))
    assert [v[0] for v in values] == [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    (error,) = errors
    with pytest.raises(
        RuntimeError, match=rf"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly: {cause}"
    ):
        raise error
    assert through(iter(DataLoader(Items(3), 1, num_workers=1)))[0] == [[0], [1], [2]]


def test_the_death_of_all():
    values, errors = through(iter(DataLoader(Items(4, k1=dying), 1, num_workers=1)))
    assert values == [[0]] and len(errors) == 1
    values, errors = through(iter(DataLoader(Stream(4), 1, num_workers=1, worker_init_fn=lambda k: dying())))
    assert values == [] and len(errors) == 1


def test_timeout(monkeypatch):
    monkeypatch.setattr(iterators, "_PATIENCE", 0.05)  # the worker is asleep and must be ended
    iterator = iter(DataLoader(Items(2, k0=sleeping), 1, num_workers=1, timeout=0.2))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.2 seconds"):
        next(iterator)


class Pid(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, k):
        return os.getpid()


@pytest.mark.slow
def test_persistent_workers():
    loader = DataLoader(Pid(), None, num_workers=2, persistent_workers=True)
    assert set(loader) == set(loader) and len(set(loader)) == 2
    next(iter(loader))  # left early: the next pass begins at its beginning
    assert len(list(loader)) == 4
    stream = DataLoader(Stream(5), None, num_workers=2, persistent_workers=True)
    assert list(stream) == list(stream) == [0, 1, 2, 3, 4]
    fresh = DataLoader(Pid(), None, num_workers=2)
    assert not set(fresh) & set(fresh)


def test_persistent_workers_are_replaced_after_a_death():
    loader = DataLoader(Pid(), None, num_workers=1, persistent_workers=True)
    (pid,) = set(loader)
    os.kill(pid, signal.SIGKILL)
    assert {pid} != set(loader)


def test_early_break_ends_the_workers():
    for batch in DataLoader(Items(1000), 1, num_workers=2):
        assert batch.tolist() == [0]
        break
    gc.collect()
    assert children() == []


def test_workers_end_inside_a_wait_of_multiprocessing():
    # A pass that is in a cycle is collected anywhere, between a waitpid and the note of what it gave, too.
    waited = iter(DataLoader(Items(1000), 1, num_workers=2))
    next(waited)
    first, second = waited._workers
    waitpid, exit_codes = os.waitpid, []

    def waitpid_and_collect(pid, flags):
        result = waitpid(pid, flags)
        if result[0] == first.pid:
            os.waitpid = waitpid
            waited._shut_down()
            exit_codes.append(second.exitcode if second in children() else None)
        return result

    os.kill(first.pid, signal.SIGKILL)
    os.waitpid = waitpid_and_collect
    try:
        first.join()
    finally:
        os.waitpid = waitpid
    assert exit_codes == [None]
    assert first.exitcode == -signal.SIGKILL
    assert children() == []


def test_large_batches_use_the_workers_memory_and_hold_no_descriptor():
    class Large(Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, k):
            return np.full((512, 1024), k, np.float32)

    before = descriptors()
    batches = list(DataLoader(Large(), 2, num_workers=2))
    assert descriptors() == before
    assert [b[1, 3, 5].item() for b in batches] == [1, 3, 5, 7, 9, 11]
    batches[0].add_(1.0)  # it is memory like any other
    assert batches[0].sum().item() == 3 * 512 * 1024


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_more_batches_than_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 60, hard))
    try:
        assert len(list(DataLoader(DATA, 1, num_workers=1, sampler=list(range(10)) * 30))) == 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "value",
    [
        jtorch.arange(6).reshape(2, 3),
        jtorch.arange(6).reshape(2, 3).t(),
        jtorch.zeros(0, 3),
        jtorch.tensor(2.5),
        jtorch.tensor([True, False]),
        jtorch.nn.Parameter(jtorch.ones(2)),
        {"a": [np.arange(4)[::2], np.array(["x"]), "text", None], "b": np.float32(1)},
    ],
    ids=lambda v: type(v).__name__,
)
def test_values_arrive_as_they_were_sent(value):
    import socket

    one, other = socket.socketpair()
    with one, other:
        send(one, 7, value)
        tag, found = receive(other)
        assert tag == 7 and type(found) is type(value) and repr(found) == repr(value)
        one.close()
        with pytest.raises(EOFError):
            receive(other)


def test_a_tensor_with_a_history_is_not_sent():
    loader = DataLoader([jtorch.ones(2, requires_grad=True)], 1, num_workers=1)
    (error,) = through(iter(loader))[1]
    assert "Cowardly refusing to serialize non-leaf tensor which requires_grad" in str(error)


def test_too_many_workers_are_warned_of(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    with pytest.warns(UserWarning, match="This DataLoader will create 2 worker processes in total. Our sugg"):
        DataLoader(DATA, num_workers=2)


class Threads(Dataset):
    """What an item finds in force: jtorch's number, NumPy's, and what a library loaded later would read."""

    def __len__(self):
        return 2

    def __getitem__(self, k):
        found = {library.get() for library in library_threads.found("scipy.linalg" in sys.modules)}
        return jtorch.get_num_threads(), found, os.environ["OPENBLAS_NUM_THREADS"]


def two_threads(worker):
    jtorch.set_num_threads(2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_have_one_thread_each(method):
    before = jtorch.get_num_threads()
    jtorch.set_num_threads(3)
    try:
        loader = DataLoader(Threads(), None, num_workers=2, multiprocessing_context=method)
        for count, numpys, variable in loader:
            assert count == 1 and numpys <= {1} and variable == "1"
        assert jtorch.get_num_threads() == 3
        loader = DataLoader(
            Threads(), None, num_workers=1, multiprocessing_context=method, worker_init_fn=two_threads
        )
        assert [count for count, _, _ in loader] == [2, 2]
    finally:
        jtorch.set_num_threads(before)


PROGRAM = """
import os, sys, time
import jtorch
from jtorch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, k):
        time.sleep(0.01)
        return os.getpid()

iterator = iter(DataLoader(Slow(), None, num_workers=2, multiprocessing_context='fork'))
print(next(iterator), next(iterator), flush=True)
{rest}
"""


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rest", "stop"),
    [
        ("", None),
        ("os._exit(0)", None),
        ("raise RuntimeError('the end')", None),
        ("for _ in iterator: pass", signal.SIGINT),
        ("for _ in iterator: pass", signal.SIGKILL),
    ],
    ids=["end", "_exit", "exception", "ctrl-c", "kill"],
)
def test_workers_end_with_the_program(rest, stop):
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(rest=rest)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers = [int(pid) for pid in program.stdout.readline().split()]
    assert len(workers) == 2
    if stop == signal.SIGINT:
        os.killpg(program.pid, stop)  # as a terminal does
    elif stop is not None:
        program.send_signal(stop)
    _, errors = program.communicate(timeout=20)
    deadline = time.monotonic() + 8
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in workers)
    assert errors.count("Traceback") <= 1, errors  # the program's own, none of a worker
