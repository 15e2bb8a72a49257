"""A gradient of which several elements lie at one place, or whose memory is read-only: backward adds
in new memory, as in eager mode, and a change in place is refused."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.errors import CompileError


def read_only(n):
    array = np.zeros(n, "f4")
    array.flags.writeable = False
    return jtorch.from_numpy(array)


def expanded(n):
    return jtorch.zeros(1).expand(n)


GRADIENTS = {"expanded": expanded, "read-only": read_only}
pytestmark = pytest.mark.filterwarnings("ignore:.*not writ:UserWarning")


def plain(n):
    return jtorch.zeros(n)


def added(make, wrap):
    w = jtorch.ones(3, requires_grad=True)
    f = wrap(lambda x: (w * x).sum().backward())
    for kind in (make, plain, make, plain, make):
        w.grad = memory = kind(3)
        for _ in range(2):
            f(jtorch.tensor([1.0, 10.0, 100.0]))
            yield w.grad.tolist(), memory.tolist(), w.grad is memory


@pytest.mark.parametrize("make", GRADIENTS.values(), ids=GRADIENTS)
def test_backward_adds_in_memory_of_its_own(make):
    assert list(added(make, jtorch.compile)) == list(added(make, lambda f: f))


def windowed(wrap):
    w = jtorch.ones(2, 2, requires_grad=True)
    memory = jtorch.zeros(3)
    w.grad = memory.unfold(0, 2, 1)
    f = wrap(lambda x: (w * x).sum().backward())
    for _ in range(2):
        f(jtorch.tensor([[1.0, 10.0], [100.0, 1000.0]]))
        yield w.grad.tolist(), memory.tolist()


def test_backward_adds_to_windows_in_memory_of_its_own():
    assert list(windowed(jtorch.compile)) == list(windowed(lambda f: f))


def set_inside(of, wrap):
    w = jtorch.ones(3, requires_grad=True)
    memory = of()

    @wrap
    def f(x):
        w.grad = jtorch.ones(1).expand(3) if memory is None else memory.expand(3)
        (w * x).sum().backward()

    for _ in range(2):
        f(jtorch.tensor([1.0, 10.0, 100.0]))
        yield w.grad.tolist(), memory is None or memory.tolist()


OF = {
    "made": lambda: None,
    "held": lambda: jtorch.zeros(1),
    "held as it is": lambda: jtorch.zeros(1).expand(3),
}


@pytest.mark.parametrize("of", OF.values(), ids=OF)
def test_backward_adds_in_new_memory_to_what_was_set_inside(of):
    assert list(set_inside(of, jtorch.compile)) == list(set_inside(of, lambda f: f))


def test_windows_that_can_be_written_are_refused():
    w, memory = jtorch.ones(2, 3, requires_grad=True), jtorch.zeros(4)
    w.grad = memory.as_strided((2, 3), (1, 1))
    step = jtorch.compile(lambda x: (w * x).sum().backward())
    with pytest.raises(CompileError, match="one place in memory"):
        step(jtorch.ones(3))
    assert memory.tolist() == [0, 0, 0, 0]


CHANGES = {
    "mul_": lambda w: w.grad.mul_(2),
    "a part": lambda w: w.grad[1:].add_(jtorch.arange(2.0)),
    "clip_grad_norm_": lambda w: jtorch.nn.utils.clip_grad_norm_([w], 0.5),
    "clip_grad_value_": lambda w: jtorch.nn.utils.clip_grad_value_([w], 0.5),
    "zero_": lambda w: w.grad.zero_(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("make", GRADIENTS.values(), ids=GRADIENTS)
def test_a_change_in_place_is_refused(make, change):
    w = jtorch.ones(3, requires_grad=True)
    step = jtorch.compile(lambda: change(w))
    for _ in range(2):
        w.grad = memory = make(3)
        with pytest.raises((RuntimeError, ValueError), match=r"one place in memory|read-only"):
            step()
        assert memory.tolist() == [0, 0, 0]
        w.grad = plain(3) + 1
        step()  # a gradient of its own can be changed
        assert w.grad is not memory


@pytest.mark.parametrize("make", GRADIENTS.values(), ids=GRADIENTS)
def test_a_plan_that_changes_a_gradient_is_not_taken_for_one_that_cannot_be(make):
    w = jtorch.ones(3, requires_grad=True)
    w.grad = plain(3) + 1
    step = jtorch.compile(lambda: w.grad.mul_(2))
    step()
    w.grad = memory = make(3)
    with pytest.raises((RuntimeError, ValueError), match=r"one place in memory|read-only"):
        step()
    assert memory.tolist() == [0, 0, 0]
