"""Tensors that change places."""

from __future__ import annotations

import gc
import weakref

import pytest

import jtorch
from jtorch.utils import swap_tensors


def test_two_tensors_change_places() -> None:
    a, b = jtorch.nn.Parameter(jtorch.ones(2)), jtorch.zeros(3)
    a.tag, memory = 1, b.data_ptr()
    jtorch.utils.swap_tensors(a, b)
    assert type(a) is jtorch.Tensor and type(b) is jtorch.nn.Parameter
    assert a.tolist() == [0, 0, 0] and b.tolist() == [1, 1] and a.data_ptr() == memory
    assert b.tag == 1 and not hasattr(a, "tag") and b.requires_grad and not a.requires_grad


def _leaves() -> tuple[jtorch.Tensor, jtorch.Tensor]:
    return jtorch.ones(2, requires_grad=True), jtorch.zeros(2, requires_grad=True)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("create_graph", [True, False])
def test_a_graph_from_before_is_an_error(first: bool, create_graph: bool) -> None:
    a, b = _leaves()
    y = (a * 3 + a * b.detach()).sum()
    swap_tensors(*((a, b) if first else (b, a)))
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        y.backward(create_graph=create_graph)
    assert a.grad is None and b.grad is None


def test_a_graph_that_is_done_or_new_is_not() -> None:
    a, b = _leaves()
    y = (a * 3).sum()
    y.backward()
    swap_tensors(a, b)
    (a * 2).sum().backward()
    assert a.grad.tolist() == [2, 2] and b.grad.tolist() == [3, 3] and y.item() == 6


def test_a_tensor_with_a_graph_takes_it_along() -> None:
    a, b = _leaves()
    c, d = a * 2, jtorch.zeros(2)
    swap_tensors(c, d)
    d.sum().backward()
    assert c.grad_fn is None and a.grad.tolist() == [2, 2] and b.grad is None


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("followed", [False, True])
def test_a_tensor_with_views_is_refused(requires_grad: bool, followed: bool) -> None:
    a, b = jtorch.ones(2, requires_grad=requires_grad), jtorch.zeros(2)
    with jtorch.set_grad_enabled(followed):
        view = a[:1]
    with pytest.raises(RuntimeError, match="Expected use_count of t1 to be 1"):
        swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="Expected use_count of t2 to be 1"):
        swap_tensors(b, a)
    assert view._base is a and a.tolist() == [1, 1]
    del view
    swap_tensors(a, b)
    assert a.tolist() == [0, 0]


def test_views_change_places() -> None:
    a, b = jtorch.ones(2), jtorch.zeros(2)
    u, v = a[:1], b[1:]
    swap_tensors(u, v)
    assert u._base is b and v._base is a
    w = jtorch.full((2,), 5.0, requires_grad=True)
    b.mul_(w)  # the tape follows: the views of b are told
    assert u.grad_fn is not None and v.grad_fn is None
    u.sum().backward()
    assert w.grad.tolist() == [0, 0]
    swap_tensors(v, c := jtorch.zeros(3))
    assert v._base is None and c._base is a and c.tolist() == [1]


def test_two_views_of_one_tensor_change_places() -> None:
    a = jtorch.tensor([1.0, 2.0])
    u, v = a[:1], a[1:]
    swap_tensors(u, v)
    a.mul_(jtorch.tensor([3.0, 5.0], requires_grad=True))
    assert (u.tolist(), v.tolist()) == ([10], [3]) and u.grad_fn is not None and v.grad_fn is not None


def test_the_one_with_weak_references_is_named() -> None:
    a, b = jtorch.ones(2), jtorch.zeros(2)
    reference = weakref.ref(b)
    for name, pair in (("t2", (a, b)), ("t1", (b, a))):
        with pytest.raises(RuntimeError, match=f"Cannot swap {name} because"):
            swap_tensors(*pair)
    assert reference() is b
    del reference
    gc.collect()
    swap_tensors(a, b)
