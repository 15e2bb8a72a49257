"""One thread for each process that pytest-xdist starts, unless the environment says otherwise.

Two processes with two BLAS threads each on two cores wait for each other: small products of NumPy then take
milliseconds instead of microseconds. Set here, before the first import of NumPy, which reads it. A single
process (`-n 0`) has what users have: default threads.
"""

import os

os.environ.setdefault("JTORCH_FULLGRAPH", "1")  # what is refused is under test, not what eager mode does then

if "PYTEST_XDIST_WORKER" in os.environ:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

import collections
import gc
import sys

import pytest

from jtorch.core import threads
from jtorch.eager import shortcuts
from tests.each import has_case, spread


def pytest_addoption(parser):
    parser.addoption("--case", metavar="TEXT", help="of tests that are loops (tests/each.py) only such cases")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the markers
def pytest_collection_modifyitems(config, items):
    """Long runs are slow ones, too: ``-m "not slow"`` takes the place of pyproject's ``-m "not soak"``. Of
    one test's many cases some are quick."""
    cases = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker("slow")
        cases[item.nodeid.partition("[")[0]].append(item)
    for alike in cases.values():
        quick = spread(len(alike))
        for k, item in enumerate(alike):
            if k not in quick:
                item.add_marker("slow")
    if text := config.getoption("--case"):
        items[:] = [item for item in items if has_case(item, text)]


shortcuts.prepare()  # the first op of all may compile them, into the cache folder of a test


def _set_aside():
    """Collections look no more at what is there now. With what 19,000 tests leave behind (modules, their
    cases, plans) one takes 6 s at the end, and many tests ask for some."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish(session):
    _set_aside()


@pytest.fixture(autouse=True, scope="module")
def _heap():
    yield
    _set_aside()


@pytest.fixture(scope="module")
def whole_heap():
    """For tests in which the library asks the collector who holds something, frozen or not."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def no_error_left():
    """No test leaves an exception that the interpreter takes for one which is being handled."""
    yield
    assert sys.exception() is None, "the context of whatever is raised from now on"


@pytest.fixture(autouse=True)
def no_mode_left():
    """No test leaves PyTorch, the oracle of later ones, under a mode: it answers otherwise under most."""
    yield
    inner = getattr(sys.modules.get("torch"), "_C", None)  # none while jtorch stands in for it
    if inner is not None and hasattr(inner, "_len_torch_function_stack"):
        left = inner._len_torch_function_stack() + inner._len_torch_dispatch_stack()
        assert not left, f"{left} modes of PyTorch, under which every later test would run"


@pytest.fixture
def as_users_run_it(monkeypatch):
    """Calls that cannot be recorded run eagerly."""
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)


@pytest.fixture
def unjitted(monkeypatch):
    """Kernels run as their text, by Python: for many programs whose recording is under test, not what LLVM
    makes of it."""
    monkeypatch.setenv("JTORCH_JIT", "0")


@pytest.fixture
def number():
    """The number of threads in force; puts it back."""
    before = threads.count()
    yield before
    threads.set_count(before)
