"""NumPy's and SciPy's BLAS have one thread during our ops, and theirs before and after."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pytest

import jtorch
from jtorch.core import library_threads
from jtorch.core.library_threads import on_one_thread
from tests.core.test_threads import run


@pytest.fixture
def library(monkeypatch):
    """A library that notes what it is told, in the place of those there are."""
    state = {"count": 5, "told": []}

    def tell(count):
        state["count"] = count
        state["told"].append(count)

    made = library_threads.Library("libfake.so", lambda: state["count"], tell, True)
    monkeypatch.setattr(library_threads, "found", lambda with_scipy: (made,))
    return state


def seen(library):
    return library["count"]


def test_one_thread_meanwhile(library):
    assert on_one_thread(seen, library) == 1
    assert library["count"] == 5 and library["told"] == [1, 5]


def test_a_number_that_is_right_is_left_alone(library):
    library["count"] = 1
    assert on_one_thread(seen, library) == 1
    assert library["told"] == []


def test_the_first_sets_and_the_last_restores(library):
    """In threads of the same time as in a nest."""
    entered, leave = threading.Event(), threading.Event()

    def other():
        entered.set()
        leave.wait(10)

    thread = threading.Thread(target=on_one_thread, args=(other,))
    thread.start()
    assert entered.wait(10)
    assert on_one_thread(on_one_thread, seen, library) == 1
    assert library["count"] == 1  # the other is inside
    leave.set()
    thread.join()
    assert library["count"] == 5 and library["told"] == [1, 5]


def test_errors_restore_too(library):
    with pytest.raises(ZeroDivisionError):
        on_one_thread(divmod, 1, 0)
    assert library["count"] == 5


def interrupted(moment: int, told, function, *arguments) -> bool:
    """Whether Ctrl-C came: at that one of the moments at which it can come in the module's functions."""
    left = [moment]

    def watch(frame, event, argument):
        code = frame.f_code
        ours = code.co_filename == library_threads.__file__ and event in ("call", "c_return")
        if ours or (code is told and event in ("call", "return")):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt

    before = sys.getprofile()
    try:
        sys.setprofile(watch)
        function(*arguments)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
    return False


@pytest.mark.parametrize("nested", [False, True])
def test_an_interrupt_at_any_moment_leaves_the_number_from_before(library, nested):
    told = library_threads.found(False)[0].set.__code__
    work = (on_one_thread, on_one_thread, seen, library) if nested else (on_one_thread, seen, library)
    moment = 1
    while interrupted(moment, told, *work):
        assert library["count"] == 5, f"after moment {moment}"
        assert not library_threads._inside and not library_threads._changed
        assert on_one_thread(seen, library) == 1 and library["count"] == 5
        moment += 1
    assert moment > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_meanwhile_has_the_number_from_before(library):
    def in_a_child():
        child = os.fork()
        if not child:
            on_one_thread(int)
            os._exit(0 if library["count"] == 5 else 1)
        return child

    child = on_one_thread(in_a_child)
    assert os.waitpid(child, 0)[1] == 0


OPS = """
import numpy as np
import jtorch
from jtorch.core import library_threads, threads
jtorch.set_num_threads({ours})
seen = []
import jtorch.ops.xp as xp
original = np.linalg.inv
np.linalg.inv = lambda x: (seen.append([b.get() for b in library_threads.found(False)]), original(x))[1]
before = [b.get() for b in library_threads.found(False)]
jtorch.linalg.inv(jtorch.eye(4)), jtorch.linalg.inv(jtorch.eye(500))
print(before, *seen, [b.get() for b in library_threads.found(False)])
jtorch.linalg.solve_triangular(jtorch.eye(30), jtorch.ones(30, 30), upper=True)
print(len(library_threads.found(True)) >= len(before), {{b.get() for b in library_threads.found(True)}})
"""


@pytest.mark.slow
@pytest.mark.parametrize("ours", [1, 3])
def test_decompositions(ours):
    lines = run(OPS.format(ours=ours), OPENBLAS_NUM_THREADS="2").splitlines()
    if lines[0].startswith("[]"):
        pytest.skip("NumPy's BLAS has no threads here")
    assert lines[0] == "[2] [1] [1] [2]"
    assert lines[1] == "True {2}"


def test_our_private_copy_is_not_among_them():
    jtorch.ones(300, 300) @ jtorch.ones(300, 300)
    assert not any("scipy_openblas32" in library.path for library in library_threads.found(False))


def test_set_all():
    found = library_threads.found(False)
    before = [library.get() for library in found]
    try:
        library_threads.set_all(1)
        assert all(library.get() == 1 for library in found)
    finally:
        for library, count in zip(found, before, strict=True):
            library.set(count)


def test_products_of_other_dtypes_are_right():
    for dtype in (np.complex64, np.int64, np.float16):
        x = np.random.default_rng(0).integers(-3, 3, (90, 80)).astype(dtype)
        y = np.random.default_rng(1).integers(-3, 3, (80, 70)).astype(dtype)
        found = jtorch.from_numpy(x) @ jtorch.from_numpy(y)
        np.testing.assert_array_equal(found.numpy(), x @ y)
