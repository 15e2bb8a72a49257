"""What eager mode does past the general way is what the general way gives: values, layout, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.eager import joined
from jtorch.eager.functions import arithmetic, joining


def _both(monkeypatch, place, name, function):
    """(what it gives, what it gives without the way past)"""
    found = function()
    with monkeypatch.context() as patch:
        patch.setattr(place, name, lambda *_: None)
        return found, function()


def _same(a, b):
    assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


SHAPES = ((3,), (2, 3), (2, 0), (2, 3, 4))


@pytest.mark.parametrize("dtype", [jtorch.float32, jtorch.int64, jtorch.bool, jtorch.float16])
def test_stack(dtype, monkeypatch):
    for shape in SHAPES:
        many = [jtorch.arange(int(np.prod(shape))).reshape(shape).add(k).to(dtype) for k in range(3)]
        for given in (many, [t.transpose(0, -1) for t in many]):
            for dim in range(-len(shape) - 1, len(shape) + 1):
                ours, theirs = _both(
                    monkeypatch, joining, "stacked", lambda g=given, d=dim: jtorch.stack(g, d)
                )
                _same(ours, theirs)
                ours.zero_()
                assert not given[0].numel() or given[1].any()  # memory of its own


def test_cat(monkeypatch):
    for shape, dim in itertools.product(SHAPES, (0, -1)):
        many = [jtorch.rand(shape), jtorch.rand(shape), jtorch.zeros(0)]
        for given in (many[:2], many, [t.transpose(0, -1) for t in many]):
            ours = jtorch.cat(given, dim)
            theirs = jtorch.cat(iter(given), dim)  # which takes the general way
            _same(ours, theirs)
    assert jtorch.cat(t for t in [jtorch.ones(1), jtorch.ones(2)]).tolist() == [1.0, 1.0, 1.0]
    assert jtorch.cat([jtorch.ones(1), jtorch.ones(1, dtype=jtorch.int64)]).dtype is jtorch.float32


def test_what_must_be_seen_to_goes_the_general_way():
    x = jtorch.ones(2, requires_grad=True)
    assert joined.joined([x, x], 0) is None and joined.stacked([x, x], 0) is None
    with jtorch.no_grad():
        assert joined.joined([x, x], 0) is not None
    for wrong in ([], [x.detach(), jtorch.ones(3)], [x.detach(), 1.0], (t for t in [x.detach()])):
        assert joined.stacked(wrong, 0) is None
    jtorch.stack([x, x]).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match=r"got \[2\] at entry 0 and \[3\] at entry 1"):
        jtorch.stack([x.detach(), jtorch.ones(3)])
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        jtorch.cat([jtorch.ones(2, 2), jtorch.ones(3, 3)])
    with pytest.raises(IndexError, match="Dimension out of range"):
        jtorch.cat([jtorch.ones(2), jtorch.ones(3)], 1)


def test_clamp(monkeypatch):
    odd = [0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 0.5]
    for dtype, low, high in itertools.product((jtorch.float32, jtorch.float64, jtorch.int64), odd, odd):
        x = jtorch.tensor(odd * 5 if dtype.is_floating_point else [-3, 0, 3], dtype=dtype)
        for given in (x, x.reshape(-1, 1).expand(-1, 3).T, x[1], x[:0]):
            ours, theirs = _both(
                monkeypatch, arithmetic, "_within", lambda g=given, a=low, b=high: g.clamp(a, b)
            )
            _same(ours, theirs)
            assert ours.numpy().tobytes() == theirs.numpy().tobytes()  # the signs of zeros, too
            ours.zero_()  # memory of its own, as that of any tensor


def test_an_index_that_counts_from_the_end_or_is_out_of_range():
    x = jtorch.arange(12).reshape(4, 3)
    for places in ([0, 3], [-1, 0], [[1, -4], [0, 0]], []):
        index = jtorch.tensor(places, dtype=jtorch.int64)
        np.testing.assert_array_equal(x[index].numpy(), x.numpy()[np.array(places, np.int64)])
    for wrong in (4, -5):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for dimension 0 with size 4"):
            x[jtorch.tensor([0, wrong])]


def test_one_hot():
    for shape, classes in (((4,), 3), ((2, 3), 5), ((0,), 4), ((), 2)):
        t = jtorch.tensor(np.random.default_rng(0).integers(0, classes, shape))
        assert F.one_hot(t, classes).tolist() == np.eye(classes, dtype=int)[t.numpy()].tolist()
    rows = jtorch.arange(6).reshape(2, 3).T
    assert F.one_hot(rows).tolist() == np.eye(6, dtype=int)[rows.numpy()].tolist()
    for wrong, classes, said in (
        ([0, -1], -1, "must be non-negative"),
        ([-2, -1], -1, "must be non-negative"),
        ([0, -1], 3, "must be non-negative"),
        ([0, 3], 3, "must be smaller than num_classes"),
    ):
        with pytest.raises(RuntimeError, match=said):
            F.one_hot(jtorch.tensor(wrong), classes)


def test_an_answer_about_shapes_is_not_that_of_other_arguments():
    x = jtorch.rand(1, 2, 9)
    assert F.max_pool1d(x, 2).shape == (1, 2, 4)
    assert F.max_pool1d(x, [2]).shape == (1, 2, 4)
    assert F.max_pool1d(x, (3,), stride=1).shape == (1, 2, 7)
    assert F.max_pool1d(x, jtorch.tensor([3])).shape == (1, 2, 3)
    size = jtorch.tensor([2])
    assert F.max_pool1d(x, size).shape == (1, 2, 4)
    size.fill_(3)
    assert F.max_pool1d(x, size).shape == (1, 2, 3)
    weight = jtorch.rand(4, 2, 3)
    assert F.conv1d(x, weight).shape == (1, 4, 7)
    for _ in range(2):  # an error is said each time
        with pytest.raises(RuntimeError, match="bias to be 1-dimensional with 4 elements"):
            F.conv1d(x, weight, jtorch.zeros(3))
        with pytest.raises(RuntimeError, match="should be the same"):
            F.conv1d(x, weight.double())
        with pytest.raises(RuntimeError, match="Invalid computed output size: 0"):
            F.max_pool1d(x, 12)


def test_topk_and_sort_have_pytorchs_nodes():
    x = jtorch.rand(40, 8, dtype=jtorch.float64, requires_grad=True)
    values, places = x.topk(3, largest=False)
    assert values.grad_fn.name() == "TopkBackward0" and not places.requires_grad
    assert jtorch.autograd.gradcheck(lambda x: x.topk(3, 0)[0], (x,))
    assert jtorch.autograd.gradgradcheck(lambda x: x.topk(2)[0] ** 2, (x[:3].detach().requires_grad_(),))
    f = jtorch.compile(lambda x: x.topk(3, 1))
    for _ in range(2):
        for a, b in zip(f(x.detach()), x.detach().topk(3, 1), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
