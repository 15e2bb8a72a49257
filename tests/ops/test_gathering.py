"""gather, scatter, index and mask functions against PyTorch: values, gradients, error sentences."""

from __future__ import annotations

import itertools
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
A = RNG.standard_normal((3, 4))
B = RNG.standard_normal((3, 4))
ROW = RNG.standard_normal(4)
SCALAR = np.array(1.5)
INTS = RNG.integers(-5, 6, (3, 4))
PLACES = np.array([[0, 2, 1, 0], [2, 2, 0, 1]])
ZEROS = np.where(np.arange(12).reshape(3, 4) % 5 == 0, 0.0, A)
MASK = A > 0


def _t(L, array):
    return L.tensor(array)


def _reduced(reduce, include_self):
    return lambda L, x, y: x.scatter_reduce(0, _t(L, PLACES), y, reduce, include_self=include_self)


CALLS = {
    "gather": (lambda L, x: x.gather(1, _t(L, [[0, 3], [1, 1], [2, 0]])), [A]),
    "gather int32": (lambda L, x: L.gather(x, 0, _t(L, PLACES).int()), [A]),
    "gather 0-d": (lambda L, x: x.gather(0, L.tensor(0)), [SCALAR]),
    "gather vector at 0-d": (lambda L, x: x.gather(0, L.tensor(2)), [ROW]),
    "gather nothing": (lambda L, x: x.gather(0, L.zeros(0, 4, dtype=L.int64)), [A]),
    "gather nothing of a row": (lambda L, x: x.gather(0, L.zeros(2, 0, dtype=L.int64)), [ROW]),
    "gather nothing of more columns": (lambda L, x: x.gather(0, L.zeros(0, 9, dtype=L.int64)), [A]),
    "scatter nothing of a row": (
        lambda L, x, y: x.scatter(0, L.zeros(2, 0, dtype=L.int64), y.detach().reshape(1, -1)), [ROW, ROW]
    ),
    "scatter_add nothing": (
        lambda L, x, y: x.scatter_add(0, L.zeros(0, dtype=L.int64), y.detach()), [A, ROW]
    ),
    "scatter_reduce nothing": (
        lambda L, x, y: x.scatter_reduce(0, L.zeros(0, 4, dtype=L.int64), y, "amax"), [A, ROW]
    ),
    "scatter": (lambda L, x, y: x.scatter(0, _t(L, PLACES[:1]), y), [A, B[:1].copy()]),
    "scatter value": (lambda L, x: x.scatter(0, _t(L, PLACES), 2.5), [A]),
    "scatter value keyword": (lambda L, x: L.scatter(x, 0, _t(L, PLACES), value=2), [A]),
    "scatter value add": (lambda L, x: x.detach().scatter(1, _t(L, PLACES), 2, reduce="add"), [A]),
    "scatter value multiply": (lambda L, x: x.detach().scatter(1, _t(L, PLACES), 2, reduce="multiply"), [A]),
    "scatter_add": (lambda L, x, y: L.scatter_add(x, 0, _t(L, PLACES), y), [A, B[:2].copy()]),
    "scatter_add 0-d": (lambda L, x, y: x.scatter_add(0, L.tensor(0), y), [SCALAR, SCALAR]),
    "scatter_add vector": (lambda L, x, y: x.scatter_add(-1, L.tensor([1, 1]), y), [ROW, A[0, :2].copy()]),
    "take_along_dim": (lambda L, x: L.take_along_dim(x, _t(L, PLACES[:1]), 0), [A]),
    "take_along_dim flat": (lambda L, x: L.take_along_dim(x, _t(L, PLACES)), [A]),
    "take": (lambda L, x: x.take(_t(L, [[0, -1], [5, 5]])), [A]),
    "put": (lambda L, x, y: L.put(x, _t(L, [0, -1, 5, 2]), y), [A, ROW]),
    "put accumulate": (lambda L, x, y: x.put(_t(L, [0, -1, 5, 5]), y, accumulate=True), [A, ROW]),
    "index_select": (lambda L, x: L.index_select(x, 1, _t(L, [3, 0, 0])), [A]),
    "index_select int32": (lambda L, x: x.index_select(-1, _t(L, [3, 0]).int()), [A]),
    "index_select 0-d": (lambda L, x: x.index_select(0, L.tensor(0)), [SCALAR]),
    "index_select by 0-d": (lambda L, x: x.index_select(0, L.tensor(1)), [A]),
    "index_add": (lambda L, x, y: x.index_add(0, _t(L, [0, 2, 0]), y, alpha=-2), [A, B]),
    "index_add dim": (lambda L, x, y: L.index_add(x, 1, _t(L, [3, 3, 0, 1]), y), [A, B]),
    "index_copy": (lambda L, x, y: x.index_copy(0, _t(L, [2, 0]), y), [A, B[:2].copy()]),
    "index_fill": (lambda L, x: x.index_fill(1, _t(L, [0, -1]), 9), [A]),
    "index_fill tensor": (lambda L, x, v: x.index_fill(0, _t(L, [1]), v), [A, SCALAR]),
    "index_fill tensor at 0-d": (lambda L, x, v: x.index_fill(0, L.tensor(1), value=v), [A, SCALAR]),
    "index_fill tensor of 0-d": (lambda L, x, v: x.index_fill(0, L.tensor([0]), v), [SCALAR, SCALAR + 1]),
    "masked_fill": (lambda L, x: x.masked_fill(x > 0, -1.0), [A]),
    "masked_fill tensor": (lambda L, x, v: x.masked_fill(_t(L, MASK[0]), v), [A, SCALAR]),
    "masked_fill infinity": (lambda L, x: x.masked_fill(x > 0, float("-inf")), [A]),
    "masked_fill ints": (lambda L, x: x.masked_fill(x > 0, 7), [INTS]),
    "masked_select": (lambda L, x: L.masked_select(x, _t(L, MASK)), [A]),
    "masked_select broadcast": (lambda L, x: x.masked_select(_t(L, MASK[0])), [A]),
    "masked_scatter": (lambda L, x, y: x.masked_scatter(_t(L, MASK), y), [A, B]),
    "nonzero": (lambda L, x: L.nonzero(x), [ZEROS]),
    "nonzero 0-d": (lambda L, x: L.nonzero(x), [SCALAR]),
    "nonzero tuple": (lambda L, x: x.nonzero(as_tuple=True), [ZEROS]),
    "nonzero tuple 0-d": (lambda L, x: x.nonzero(as_tuple=True), [SCALAR]),
    "argwhere": (lambda L, x: L.argwhere(x > 0), [A]),
    "where": (lambda L, x, y: L.where(x > 0, x, y), [A, ROW]),
    "where method": (lambda L, x, y: x.where(x > 0, y), [A, ROW]),
    "where numbers": (lambda L, x: L.where(x > 0, 1, 0), [A]),
    "where float numbers": (lambda L, x: L.where(x > 0, 1.5, 0), [A]),
    "where int and float": (lambda L, x: L.where(x > 0, x, 1.5), [INTS]),
    "where types": (lambda L, x, y: L.where(x > 0, x, y), [A.astype(np.float32), B]),
    "where 0-d": (lambda L, x, y: L.where(x > 0, x, y.detach()), [A.astype(np.float32), SCALAR]),
    "where alone": (lambda L, x: L.where(x > 0), [A]),
    "isin": (lambda L, x: L.isin(x, L.tensor([1, 2])), [INTS]),
    "isin number": (lambda L, x: L.isin(x, 2, invert=True), [INTS]),
    "isin of number": (lambda L, x: L.isin(2, x), [INTS]),
} | {
    f"scatter_reduce {reduce} {include_self}": (_reduced(reduce, include_self), [array, B[:2].copy()])
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include_self in (True, False)
    for array in (A,)
} | {
    "scatter_reduce prod zeros": (_reduced("prod", True), [ZEROS, ZEROS[:2].copy()]),
    "scatter_reduce mean ints": (_reduced("mean", True), [INTS, INTS[:2].copy()]),
    "scatter_reduce amax ints": (_reduced("amax", False), [INTS, INTS[:2].copy()]),
    "scatter_reduce ties": (_reduced("amax", True), [np.ones((3, 4)), np.ones((2, 4))]),
}  # fmt: skip


