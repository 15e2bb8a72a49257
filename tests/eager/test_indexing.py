"""``x[...]`` and ``x[...] = v`` against NumPy, and the gradients against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

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


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=4))
def test_any_item_reads_what_numpy_reads(parts):
    assume(parts.count(Ellipsis) < 2)  # an error in NumPy; in PyTorch the second one stands for nothing
    if Ellipsis in parts:  # NumPy sends the axes of arrays around it to the front, even if it is empty
        k = parts.index(Ellipsis)
        assume(not all(any(isinstance(p, list) for p in side) for side in (parts[:k], parts[k:])))
    array = np.arange(3 * 3 * 3).reshape(3, 3, 3)
    item = tuple(parts)
    try:
        expected = array[item]
    except IndexError:
        with pytest.raises(IndexError):
            jtorch.tensor(array)[item]
        return
    ints_and_arrays = any(isinstance(p, list) for p in parts) and any(isinstance(p, int) for p in parts)
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
    with pytest.raises(RuntimeError, match=r"The expanded size of the tensor .3. must match"):
        x[0] = jtorch.ones(5)
    with pytest.raises(RuntimeError, match=r"shape mismatch: value tensor of shape .5. cannot be broadcast"):
        x[[0, 1]] = jtorch.ones(5)


# -- every other kind of item ----------------------------------------------------------------------

OTHER_ITEMS = {
    "true": lambda L: True,
    "false": lambda L: False,
    "true among others": lambda L: (None, True, 0),
    "two trues": lambda L: (True, slice(None), True),
    "bool tensor": lambda L: L.tensor(True),
    "false and array": lambda L: (False, L.tensor([0])),
    "np int": lambda L: np.int64(1),
    "np int among slices": lambda L: (slice(None), np.int32(-1)),
    "range": lambda L: range(1, 3),
    "tuple in tuple": lambda L: ((0, 2), slice(1, None)),
    "nested list": lambda L: [[0, 1], [2, 2]],
    "bool list": lambda L: [True, False, True, True],
    "0-d tensor": lambda L: L.tensor(2),
    "0-d tensors": lambda L: (L.tensor(1), slice(None), L.tensor(0)),
    "int32 tensor": lambda L: L.tensor([0, -1], dtype=L.int32),
    "tuple of tensors": lambda L: (L.tensor([[0], [1]]), L.tensor([0, -2])),
    "mask and slice": lambda L: (L.tensor([True, False, True, False]), slice(1, 3)),
    "mask and array": lambda L: (L.tensor([True, False, True, False]), L.tensor([0, 1])),
    "mask of none": lambda L: L.tensor([False] * 4),
    "slices around arrays": lambda L: (slice(1, 3), L.tensor([0, 4]), slice(None, None, 2)),
    "arrays apart": lambda L: (L.tensor([0, 1]), slice(1, 3), L.tensor([2, 2])),
    "new axes and arrays": lambda L: (None, L.tensor([0, 1]), Ellipsis, None),
    "slice with tensor bounds": lambda L: slice(L.tensor(1), L.tensor(3)),
    "two ellipses": lambda L: (0, Ellipsis, Ellipsis),
    "empty tuple": lambda L: (),
    "np array": lambda L: np.array([[0, 1], [3, -1]]),
    "list of a slice": lambda L: [slice(0, 2), 1],
}


@needs_torch
@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8", "ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", OTHER_ITEMS)
def test_other_items_equal_pytorchs(name):
    import torch

    results = []
    for L in (jtorch, torch):
        item = OTHER_ITEMS[name](L)
        x = L.tensor(ARRAY, requires_grad=True)
        read = x[item]
        (read * read).sum().backward()
        leaf, value = L.tensor(ARRAY, requires_grad=True), L.tensor(2.0, dtype=L.float64, requires_grad=True)
        y = leaf * 1
        y[item] = value * value
        (y * y).sum().backward()
        values = (read, x.grad, y, leaf.grad, value.grad)
        results.append([0.0 if v is None else v.detach().numpy() for v in values])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("item", [[0, 0, 2], (slice(None), [1, 1])])
def test_repeated_places_add_up(item):
    x = jtorch.tensor(ARRAY, requires_grad=True)
    g = np.zeros_like(ARRAY)
    np.add.at(g, item, 1.0)
    x[item].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), g)
    y = jtorch.zeros(*SHAPE, dtype=jtorch.float64)
    indices = (item,) if isinstance(item, list) else item
    arrays = [None if isinstance(i, slice) else jtorch.tensor(i) for i in indices]
    y.index_put_(arrays, jtorch.tensor(1.0, dtype=jtorch.float64), accumulate=True)
    np.testing.assert_array_equal(y.numpy(), g)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=4))
def test_any_item_writes_what_it_reads(parts):
    assume(parts.count(Ellipsis) < 2)
    array = np.arange(27.0).reshape(3, 3, 3)
    x, item = jtorch.tensor(array), tuple(parts)
    try:
        places = jtorch.tensor(np.arange(27).reshape(3, 3, 3))[item].numpy()
    except IndexError:
        with pytest.raises(IndexError):
            x[item] = 1.0
        return
    x[item] = 100.0
    expected = array.copy().reshape(-1)
    expected[places.reshape(-1)] = 100.0
    np.testing.assert_array_equal(x.numpy().reshape(-1), expected)
    view = jtorch.tensor(array)[item]
    basic = not any(isinstance(p, list) for p in parts)
    if view.numel():
        assert (view._base is not None) == basic  # slices share memory, arrays copy


@needs_torch
@pytest.mark.parametrize(
    "item",
    [
        (slice(None), [9]),
        [-7],
        ([0], [0], [3]),
        ([0, 1], [0, 1, 2]),
        (0, 0, 0, 0),
        (0, 5),
        np.ones((4, 4), bool),
        (slice(None), [True, False]),
        1.5,
        "a",
        slice(None, None, -1),
        slice(None, None, 0),
    ],
)
def test_errors_are_pytorchs(item):
    import torch

    def convert(L):
        given = item if isinstance(item, tuple) else (item,)
        return tuple(L.tensor(i) if isinstance(i, (list, np.ndarray)) else i for i in given)

    for use in (lambda x, i: x[i], lambda x, i: x.__setitem__(i, 1.0)):
        with pytest.raises((IndexError, TypeError, ValueError, RuntimeError)) as theirs:
            use(torch.tensor(ARRAY), convert(torch))
        with pytest.raises(theirs.type) as ours:
            use(jtorch.tensor(ARRAY), convert(jtorch))
        assert str(ours.value) == str(theirs.value)


def test_a_uint8_tensor_is_a_mask():
    x = jtorch.tensor(ARRAY)
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        found = x[jtorch.tensor([1, 0, 1, 0], dtype=jtorch.uint8)]
    np.testing.assert_array_equal(found.numpy(), ARRAY[[0, 2]])


def test_assigned_words_are_refused():
    with pytest.raises(TypeError, match=r"can't assign a str to a torch.FloatTensor"):
        jtorch.zeros(2)[0:1] = "a"


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_an_index_of_one_uint8_is_a_mask() -> None:
    x = jtorch.zeros(2, 3)
    x[jtorch.tensor(0, dtype=jtorch.uint8)] = 5
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]
    x[jtorch.tensor(1, dtype=jtorch.uint8)] = 5
    assert x.tolist() == [[5, 5, 5], [5, 5, 5]]
    zero, one = (jtorch.tensor(k, dtype=jtorch.uint8) for k in (0, 1))
    assert [tuple(t.shape) for t in (x[zero], x[one], x[:, one])] == [(0, 2, 3), (1, 2, 3), (2, 1, 3)]


def test_the_whole_of_a_number_is_a_view():
    """NumPy's ``x[()]`` is a scalar of its own: what was written to it was lost."""
    for item in (..., (), (..., None), None):

        def write(x, item=item):
            x[item].mul_(2)
            return x * 1

        for f in (write, jtorch.compile(write, mode="interpret")):
            x = jtorch.tensor(1.5)
            assert f(x).tolist() == x.tolist() == 3.0, item
