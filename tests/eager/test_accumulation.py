"""``backward()`` adds into the gradient that is there, as PyTorch does, in both modes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import jtorch
from jtorch.errors import CompileError


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


def test_gradients_that_are_one_memory_are_refused_when_compiled() -> None:
    a, b = (jtorch.ones(2, requires_grad=True) for _ in range(2))
    a.grad = b.grad = jtorch.zeros(2)

    def step(x: jtorch.Tensor) -> None:
        ((a + 2 * b) * x).sum().backward()

    with pytest.raises(CompileError, match="under another name"):
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
    with pytest.raises(CompileError, match="under another name"):
        f(jtorch.ones(2))
    x = b.grad = jtorch.ones(2)
    with pytest.raises(CompileError, match="under another name"):
        f(x)
    b.grad = jtorch.zeros(2)
    f(jtorch.ones(2))
    assert b.grad.tolist() == [2, 2]