@needs_torch
@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, rtol=1e-12, atol=1e-12)


IN_PLACE = {
    "scatter_": lambda L, x: x.scatter_(0, _t(L, PLACES[:1]), _t(L, B)),
    "scatter_ value": lambda L, x: x.scatter_(1, _t(L, PLACES), 1.0),
    "scatter_add_": lambda L, x: x.scatter_add_(0, _t(L, PLACES), _t(L, B)),
    "scatter_reduce_": lambda L, x: x.scatter_reduce_(0, _t(L, PLACES), _t(L, B[:2]), "amax"),
    "index_add_": lambda L, x: x.index_add_(0, _t(L, [1, 1, 0]), _t(L, B)),
    "index_copy_": lambda L, x: x.index_copy_(0, _t(L, [1, 2, 0]), _t(L, B)),
    "index_fill_": lambda L, x: x.index_fill_(0, _t(L, [1]), 3),
    "index_put_": lambda L, x: x.index_put_((_t(L, [0, 1]), _t(L, [2, 2])), L.tensor(5.0, dtype=L.float64)),
    "index_put_ accumulate": lambda L, x: x.index_put_((_t(L, [0, 0]),), _t(L, B[:2]), accumulate=True),
    "index_put_ mask": lambda L, x: x.index_put_((_t(L, MASK),), L.tensor(5.0, dtype=L.float64)),
    "masked_fill_": lambda L, x: x.masked_fill_(x > 0, 0),
    "masked_scatter_": lambda L, x: x.masked_scatter_(_t(L, MASK), _t(L, B)),
    "put_": lambda L, x: x.put_(_t(L, [1, -1]), _t(L, B[0, :2]), accumulate=True),
    "tril_": lambda L, x: x.tril_(),
    "triu_": lambda L, x: x.triu_(1),
}


