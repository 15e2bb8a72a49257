"""``x[...]`` and ``x[...] = v`` against NumPy, and the gradients against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jtorch
from tests.ops.support import needs_torch

SHAPE = (4, 5, 3)
ARRAY = np.arange(60.0).reshape(SHAPE)
ITEMS = [
    0,
    -1,
    slice(None),
    slice(1, 3),
    slice(None, None, 2),
    slice(-3, -1),
    slice(3, 1),
    Ellipsis,
    None,
    (0, 1),
    (0, 1, 2),
    (slice(None), 2),
    (slice(1, 3), slice(0, 5, 2)),
    (Ellipsis, 1),
    (1, Ellipsis, 0),
    (None, 0),
    (0, None, slice(1, None)),
    (Ellipsis, None),
    (slice(None), None, 1),
    [0, 2],
    ([0, 2], [1, 3]),
    ([0, 2], slice(None), [1, 2]),
    (slice(None), [0, 4, 4]),
    (0, [1, 2]),
    (slice(1, 3), [0, 1], 2),
    ([[0, 1], [2, 3]],),
    ([[0], [1]], [0, 1]),
    np.array([1, -1]),
    (np.array(2), slice(None)),
    ARRAY > 30,
    ARRAY[:, :, 0] > 30,
    (slice(None), ARRAY[0] > 7),
    (ARRAY[:, 0, 0] > 20, 1),
    (None, [0, 1]),
    (Ellipsis, [0, 2]),
    ([0, 1], Ellipsis, [0, 2]),
    (slice(0, 0), 1),
    [],
]
# NumPy takes an int beside an array for an array, whose axes then come first; PyTorch selects first
TORCH_ITEMS = [*ITEMS, (0, slice(None), [0, 0, 0]), ([1, 2], slice(None), 0)]
IDS = [
    f"{k}:{item if not isinstance(item, np.ndarray) else item.shape}"[:40]
    for k, item in enumerate(TORCH_ITEMS)
]


def _for_numpy(item):
    """An empty list is an index array of ints for both libraries, once NumPy is told so."""
    return np.zeros(0, np.int64) if isinstance(item, list) and not item else item


def _for_tensors(item, L=jtorch):
    if isinstance(item, tuple):
        return tuple(_for_tensors(i, L) for i in item)
    if isinstance(item, np.ndarray):
        return L.tensor(item)
    return L.tensor([], dtype=L.int64) if isinstance(item, list) and not item else item


@pytest.mark.parametrize("item", ITEMS, ids=IDS[: len(ITEMS)])
def test_reads_what_numpy_reads(item):
    found = jtorch.tensor(ARRAY)[_for_tensors(item)].numpy()
    np.testing.assert_array_equal(found, ARRAY[_for_numpy(item)])


@pytest.mark.parametrize("item", ITEMS, ids=IDS[: len(ITEMS)])
def test_writes_what_numpy_writes(item):
    expected = ARRAY.copy()
    x = jtorch.tensor(ARRAY)
    shape = expected[_for_numpy(item)].shape
    value = np.arange(float(np.prod(shape))).reshape(shape) + 100
    repeats = "4, 4" in str(item) or "0, 0, 0" in str(item)
    if repeats:  # which of several values stays is not defined
        value = np.full(shape, 7.0)
    expected[_for_numpy(item)] = value
    x[_for_tensors(item)] = jtorch.tensor(value)
    np.testing.assert_array_equal(x.numpy(), expected)
    assert x._version == 1


@needs_torch
@pytest.mark.parametrize("item", TORCH_ITEMS, ids=IDS)
def test_gradient_of_reading_equals_pytorchs(item):
    import torch

    x, y = jtorch.tensor(ARRAY, requires_grad=True), torch.tensor(ARRAY, requires_grad=True)
    a, b = x[_for_tensors(item)], y[_for_tensors(item, torch)]
    assert tuple(a.shape) == tuple(b.shape)
    (a * a).sum().backward()
    (b * b).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy())


@needs_torch
@pytest.mark.parametrize(
    "item",
    [
        0,
        slice(1, 3),
        (slice(None), 2),
        (0, 1, 2),
        (Ellipsis, 0),
        [0, 2],
        ARRAY > 30,
        ([0, 2], [1, 3]),
    ],
    ids=str,
)
def test_gradient_of_writing_equals_pytorchs(item):
    import torch

    grads = []
    for L in (jtorch, torch):
        x = L.tensor(ARRAY, requires_grad=True)
        where = _for_tensors(item, L)
        value = (L.ones(x.detach()[where].shape, dtype=L.float64) * 3).requires_grad_()
        y = x * 2
        y[where] = value * value
        (y * y).sum().backward()
        grads.append((x.grad.numpy(), value.grad.numpy()))
    np.testing.assert_allclose(grads[0][0], grads[1][0])
    np.testing.assert_allclose(grads[0][1], grads[1][1])


SLICES = st.slices(6).filter(lambda s: s.step is None or s.step > 0)
PARTS = st.one_of(
    st.integers(-3, 2),
    SLICES,
    st.none(),
    st.just(Ellipsis),
    st.lists(st.integers(-3, 2), min_size=2, max_size=2),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=4))
def test_any_item_reads_what_numpy_reads(parts):
    array = np.arange(3 * 3 * 3).reshape(3, 3, 3)
    item = tuple(parts)
    try:
        expected = array[item]
    except IndexError:
        with pytest.raises(IndexError):
            jtorch.tensor(array)[item]
        return
    ints_and_arrays = any(isinstance(p, list) for p in parts) and any(
        isinstance(p, int) for p in parts
    )
    if ints_and_arrays and expected.shape != tuple(jtorch.tensor(array)[item].shape):
        assert sorted(expected.shape) == sorted(jtorch.tensor(array)[item].shape)
        return
    found = jtorch.tensor(array)[item].numpy()
    if ints_and_arrays and not np.array_equal(found, expected):
        assert sorted(found.ravel()) == sorted(expected.ravel())
        return
    np.testing.assert_array_equal(found, expected)


def test_basic_items_are_views():
    x = jtorch.zeros(3, 4)
    for item in (0, slice(1, 2), (slice(None), 1), None, Ellipsis, (0, 0)):
        assert np.shares_memory(x[item].numpy(), x.numpy())
    x[1][2] = 5
    assert x[1, 2].item() == 5


def test_errors_say_what_is_wrong():
    x = jtorch.ones(2, 3)
    for item, message in (
        (2, "index 2 is out of bounds for dimension 0 with size 2"),
        ((0, 0, 0), "too many indices for tensor of dimension 2"),
        ((0, -4), "index -4 is out of bounds for dimension 1 with size 3"),
        (1.5, "only integers, slices"),
        (jtorch.tensor([1.0]), "tensors used as indices must be long, int, byte or bool tensors"),
        (jtorch.tensor([True, False, True]), "The shape of the mask"),
    ):
        with pytest.raises(IndexError, match=message):
            x[item]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-1]
    with pytest.raises(IndexError):
        x[jtorch.tensor([5])]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[0] = jtorch.ones(5)
