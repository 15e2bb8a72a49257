"""Sorting and counting against PyTorch and NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 5))
HOLES = A.copy()
HOLES[0, 1] = HOLES[1, 3] = np.nan
INTS = RNG.integers(-3, 4, (3, 5))
SMALL = RNG.integers(0, 6, 12)
LINE = np.sort(A[0])
ROWS = np.sort(A, 1)
SCALAR = np.array(1.5)

CALLS = {
    "sort": (lambda L, x: tuple(x.sort()), [A]),
    "sort down": (lambda L, x: tuple(L.sort(x, 0, True)), [A]),
    "sort stable": (lambda L, x: tuple(L.sort(x, stable=True, dim=0, descending=True)), [INTS]),
    "sort nan": (lambda L, x: tuple(L.sort(x.detach(), descending=True)), [HOLES]),
    "sort 0-d": (lambda L, x: tuple(x.sort()), [SCALAR]),
    "sort bools": (lambda L, x: tuple(L.sort(x > 0, stable=True)), [INTS]),
    "argsort": (lambda L, x: L.argsort(x, dim=0, descending=True, stable=True), [INTS]),
    "msort": (lambda L, x: L.msort(x), [A]),
    "topk": (lambda L, x: tuple(L.topk(x, 2)), [A]),
    "topk small": (lambda L, x: tuple(x.topk(2, 0, largest=False)), [A]),
    "topk none": (lambda L, x: tuple(x.topk(0)), [A]),
    "topk 0-d": (lambda L, x: tuple(x.topk(1)), [SCALAR]),
    "kthvalue": (lambda L, x: tuple(L.kthvalue(x, 2, 0, keepdim=True)), [A]),
    "kthvalue last": (lambda L, x: tuple(x.kthvalue(5)), [A]),
    "unique": (lambda L, x: L.unique(x), [INTS]),
    "unique all": (lambda L, x: L.unique(x, return_inverse=True, return_counts=True), [INTS]),
    "unique dim": (
        lambda L, x: x.unique(return_inverse=True, return_counts=True, dim=1), [INTS[:, [0, 1, 0, 2]]],
    ),
    "unique floats": (lambda L, x: L.unique(x.detach()), [INTS / 2]),
    "consecutive": (lambda L, x: L.unique_consecutive(x, True, True), [np.array([1, 1, 2, 2, 3, 1, 1])]),
    "consecutive dim": (lambda L, x: x.unique_consecutive(dim=0), [INTS[[0, 0, 1, 0]]]),
    "bincount": (lambda L, x: L.bincount(x), [SMALL]),
    "bincount weights": (lambda L, x, w: x.bincount(w.detach(), 9), [SMALL, A.ravel()[:12]]),
    "bincount empty": (lambda L, x: L.bincount(x, minlength=3), [SMALL[:0]]),
    "histc": (lambda L, x: L.histc(x.detach(), 5), [A]),
    "histc limits": (lambda L, x: x.detach().histc(7, -1, 1), [A.astype(np.float32)]),
    "histc one value": (lambda L, x: L.histc(x.detach(), 4), [np.ones(3)]),
    "histogram": (lambda L, x: tuple(L.histogram(x.detach(), 5)), [A]),
    "histogram range": (lambda L, x: tuple(x.detach().histogram(4, range=(-1.0, 1.0), density=True)), [A]),
    "histogram edges": (
        lambda L, x, e, w: tuple(L.histogram(x.detach(), e.detach(), weight=w.detach())),
        [A, np.array([-1.0, 0.0, 0.4]), np.abs(A)],
    ),
    "searchsorted": (lambda L, s, x: L.searchsorted(s, x), [LINE, A]),
    "searchsorted rows": (lambda L, s, x: L.searchsorted(s, x, right=True), [ROWS, A[:, :2].copy()]),
    "searchsorted number": (lambda L, s: L.searchsorted(s, 0.1, side="right"), [LINE]),
    "searchsorted equal": (lambda L, s: L.searchsorted(s, s, out_int32=True), [LINE]),
    "searchsorted sorter": (
        lambda L, s, x: L.searchsorted(s, x, sorter=L.argsort(s)), [A[0].copy(), A[1].copy()],
    ),
    "bucketize": (lambda L, x, b: L.bucketize(x, b, right=True), [INTS, np.array([-1, 0, 2])]),
}  # fmt: skip


@needs_torch
@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, rtol=1e-6 if arrays[0].dtype == np.float32 else 1e-12, atol=1e-13)


def test_against_numpy():
    x = jtorch.tensor(HOLES)
    values, order = jtorch.sort(x, 1)
    np.testing.assert_array_equal(values.numpy(), np.sort(HOLES, 1))
    np.testing.assert_array_equal(order.numpy(), np.argsort(HOLES, 1, kind="stable"))
    counts, edges = jtorch.histogram(jtorch.tensor(A), 4)
    expected, expected_edges = np.histogram(A, 4)
    np.testing.assert_array_equal(counts.numpy(), expected)
    np.testing.assert_allclose(edges.numpy(), expected_edges, rtol=1e-14)
    found = jtorch.searchsorted(jtorch.tensor(LINE), x[1])
    np.testing.assert_array_equal(found.numpy(), np.searchsorted(LINE, HOLES[1]))


def test_sort_gives_gradients_to_where_values_came_from():
    x = jtorch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    (x.sort()[0] * jtorch.tensor([10.0, 20.0, 30.0])).sum().backward()
    assert x.grad.tolist() == [30.0, 10.0, 20.0]


def test_sort_inside_compiled_code():
    def function(x):
        values, indices = x.sort(1, descending=True)
        return values * 2, indices, x.cumsum(0), x.median(1).values, x.topk(2).values

    compiled = jtorch.compile(function)
    x = jtorch.tensor(A)
    for a, b in zip(compiled(x), function(x), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


MANY = RNG.standard_normal((3, 4, 300)).astype(np.float32)
SOME_NAN = np.where(RNG.random(MANY.shape) < 0.01, np.float32(np.nan), MANY)


@pytest.mark.parametrize("k", [1, 3, 74, 75, 300])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    "x", [MANY, RNG.integers(0, 9, MANY.shape), SOME_NAN, MANY > 0], ids=["floats", "ties", "nan", "bools"]
)
@pytest.mark.parametrize("dim", [-1, 0])
def test_the_first_of_many_are_those_of_a_sort(k, largest, x, dim):
    x = jtorch.tensor(x if dim else np.moveaxis(x, -1, 0))
    values, places = x.topk(k, dim, largest)
    sorted_values, order = x.sort(dim, descending=largest, stable=True)
    np.testing.assert_array_equal(values.numpy(), sorted_values.narrow(dim, 0, k).numpy())
    np.testing.assert_array_equal(places.numpy(), order.narrow(dim, 0, k).numpy())
    assert values.is_contiguous() and places.is_contiguous()


def test_sorting_follows_sizes_and_k():
    def function(x, k):
        return (*x.topk(k, 0), *x.sort(0, descending=True), *x.median(0), x.nanmedian())

    compiled = jtorch.compile(function)
    for n, k in ((5, 2), (7, 3), (200, 11), (300, 4), (6, 6)):
        x = jtorch.tensor(RNG.standard_normal((n, 4)))
        for a, b in zip(compiled(x, k), function(x, k), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_results_can_be_written_into_tensors():
    values, indices = jtorch.empty(3), jtorch.zeros(3, dtype=jtorch.int64)
    found = jtorch.sort(jtorch.tensor([3.0, 1.0, 2.0]), out=(values, indices))
    assert found.values is values
    assert (values.tolist(), indices.tolist()) == ([1.0, 2.0, 3.0], [1, 2, 0])


def test_results_have_names():
    found = jtorch.tensor([1, 2]).max(0)
    assert repr(found) == "jtorch.return_types.max(\nvalues=tensor(2),\nindices=tensor(1))"
    assert found.values.item() == 2
    assert found.indices is found[1]
    assert isinstance(found, jtorch.return_types.max)
    assert jtorch.compile(lambda x: x.sort())(jtorch.tensor([2, 1])).values.tolist() == [1, 2]


ERRORS = {
    "topk": (lambda x, i: x.topk(9), RuntimeError, "selected index k out of range"),
    "kthvalue": (lambda x, i: x.kthvalue(9), RuntimeError, "selected number k out of range for dimension 1"),
    "bincount": (lambda x, i: i.bincount(), RuntimeError, "only supports 1-d non-negative integral inputs"),
    "bincount floats": (
        lambda x, i: x[0].bincount(), NotImplementedError, '"bincount_cpu" not implemented for',
    ),
    "searchsorted": (
        lambda x, i: jtorch.searchsorted(x, x[0]), RuntimeError, "boundaries tensor should be 1 dim",
    ),
    "sides": (lambda x, i: jtorch.searchsorted(x[0], x, side="left", right=True), RuntimeError, "opposites"),
    "bucketize": (lambda x, i: jtorch.bucketize(x, x), RuntimeError, "must be 1 dimension"),
    "histc": (lambda x, i: i.histc(), NotImplementedError, '"histogram_cpu" not implemented for \'Long\''),
    "histogram": (lambda x, i: x.histogram(-1), RuntimeError, "bins must be > 0, but got -1 for dimension 0"),
    "mode": (lambda x, i: x[:, :0].mode(), IndexError, "Expected reduction dim 1 to have non-zero size"),
    "sort dim": (lambda x, i: x.sort(2), IndexError, "Dimension out of range"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, sentence = ERRORS[name]
    with pytest.raises(kind, match=sentence):
        call(jtorch.tensor(A), jtorch.tensor(INTS))


def test_sizes_that_depend_on_elements_are_an_error_while_compiling():
    with pytest.raises(jtorch.errors.CompileError, match="unique"):
        jtorch.compile(lambda x: x.unique(dim=0) * 2)(jtorch.tensor([[1, 2], [2, 2]]))


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("keepdim", [False, True])
def test_quantiles_keep_the_order_of_the_other_dims(name: str, dim: int, keepdim: bool) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    q = [0.25, 0.5]
    found = getattr(jtorch, name)(jtorch.tensor(x), jtorch.tensor(q).double(), dim, keepdim)
    np.testing.assert_allclose(found.numpy(), np.quantile(x, q, axis=dim, keepdims=keepdim), rtol=1e-12)
    one = getattr(jtorch, name)(jtorch.tensor(x), 0.5, dim, keepdim)
    np.testing.assert_allclose(one.numpy(), np.quantile(x, 0.5, axis=dim, keepdims=keepdim), rtol=1e-12)


@needs_torch
@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 3), (), (2, 3)])
def test_unique_where_nothing_is(name, shape):
    for dim in (None, 0, 1, -1):
        for more in ({}, {"return_inverse": True}, {"return_counts": True}):
            theirs, ours = (_unique(library, name, shape, dim=dim, **more) for library in (torch, jtorch))
            assert ours == theirs


def _unique(library, name, shape, **options):
    try:
        found = getattr(library, name)(library.zeros(shape), **options)
    except (RuntimeError, IndexError) as error:
        return type(error), str(error)
    many = found if isinstance(found, tuple) else (found,)
    return [(tuple(t.shape), str(t.dtype).rpartition(".")[2], t.tolist()) for t in many]


SEQUENCES = (
    [1.0, 2.0, math.nan], [1.0, math.nan, 3.0], [math.nan, 1.0, 2.0], [math.nan] * 2, [1.0, 2.0, 3.0], [],
    [-math.inf, math.nan, math.inf], [1.0, math.nan, math.nan, 5.0, 6.0, 7.0, 8.0], [math.nan] * 5 + [1.0],
)  # fmt: skip
WANTED = [math.nan, 0.0, 1.0, 1.5, 2.0, 3.0, 5.0, math.inf, -math.inf, 7.0]


@needs_torch
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_is_searched_in_the_steps_of_pytorch(dtype, right):
    for sequence in SEQUENCES:
        theirs, ours = (_places(library, sequence, dtype, right) for library in (torch, jtorch))
        assert ours == theirs, sequence


def _places(library, sequence, dtype, right):
    row, wanted = (library.tensor(v, dtype=getattr(library, dtype)) for v in (sequence, WANTED))
    rows = library.stack([row, row.flip(0)]), library.stack([wanted, wanted])
    found = (
        library.searchsorted(row, wanted, right=right), library.searchsorted(*rows, right=right),
        library.bucketize(wanted, row, right=right),
    )  # fmt: skip
    return [t.tolist() for t in found]


def test_nan_is_searched_so_in_compiled_code():
    step = jtorch.compile(lambda s, x: jtorch.bucketize(x, s))
    assert step(jtorch.tensor(SEQUENCES[0]), jtorch.tensor(WANTED)).tolist() == [3, 0, 0, 1, 1, 3, 3, 3, 0, 3]


NAN_BETWEEN = [0.0, -2.5, math.nan, math.inf, -104.0, 3.0, 88.0, math.nan, -math.inf, 1.0, -0.5, 2.0]
OF_NAN = {
    "sort": lambda L, x: tuple(x.sort(stable=True)),
    "sort down": lambda L, x: tuple(x.sort(stable=True, descending=True)),
    "argsort": lambda L, x: (L.argsort(x.reshape(3, 4), dim=0, stable=True),),
    "msort": lambda L, x: (L.msort(x),),
    "topk": lambda L, x: tuple(x[3:].topk(3)),
    "topk of many": lambda L, x: tuple(L.cat([x, L.zeros(200, dtype=x.dtype)]).topk(4, largest=False)[:1]),
    "kthvalue": lambda L, x: tuple(x.kthvalue(2)),
    "median": lambda L, x: tuple(x.reshape(3, 4).median(1)),
    "median of all": lambda L, x: (x.median(),),
    "nanmedian": lambda L, x: tuple(x.nanmedian(0)),
    "mode": lambda L, x: tuple(L.cat([x[2:], x[-2:]]).mode()),
    "unique": lambda L, x: x.unique(return_inverse=True, return_counts=True),
    "unique rows": lambda L, x: (L.unique(x[3:7].reshape(2, 2), dim=0),),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", OF_NAN)
def test_nan_of_every_float_is_put_in_order(name, dtype):
    """NumPy itself leaves bfloat16 unsorted where a NaN is among the elements."""
    wide = OF_NAN[name](jtorch, jtorch.tensor(NAN_BETWEEN, dtype=jtorch.float64))
    found = OF_NAN[name](jtorch, jtorch.tensor(NAN_BETWEEN, dtype=getattr(jtorch, dtype)))
    assert [t.dtype for t in found[1:]] == [t.dtype for t in wide[1:]]
    for ours, wanted in zip(found, wide, strict=True):
        np.testing.assert_array_equal(ours.double().numpy(), wanted.double().numpy())


@needs_torch
@pytest.mark.parametrize("name", OF_NAN)
def test_the_order_of_nan_is_that_of_pytorch(name):
    found, wanted = (OF_NAN[name](L, L.tensor(NAN_BETWEEN, dtype=L.bfloat16)) for L in (jtorch, torch))
    assert str(found[0].dtype).partition(".")[2] == str(wanted[0].dtype).partition(".")[2]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours.double().numpy(), theirs.double().numpy())


def test_numbers_that_signal_are_sorted_without_a_word():
    x = np.arange(2048, dtype=np.float32)[::-1].copy()
    x.view(np.int32)[7] = 0x7F800001
    with np.errstate(all="raise"):
        found = jtorch.from_numpy(x).sort()
    assert found.indices[-1] == 7 and found.values[0] == 0


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("shape, dim", [((2000,), 0), ((64, 40), 1), ((64, 40), 0), ((3, 50, 20), 1)])
def test_many_are_in_the_order_that_numpy_gives(shape, dim, dtype, descending):
    x = (np.random.default_rng(0).standard_normal(shape) * 3).astype(dtype)
    if dtype is np.float32:
        x.ravel()[::7], x.ravel()[1::7] = 0.0, -0.0
        x.ravel()[[5, 50]] = np.inf, -np.inf
    for given in (x, np.asfortranarray(x)):
        found = jtorch.from_numpy(given).argsort(dim, descending, stable=True).numpy()
        keys = -given.astype(np.float64) if descending else given
        assert np.array_equal(found, keys.argsort(dim, kind="stable"))
    if dtype is np.float32:
        x.ravel()[[3, 30]] = np.nan, -np.nan
        found = np.take_along_axis(x, jtorch.from_numpy(x).argsort(dim, stable=True).numpy(), dim)
        assert np.array_equal(found, np.sort(x, dim), equal_nan=True)


NAN = math.nan
MODES_BESIDE_NAN = [  # (elements, the mode, its place)
    ([NAN, 1.0, NAN, 1.0], NAN, 0), ([1.0, NAN, NAN, 2.0], 1.0, 0), ([1.0, 2.0, 2.0, NAN, NAN, NAN], 2.0, 2),
    ([3.0, 1.0, NAN, 2.0, 1.0], 1.0, 1), ([NAN, NAN], NAN, 0), ([NAN], NAN, 0),
    ([2.0, 1.0, 1.0, NAN], 1.0, 2),
]  # fmt: skip


@each("elements, value, place", MODES_BESIDE_NAN)
def test_no_nan_equals_another_where_the_most_frequent_is_looked_for(elements, value, place):
    for mode in (lambda x: tuple(x.mode()), jtorch.compile(lambda x: tuple(x.mode()))):
        values, indices = mode(jtorch.tensor(elements))
        assert (repr(values.item()), indices.item()) == (repr(value), place)


@needs_torch
def test_the_most_frequent_beside_nan_is_pytorchs():
    rng = np.random.default_rng(3)
    for n in range(1, 17):
        lines = rng.choice(np.array([NAN, 1.0, 2.0, 3.0], np.float32), (20, n))
        ours, theirs = jtorch.tensor(lines).mode(), torch.tensor(lines).mode()
        np.testing.assert_array_equal(ours.values.numpy(), theirs.values.numpy())
        np.testing.assert_array_equal(ours.indices.numpy(), theirs.indices.numpy())


def test_of_many_elements_the_most_frequent_number_wins_over_any_nan():
    values, indices = jtorch.tensor([NAN] * 9 + [5.0, 4.0, 5.0] + [NAN] * 9).mode()
    assert (values.item(), indices.item()) == (5.0, 11)
