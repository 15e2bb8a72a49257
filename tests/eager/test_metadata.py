"""Questions about tensors, and in-place changes of shape."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch

pytestmark = pytest.mark.usefixtures("whole_heap")


def test_questions():
    x = jtorch.zeros(2, 3)
    assert jtorch.numel(x) == 6
    assert jtorch.is_tensor(x)
    assert not jtorch.is_tensor(np.zeros(2))
    assert jtorch.is_floating_point(x)
    assert not jtorch.is_complex(x)
    assert jtorch.is_nonzero(jtorch.tensor([2]))
    assert not jtorch.is_nonzero(jtorch.tensor(0.0))
    assert x.is_same_size(jtorch.ones(2, 3))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values is ambiguous"):
        jtorch.is_nonzero(jtorch.zeros(0))


def test_unravel_index_is_numpys():
    places = np.array([[0, 7], [11, 5]])
    found = jtorch.unravel_index(jtorch.tensor(places), (3, 4))
    for ours, theirs in zip(found, np.unravel_index(places, (3, 4)), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)


def test_shape_changes_in_place_keep_memory_and_gradient():
    x = jtorch.arange(6.0).reshape(2, 3).clone()
    y = x
    assert x.unsqueeze_(0) is y
    assert x.shape == (1, 2, 3)
    assert x.squeeze_(0).t_().shape == (3, 2)
    assert x.transpose_(0, 1).swapaxes_(0, 1).shape == (3, 2)
    leaf = jtorch.ones(3, requires_grad=True)
    z = leaf * 2
    z.unsqueeze_(1)
    (z * jtorch.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert leaf.grad.tolist() == [2.0, 4.0, 6.0]


def test_shape_changes_in_place_are_refused_where_the_tape_would_be_wrong():
    leaf = jtorch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.unsqueeze_(0)
    with pytest.raises(NotImplementedError, match="has views"):
        (leaf * 2)[:2].unsqueeze_(0)


TURNED = {
    "of a tensor that was made": lambda x: (x * 1).view(2, 2), "of a leaf": lambda x: x.view(2, 2),
    "of rows": lambda x: (x * 1)[:],
}  # fmt: skip


def gradient_of_a_view_turned_quietly(L, make, turn):
    x = L.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    view, weight = make(x), L.tensor([[1.0, 2.0], [3.0, 4.0]])
    before = view * weight
    with L.no_grad():
        turn(view)
    (before.sum() * 0 + (view * weight).sum()).backward()
    return view.tolist(), x.grad.tolist()


@pytest.mark.parametrize("library", ["jtorch", "torch"])
@pytest.mark.parametrize("name", TURNED)
def test_a_view_that_is_turned_under_no_grad_has_the_gradient_of_what_it_shows(name, library):
    L = pytest.importorskip(library)
    for turn in (lambda v: v.t_(), lambda v: v.swapaxes_(0, 1), lambda v: v.transpose_(0, 1)):
        found = gradient_of_a_view_turned_quietly(L, TURNED[name], turn)
        assert found == ([[1.0, 3.0], [2.0, 4.0]], [[1.0, 3.0], [2.0, 4.0]])


def test_views_of_a_leaf_that_was_turned_give_no_gradients():
    leaf = jtorch.ones(2, 2, requires_grad=True)
    view = leaf.view(2, 2)
    before = view.sum()
    with jtorch.no_grad():
        assert leaf.t_().is_leaf
    assert view.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match=r"a tensor that t_\(\) has given another shape since"):
        view.sum().backward()
    (before + leaf[0, 0]).backward()
    assert leaf.grad.tolist() == [[2.0, 1.0], [1.0, 1.0]]


def test_fill_diagonal():
    x = jtorch.zeros(3, 4)
    np.testing.assert_array_equal(x.fill_diagonal_(5).numpy(), 5 * np.eye(3, 4))
    cube = jtorch.zeros(2, 2, 2).fill_diagonal_(1)
    assert cube.sum().item() == 2
    assert cube[1, 1, 1].item() == 1


def test_parts_and_sums_of_a_size_are_sizes() -> None:
    size = jtorch.zeros(2, 4).size()
    for made, expected in [
        (size[:1], (2,)), (size[:1] + (3,), (2, 3)), ((3,) + size, (3, 2, 4)), (size + size, (2, 4, 2, 4)),
        (size * 2, (2, 4, 2, 4)), (2 * size, (2, 4, 2, 4)), (size[::-1], (4, 2)),
    ]:  # fmt: skip
        assert type(made) is jtorch.Size and made == expected
    assert type(size[0]) is int and size[-1] == 4
    assert jtorch.zeros(1).new(size[:1] + (3,)).shape == (2, 3)
    with pytest.raises(TypeError):
        size + [3]
