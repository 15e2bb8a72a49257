import gc
import threading
import weakref

import pytest

import jtorch
from jtorch.core.collector import seldom_collected


def test_collector_as_before_when_the_last_leaves():
    before = gc.get_threshold()
    inside, go = threading.Event(), threading.Event()

    def other() -> None:
        with seldom_collected():
            inside.set()
            go.wait()

    thread = threading.Thread(target=other)
    with seldom_collected():
        with seldom_collected():
            thread.start()
            inside.wait()
        held = gc.get_threshold()
    assert held[0] > before[0] and held[1:] == before[1:]
    assert gc.get_threshold() == held  # for the other thread
    go.set()
    thread.join()
    assert gc.get_threshold() == before


def test_what_the_program_sets_is_left():
    before = gc.get_threshold()
    try:
        for own in (0, 5, 2_000_000):  # 0: never
            with seldom_collected():
                gc.set_threshold(own)
            assert gc.get_threshold()[0] == own
            with seldom_collected():
                assert gc.get_threshold()[0] == (1_000_000 if own == 5 else own)
            assert gc.get_threshold()[0] == own
    finally:
        gc.set_threshold(*before)


def test_a_recording_is_not_looked_through():
    def chain(x: jtorch.Tensor) -> jtorch.Tensor:
        for k in range(300):
            x = (x + k).sin()
        return x

    found: list[int] = []
    compiled = jtorch.compile(chain)

    def noted(phase: str, info: dict) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(noted)
    try:
        compiled(jtorch.ones(3))
        while_recorded = len(found)
        [[] for _ in range(10 * gc.get_threshold()[0])]
    finally:
        gc.callbacks.remove(noted)
    assert while_recorded < 10  # 100 and more, some of all objects, before
    assert len(found) > while_recorded


class _Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.mark.usefixtures("whole_heap")
def test_cycles_of_before_go_first_and_those_of_meanwhile_with_all_others():
    before = weakref.ref(_Cycle())
    with seldom_collected():
        assert before() is None
        meanwhile = weakref.ref(_Cycle())
        kept = [[] for _ in range(30_000)]
    gc.collect(1)
    assert meanwhile() is not None and kept
    gc.collect()
    assert meanwhile() is None


@pytest.mark.usefixtures("whole_heap")
def test_what_is_little_stays_young():
    with seldom_collected():
        meanwhile = weakref.ref(_Cycle())
    gc.collect(0)
    assert meanwhile() is None


@pytest.mark.usefixtures("whole_heap")
def test_old_cycles_go_once_a_quarter_more_is_kept():
    """Of models that are compiled one after the other and hold themselves, few are there at a time."""
    kept, part = [], max(60_000, len(gc.get_objects()) // 8)
    with seldom_collected():
        cycle = _Cycle()
        kept.append([[] for _ in range(part)])
    gone = weakref.ref(cycle)
    del cycle
    for _ in range(8):
        with seldom_collected():
            kept.append([[] for _ in range(part)])
        if gone() is None:
            break
    assert gone() is None and 2 <= len(kept) <= 5


@pytest.mark.usefixtures("whole_heap")
def test_finalizers_of_what_goes_first_may_wait_for_a_thread_that_compiles():
    done: list[bool] = []

    class Waits(_Cycle):
        def __del__(self) -> None:
            thread = threading.Thread(target=self.compile, daemon=True)
            thread.start()
            thread.join(10)
            done.append(not thread.is_alive())

        @staticmethod
        def compile() -> None:
            with seldom_collected():
                pass

    Waits()
    with seldom_collected():
        assert done == [True]


@pytest.mark.usefixtures("whole_heap")
def test_generations_of_a_program_that_collects_by_itself_are_left():
    gc.disable()
    try:
        with seldom_collected():
            meanwhile = weakref.ref(_Cycle())
            kept = [[] for _ in range(30_000)]
        gc.collect(0)
        assert meanwhile() is None and kept
    finally:
        gc.enable()


def test_what_the_program_has_frozen_stays_so():
    gc.freeze()
    try:
        held = gc.get_freeze_count()
        with seldom_collected():
            pass
        assert gc.get_freeze_count() == held > 0
    finally:
        gc.unfreeze()


def test_a_recording_leaves_no_cycles():
    """What it leaves would wait until all objects are looked through, each time."""

    def step(x: jtorch.Tensor, w: jtorch.Tensor) -> jtorch.Tensor:
        y = jtorch.nn.functional.gelu(x @ w).softmax(-1)
        loss = jtorch.cat([y, y.roll(1, 0)]).var()
        loss.backward()
        return loss

    x, w = jtorch.randn(4, 8), jtorch.randn(8, 8, requires_grad=True)
    for _ in range(2):  # compiles the kernels, and builds what is built once
        jtorch.compile(step)(x, w)
    compiled = jtorch.compile(step)
    gc.collect()
    gc.disable()
    try:
        compiled(x, w)
        assert gc.collect() == 0
    finally:
        gc.enable()
