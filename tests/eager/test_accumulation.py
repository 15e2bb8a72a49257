"""``backward()`` adds into the gradient that is there, as PyTorch does, in both modes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest

import jtorch
from jtorch.core.errors import CompileError


def _steps(w: jtorch.Tensor, compiled: bool) -> Callable:
    def step(x: jtorch.Tensor) -> None:
        (w * x).sum().backward()

    return jtorch.compile(step) if compiled else step


BOTH = pytest.mark.parametrize("compiled", [False, True])


@BOTH
def test_a_gradient_that_is_there_takes_the_sum_in_its_memory(compiled: bool) -> None:
    w = jtorch.ones(2, requires_grad=True)
    z = w.grad = jtorch.ones(2)
    step = _steps(w, compiled)
    for k in range(1, 4):
        step(jtorch.tensor([3.0, 4.0]))
        assert w.grad is z and z.tolist() == [1 + 3 * k, 1 + 4 * k]
        assert z._version == k


@BOTH
def test_a_first_gradient_is_memory_of_its_own_and_a_kept_one_stays(compiled: bool) -> None:
    w = jtorch.ones(2, requires_grad=True)
    step = _steps(w, compiled)
    step(jtorch.tensor([3.0, 4.0]))
    kept = w.grad
    w.grad = None
    step(jtorch.tensor([5.0, 6.0]))
    assert kept.tolist() == [3, 4] and w.grad.tolist() == [5, 6] and w.grad is not kept
    step(jtorch.tensor([1.0, 1.0]))
    assert kept.tolist() == [3, 4] and w.grad.tolist() == [6, 7]


@BOTH
def test_a_kept_gradient_sees_the_next_one_added(compiled: bool) -> None:
    w = jtorch.ones(2, requires_grad=True)
    step = _steps(w, compiled)
    step(jtorch.tensor([3.0, 4.0]))
    kept = w.grad
    step(jtorch.tensor([1.0, 1.0]))
    assert w.grad is kept and kept.tolist() == [4, 5]


@BOTH
def test_two_passes_in_one_step_add_up(compiled: bool) -> None:
    w = jtorch.ones(2, requires_grad=True)

    def step(x: jtorch.Tensor) -> None:
        (w * x).sum().backward()
        (w * w * x).sum().backward()

    step = jtorch.compile(step) if compiled else step
    for k in range(1, 4):
        step(jtorch.tensor([3.0, 4.0]))
        assert w.grad.tolist() == [9 * k, 12 * k]


@BOTH
def test_parts_of_one_buffer_take_their_gradients(compiled: bool) -> None:
    a, b = (jtorch.ones(2, requires_grad=True) for _ in range(2))
    flat = jtorch.zeros(4)
    a.grad, b.grad = flat[:2], flat[2:]

    def step(x: jtorch.Tensor) -> None:
        ((a + 2 * b) * x).sum().backward()

    step = jtorch.compile(step) if compiled else step
    for k in range(1, 3):
        step(jtorch.tensor([3.0, 4.0]))
        assert flat.tolist() == [3 * k, 4 * k, 6 * k, 8 * k]


def test_a_graph_of_the_gradient_is_added_out_of_place() -> None:
    w = jtorch.ones(2, requires_grad=True)
    z = w.grad = jtorch.ones(2)
    (w * w).sum().backward(create_graph=True)
    assert w.grad is not z and z.tolist() == [1, 1] and w.grad.tolist() == [3, 3]
    assert w.grad.requires_grad


@BOTH
def test_a_first_gradient_with_a_graph_is_memory_of_its_own(compiled: bool) -> None:
    a, b, c = (jtorch.ones(2, requires_grad=True) for _ in range(3))
    g = jtorch.ones(2)

    def step(g: jtorch.Tensor) -> None:
        (a + b + c.expand(3, 2).sum(0)).backward(g, create_graph=True)

    (jtorch.compile(step) if compiled else step)(g)
    assert len({id(t) for t in (a.grad, b.grad, c.grad, g)}) == 4
    assert len({t.data_ptr() for t in (a.grad, b.grad, c.grad, g)}) == 4
    (a + b + c).backward(jtorch.ones(2))
    assert a.grad.tolist() == b.grad.tolist() == [2, 2] and c.grad.tolist() == [4, 4]
    assert g.tolist() == [1, 1]


def test_a_gradient_of_the_seed_is_taken_through_the_copy() -> None:
    w, g = jtorch.ones(2, requires_grad=True), jtorch.ones(2, requires_grad=True)
    (w * 3).backward(g, create_graph=True)
    w.grad.sum().backward()
    assert g.grad.tolist() == [3, 3]


def test_a_gradient_with_a_graph_takes_the_next_one_in_its_memory() -> None:
    w = jtorch.ones(2, requires_grad=True)
    (w**3).sum().backward(create_graph=True)
    kept, graph = w.grad, w.grad.grad_fn
    square = kept * kept
    (w * 2).sum().backward()
    assert w.grad is kept and kept.tolist() == [5, 5] and kept._version == 1 and kept.grad_fn is graph
    w.grad = None
    kept.sum().backward()
    assert w.grad.tolist() == [6, 6]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()


def test_a_gradient_that_is_spread_over_one_number_is_not_added_in_place() -> None:
    w = jtorch.ones(2, 3, requires_grad=True)
    w.sum().backward(create_graph=True)
    w.grad[0, 0] = 5
    assert w.grad.tolist() == [[5, 1, 1], [1, 1, 1]]


def _all_at_once(work: Callable, count: int = 2) -> None:
    """``work`` in threads that change places as often as they can."""
    before = sys.getswitchinterval()
    threads = [threading.Thread(target=work) for _ in range(count)]
    try:
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)


def test_no_gradient_is_lost_between_threads() -> None:
    w = jtorch.ones(100_000, requires_grad=True)
    w.grad, ones = jtorch.zeros(100_000), jtorch.ones(100_000)

    def work() -> None:
        for _ in range(150):
            (w * 1).backward(ones)

    _all_at_once(work)
    assert w.grad.min() == w.grad.max() == 300


@pytest.mark.parametrize("create_graph", [False, True])
def test_no_first_gradient_is_lost_between_threads(create_graph: bool) -> None:
    w, ones = jtorch.ones(100_000, requires_grad=True), jtorch.ones(100_000)
    turn = threading.Barrier(2)
    found = []

    def work() -> None:
        for _ in range(40):
            if turn.wait(30) == 0:
                w.grad = None
            turn.wait(30)
            for _ in range(3):
                (w * 1).backward(ones, create_graph=create_graph)
            if turn.wait(30) == 0:
                found.append((w.grad.min().item(), w.grad.max().item()))

    _all_at_once(work)
    assert found == [(6, 6)] * 40


def test_gradients_that_are_one_memory_are_refused_when_compiled() -> None:
    a, b = (jtorch.ones(2, requires_grad=True) for _ in range(2))
    a.grad = b.grad = jtorch.zeros(2)

    def step(x: jtorch.Tensor) -> None:
        ((a + 2 * b) * x).sum().backward()

    with pytest.raises(CompileError, match="by another name"):
        jtorch.compile(step)(jtorch.ones(2))
    step(jtorch.ones(2))
    assert a.grad.tolist() == [3, 3]


def test_gradients_that_become_one_memory_are_refused_when_compiled() -> None:
    a, b = (jtorch.ones(2, requires_grad=True) for _ in range(2))
    a.grad, b.grad = jtorch.zeros(2), jtorch.zeros(2)

    def step(x: jtorch.Tensor) -> None:
        ((a + 2 * b) * x).sum().backward()

    f = jtorch.compile(step)
    f(jtorch.ones(2))
    assert (a.grad.tolist(), b.grad.tolist()) == ([1, 1], [2, 2])
    b.grad = a.grad
    with pytest.raises(CompileError, match="by another name"):
        f(jtorch.ones(2))
    x = b.grad = jtorch.ones(2)
    with pytest.raises(CompileError, match="by another name"):
        f(x)
    b.grad = jtorch.zeros(2)
    f(jtorch.ones(2))
    assert b.grad.tolist() == [2, 2]