@needs_torch
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_equals_pytorch(name):
    results = []
    for L in (jtorch, torch):
        leaf = L.tensor(A, requires_grad=True)
        x = leaf * 1
        out = IN_PLACE[name](L, x)
        assert out is x
        (x * x).sum().backward()
        results.append((x.detach().numpy(), leaf.grad.numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-12)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-12)


ERRORS = {
    "gather range": lambda L, x: x.gather(1, L.tensor([[5]])),
    "gather negative": lambda L, x: x.gather(1, L.tensor([[-1]])),
    "gather dtype": lambda L, x: x.gather(1, L.tensor([[1.0]])),
    "gather dims": lambda L, x: x.gather(0, L.tensor([0])),
    "gather shape": lambda L, x: x.gather(1, L.zeros(4, 1, dtype=L.int64)),
    "scatter range": lambda L, x: x.scatter(0, L.tensor([[7]]), x),
    "scatter dtype": lambda L, x: x.scatter(0, L.tensor([[0]]), x.float()),
    "scatter index dtype": lambda L, x: x.scatter(0, L.tensor([[0.0]]), x),
    "scatter shape": lambda L, x: x.scatter(0, L.zeros(3, 9, dtype=L.int64), x),
    "scatter dims": lambda L, x: x.scatter(0, L.tensor([0]), x),
    "scatter reduce": lambda L, x: x.scatter(0, L.tensor([[0]]), 2.0, reduce="foo"),
    "scatter_add range": lambda L, x: x.scatter_add(0, L.tensor([[-1]]), x),
    "scatter_reduce": lambda L, x: x.scatter_reduce(0, L.tensor([[0]]), x, "foo"),
    "index_select range": lambda L, x: x.index_select(0, L.tensor([5])),
    "index_select negative": lambda L, x: x.index_select(0, L.tensor([-1])),
    "index_select dtype": lambda L, x: x.index_select(0, L.tensor([1.0])),
    "index_select dims": lambda L, x: x.index_select(0, L.tensor([[1]])),
    "index_add range": lambda L, x: x.index_add(0, L.tensor([9]), x[:1]),
    "index_add count": lambda L, x: x.index_add(0, L.tensor([0]), x),
    "index_add shape": lambda L, x: x.index_add(0, L.tensor([0, 1, 2]), x[:, :2]),
    "index_add dtype": lambda L, x: x.index_add(0, L.tensor([0, 1, 2]), x.float()),
    "index_copy range": lambda L, x: x.index_copy(0, L.tensor([9]), x[:1]),
    "index_copy count": lambda L, x: x.index_copy(0, L.tensor([0]), x),
    "index_copy shape": lambda L, x: x.index_copy(0, L.tensor([0, 1, 2]), x[:, :2]),
    "index_fill value": lambda L, x: x.index_fill(0, L.tensor([0]), x[0]),
    "index_fill row of one": lambda L, x: x.index_fill(0, L.tensor(0), x[0, :1]),
    "take range": lambda L, x: x.take(L.tensor([12])),
    "take dtype": lambda L, x: x.take(L.tensor([1.0])),
    "put count": lambda L, x: x.put_(L.tensor([1]), x[0]),
    "masked_fill dtype": lambda L, x: x.masked_fill((x > 0).int(), 1.0),
    "masked_fill value": lambda L, x: x.masked_fill(x > 0, x[0]),
    "masked_select": lambda L, x: x.masked_select((x > 0).int()),
    "masked_scatter": lambda L, x: x.masked_scatter(x > -9, x[0]),
    "where": lambda L, x: L.where(x, x, x),
    "where shapes": lambda L, x: L.where(x > 0, x, x[:, :3]),
}


