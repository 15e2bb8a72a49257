"""``jtorch.multiprocessing.spawn``: a function in several processes, and what went wrong in them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal

import pytest

import jtorch
import jtorch.multiprocessing as mp

pytestmark = pytest.mark.slow


def _fill(k, shared, value):
    shared[k] = value + k


def _raise(k):
    if k == 1:
        raise KeyError("no such thing")


def _end(k, how):
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def test_has_all_of_pythons_names():
    assert (
        mp.Process is multiprocessing.Process and mp.Queue and mp.get_context is multiprocessing.get_context
    )
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    with pytest.raises(ValueError, match="'x'"):
        mp.set_sharing_strategy("x")


def test_runs_in_each_process():
    shared = jtorch.zeros(2).share_memory_()
    assert mp.spawn(_fill, (shared, 5.0), nprocs=2) is None
    assert shared.tolist() == [5, 6]


def test_the_callers_may_wait_later():
    shared = jtorch.zeros(1).share_memory_()
    context = mp.start_processes(_fill, (shared, 2.0), join=False, start_method="fork")
    assert len(context.pids()) == 1
    while not context.join():
        pass
    assert shared.tolist() == [2]


def test_an_exception_comes_with_its_traceback():
    with pytest.raises(mp.ProcessRaisedException, match="-- Process 1 terminated with the following error"):
        mp.start_processes(_raise, nprocs=2, start_method="fork")
    with pytest.raises(mp.ProcessRaisedException, match="KeyError: 'no such thing'") as error:
        mp.start_processes(_raise, nprocs=2, start_method="fork")
    assert error.value.error_index == 1
    assert pickle.loads(pickle.dumps(error.value)).pid == error.value.pid


@pytest.mark.parametrize(("how", "words"), [("exit", "with exit code 3"), ("kill", "with signal SIGKILL")])
def test_a_process_that_ends_is_told(how, words):
    with pytest.raises(mp.ProcessExitedException, match=f"process 0 terminated {words}") as error:
        mp.start_processes(_end, (how,), start_method="fork")
    assert error.value.exit_code == (3 if how == "exit" else -signal.SIGKILL)


def test_spawn_is_by_its_name():
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        mp.spawn(_raise, nprocs=1, start_method="fork")