@needs_torch
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_pytorchs(name):
    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)) as theirs:
        ERRORS[name](torch, torch.tensor(A))
    with pytest.raises(theirs.type) as ours:
        ERRORS[name](jtorch, jtorch.tensor(A))
    assert str(ours.value) == str(theirs.value).partition("\nException raised")[0]


# -- without PyTorch -------------------------------------------------------------------------------


def test_second_derivative_of_a_product_with_two_zeros_is_not_finite():
    x = jtorch.ones(1, dtype=jtorch.float64)
    v = jtorch.zeros(2, dtype=jtorch.float64, requires_grad=True)
    out = x.scatter_reduce(0, jtorch.tensor([0, 0]), v, "prod")
    (g,) = jtorch.autograd.grad(out.sum(), v, create_graph=True)
    assert g.tolist() == [0.0, 0.0]
    (again,) = jtorch.autograd.grad(g.sum(), v)
    assert not np.isfinite(again.numpy()).any()


def test_compiled_equals_eager():
    def step(x, y, places):
        z = x.scatter_add(0, places, y).gather(0, places)
        w = x.scatter_reduce(0, places, y, "amax").index_select(1, places[0])
        return z * w[:2] + x.index_fill(0, places[0, :1], 2.0)[:2]

    leaves = [jtorch.tensor(a, requires_grad=True) for a in (A, B)]
    places = jtorch.tensor(PLACES)
    expected = jtorch.autograd.grad(step(*leaves, places).sum(), leaves)

    @jtorch.compile
    def compiled(x, y, places):
        return jtorch.autograd.grad(step(x, y, places).sum(), [x, y])

    for a, b in zip(compiled(*leaves, places), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_a_value_filled_in_twice_at_a_place_gets_its_gradient_once() -> None:
    value, x = jtorch.tensor(1.0, requires_grad=True), jtorch.zeros(2, 3, requires_grad=True)
    out = x.index_fill(0, jtorch.tensor([0, -2, 0]), value)
    out.sum().backward()
    assert out.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert value.grad.item() == 3 and x.grad.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert jtorch.zeros(3).index_fill(0, jtorch.tensor([], dtype=jtorch.int64), 4).tolist() == [0, 0, 0]
    assert jtorch.zeros(3).index_fill_(0, jtorch.tensor(1, dtype=jtorch.int32), 4).tolist() == [0, 4, 0]
    with pytest.raises(IndexError):
        jtorch.zeros(2).index_fill(0, jtorch.tensor([2]), 1)


DTYPES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
)  # fmt: skip


def _members(library, dtype, values):
    kept = values if "float" in dtype else [int(v) for v in values if v == v]
    return library.tensor(kept).to(getattr(library, dtype))


@needs_torch
@pytest.mark.parametrize("many", [1, 2, 20])
def test_membership_is_asked_in_the_common_dtype(many):
    values, among = [1, 3.5, math.nan, 16777217, 16777216, -5, 2049, 2048], [2048, 16777216, 3.3, math.nan, 1]
    for a, b in itertools.product(DTYPES, repeat=2):
        theirs, ours = (
            library.isin(_members(library, a, values), _members(library, b, (among * 20)[:many])).tolist()
            for library in (torch, jtorch)
        )
        assert ours == theirs, (a, b)
    for one, dtype in itertools.product((0.1, 2049, 16777217), DTYPES):
        theirs, ours = (
            library.isin(one, _members(library, dtype, (values + [0.1]) * many)).tolist()
            for library in (torch, jtorch)
        )
        assert ours == theirs, (one, dtype)


@pytest.mark.parametrize("compiled", [False, True])
def test_membership_in_float32(compiled):
    def step(x, y):
        return jtorch.isin(x, y)

    function = jtorch.compile(step) if compiled else step
    assert function(jtorch.tensor([16777217, 3]), jtorch.tensor([16777216.0])).tolist() == [True, False]


def _of_no_places(L):
    """An empty index made without a dtype, which is one of floats."""
    x, none = L.ones(3), L.ones(0)
    return [
        found.tolist()
        for found in (
            L.gather(x, 0, none), x.scatter(0, none, none), x.scatter_add(0, none, none),
            x.scatter_reduce(0, none, none, "sum"),
        )
    ]  # fmt: skip


def test_an_index_without_places_may_be_one_of_floats():
    assert _of_no_places(jtorch) == [[], [1.0] * 3, [1.0] * 3, [1.0] * 3]
    if HAS_TORCH:
        assert _of_no_places(jtorch) == _of_no_places(torch)
    with pytest.raises(RuntimeError, match="Expected dtype int32/int64 for index"):
        jtorch.gather(jtorch.ones(3), 0, jtorch.ones(1))


INF, NAN = math.inf, math.nan
SHARES = {  # what two elements sent to place 0 of [2, 5] get of its gradient, and the start
    ("amax", False, (-INF, -INF)): ([0.5, 0.5], [0.0, 2.0]),
    ("amax", False, (INF, INF)): ([0.5, 0.5], [0.0, 2.0]),
    ("amax", False, (-INF, 1.0)): ([0.0, 1.0], [0.0, 2.0]),
    ("amin", False, (INF, INF)): ([0.5, 0.5], [0.0, 2.0]),
    ("amin", False, (-INF, -INF)): ([0.5, 0.5], [0.0, 2.0]),
    ("amax", True, (-INF, -INF)): ([0.0, 0.0], [1.0, 2.0]),
    ("amin", True, (2.0, INF)): ([0.5, 0.0], [0.5, 2.0]),
    ("amax", False, (NAN, 1.0)): ([NAN, NAN], [0.0, 2.0]),
    ("amax", True, (NAN, NAN)): ([NAN, NAN], [NAN, 2.0]),
}


def _shares(L, name, reduce, include_self, values, wrap=lambda f: f):
    def run(start, sent):
        at = L.tensor([0, 0])
        return getattr(L, name)(start, 0, at, sent, reduce, include_self=include_self)

    start, sent = L.tensor([2.0, 5.0], requires_grad=True), L.tensor(values, requires_grad=True)
    wrap(run)(start, sent).backward(L.tensor([1.0, 2.0]))
    return sent.grad.tolist(), start.grad.tolist()


@pytest.mark.filterwarnings("ignore:index_reduce")
@each("name", ["scatter_reduce", "index_reduce"])
@each("case", SHARES)
def test_a_start_that_takes_no_part_has_no_share_of_a_gradient(name, case):
    np.testing.assert_array_equal(_shares(jtorch, name, *case), SHARES[case])
    np.testing.assert_array_equal(_shares(jtorch, name, *case, wrap=jtorch.compile), SHARES[case])
    if HAS_TORCH:
        np.testing.assert_array_equal(_shares(torch, name, *case), SHARES[case])


def test_a_start_that_equals_the_extreme_has_none_either():  # PyTorch counts it: 1 / 3 each
    assert _shares(jtorch, "scatter_reduce", "amax", False, (2.0, 2.0)) == ([0.5, 0.5], [0.0, 2.0])


@pytest.mark.filterwarnings("ignore:index_reduce")
@each("name", ["scatter_reduce", "index_reduce"])
@each("start", ["inf", "nan"])
def test_the_gradient_of_a_product_with_two_zeros_and_what_is_not_finite_is_nan(name, start):
    def gradient(L):
        x, zeros = L.tensor([float(start), 1.0]), L.zeros(2, requires_grad=True)
        getattr(L, name)(x, 0, L.tensor([0, 0]), zeros, "prod")[0].backward()
        return zeros.grad.numpy()

    assert np.isnan(gradient(jtorch)).all()
    if HAS_TORCH:
        assert np.isnan(gradient(torch)).all()
