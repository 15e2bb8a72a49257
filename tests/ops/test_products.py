"""Products, einsum and contractions against PyTorch: values, gradients, error sentences."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jtorch
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)


def _r(*shape):
    return RNG.standard_normal(shape)


A, B, SQUARE, CUBE, CUBE2 = _r(2, 3), _r(3, 4), _r(3, 3), _r(2, 3, 4), _r(2, 4, 3)
U, V, SCALAR = _r(3), _r(3), np.array(1.5)
NANS = np.full((2, 4), np.nan)


def _einsum(equation):
    return lambda L, *t: L.einsum(equation, *t)


CALLS = {
    "mm": (lambda L, x, y: L.mm(x, y), [A, B]),
    "mm ints": (lambda L, x: x.mm(x), [RNG.integers(-3, 3, (3, 3))]),
    "bmm": (lambda L, x, y: L.bmm(x, y), [CUBE, CUBE2]),
    "mv": (lambda L, x, y: L.mv(x, y), [A, U]),
    "dot": (lambda L, x, y: L.dot(x, y), [U, V]),
    "vdot": (lambda L, x, y: x.vdot(y), [U, V]),
    "inner": (lambda L, x, y: L.inner(x, y), [A, CUBE2]),
    "inner vectors": (lambda L, x, y: L.inner(x, y), [U, V]),
    "inner number": (lambda L, x, y: x.inner(y), [SCALAR, V]),
    "outer": (lambda L, x, y: L.outer(x, y), [U, B[0]]),
    "ger": (lambda L, x, y: L.ger(x, y), [U, V]),
    "matmul broadcast": (lambda L, x, y: x @ y, [_r(3, 1, 2, 4), CUBE2]),
    "matmul vector": (lambda L, x, y: L.matmul(x, y), [CUBE, B[0]]),
    "matmul vector left": (lambda L, x, y: y @ x, [CUBE, U]),
    "matmul vectors": (lambda L, x, y: x @ y, [U, V]),
    "matmul empty": (lambda L, x, y: x @ y, [np.zeros((0, 3)), B]),
    "matmul nothing inside": (lambda L, x, y: x @ y, [np.zeros((2, 0)), np.zeros((0, 4))]),
    "addmm": (lambda L, b, x, y: L.addmm(b, x, y, beta=0.5, alpha=2), [B[:1], A, B]),
    "addmm beta 0": (lambda L, b, x, y: L.addmm(b.detach(), x, y, beta=0), [NANS, A, B]),
    "addmv": (lambda L, b, x, y: L.addmv(b, x, y, alpha=-1), [A[:, 0].copy(), A, U]),
    "addr": (lambda L, b, x, y: b.addr(x, y, beta=3), [SQUARE, U, V]),
    "addbmm": (lambda L, b, x, y: L.addbmm(b, x, y, beta=2, alpha=3), [SQUARE, CUBE, CUBE2]),
    "baddbmm": (lambda L, b, x, y: b.baddbmm(x, y, beta=2), [SQUARE[None].repeat(2, 0), CUBE, CUBE2]),
    "tensordot": (lambda L, x, y: L.tensordot(x, y, 1), [CUBE, _r(4, 5)]),
    "tensordot 0": (lambda L, x, y: L.tensordot(x, y, dims=0), [A, U]),
    "tensordot lists": (lambda L, x, y: L.tensordot(x, y, ([1, 2], [2, 1])), [CUBE, CUBE2]),
    "tensordot broadcast": (lambda L, x, y: L.tensordot(x, y, ([1], [0])), [A, _r(1, 2)]),
    "kron": (lambda L, x, y: L.kron(x, y), [A, CUBE2]),
    "kron vectors": (lambda L, x, y: x.kron(y), [U, SCALAR]),
    "cross": (lambda L, x, y: L.cross(x, y, dim=1), [A, A[::-1].copy()]),
    "cross default": (lambda L, x, y: x.cross(y), [B, B[:, ::-1].copy()]),
    "linalg.cross": (lambda L, x, y: L.linalg.cross(x, y), [A, SQUARE[:1].copy()]),
    "trace": (lambda L, x: x.trace(), [A]),
    "trace ints": (lambda L, x: L.trace(x), [RNG.integers(-3, 3, (3, 3)).astype(np.int32)]),
    "chain_matmul": (lambda L, x, y, z: L.linalg.multi_dot([x, y, z]), [A, B, _r(4, 1)]),
    "multi_dot": (lambda L, x, y, z, w: L.linalg.multi_dot((x, y, z, w)), [U, B, _r(4, 5), _r(5)]),
    "matrix_power": (lambda L, x: L.matrix_power(x, 5), [SQUARE]),
    "matrix_power 0": (lambda L, x: x.detach().matrix_power(0), [SQUARE]),
    "matrix_power -2": (lambda L, x: L.linalg.matrix_power(x, -2), [SQUARE]),
    "vecdot": (lambda L, x, y: L.linalg.vecdot(x, y, dim=0), [SQUARE, U]),
    "einsum mm": (_einsum("ij,jk->ik"), [A, B]),
    "einsum implicit": (_einsum("ij,jk"), [A, B]),
    "einsum implicit case": (_einsum("bA,Ac"), [A, B]),
    "einsum transposed": (_einsum("ij,jk->ki"), [A, B]),
    "einsum sum": (_einsum("ij->"), [A]),
    "einsum axis": (_einsum("ijk->j"), [CUBE]),
    "einsum diagonal": (_einsum("ii->i"), [SQUARE]),
    "einsum trace": (_einsum("ii"), [SQUARE]),
    "einsum inner diagonal": (_einsum("iij,j->i"), [_r(3, 3, 4), B[0]]),
    "einsum batch": (_einsum("bij,bjk->bik"), [CUBE, CUBE2]),
    "einsum ellipsis": (_einsum("...ij,...jk->...ik"), [_r(3, 1, 2, 4), CUBE2]),
    "einsum ellipsis summed": (_einsum("...i->i"), [CUBE]),
    "einsum ellipsis of none": (_einsum("...i,i->...i"), [U, V]),
    "einsum implicit ellipsis": (_einsum("i...,i..."), [U, SQUARE]),
    "einsum outer": (_einsum("i,j->ij"), [U, V]),
    "einsum hadamard": (_einsum("ij,ij->ij"), [SQUARE, SQUARE]),
    "einsum size 1": (_einsum("ij,jk->ik"), [_r(2, 1), B]),
    "einsum size 1 batch": (_einsum("bij,bjk->bik"), [CUBE[:1], CUBE2]),
    "einsum three": (_einsum("ij,jk,kl->il"), [A, B, _r(4, 2)]),
    "einsum bilinear": (_einsum("bn,anm,bm->ba"), [A, _r(5, 3, 4), _r(2, 4)]),
    "einsum number": (_einsum(",ij->ij"), [SCALAR, A]),
    "einsum list": (lambda L, x, y: L.einsum("ij,jk->ik", [x, y]), [A, B]),
    "einsum sublists": (lambda L, x, y: L.einsum(x, [0, 1], y, [1, 2], [2, 0]), [A, B]),
    "einsum sublists implicit": (lambda L, x, y: L.einsum(x, [..., 1], y, [1, 30]), [CUBE, _r(4, 2)]),
    "einsum spaces": (_einsum(" i j , j k -> i k"), [A, B]),
    "einsum empty": (_einsum("ij,jk->ik"), [np.zeros((2, 0)), np.zeros((0, 4))]),
    "einsum ints": (_einsum("i,i->"), [np.arange(3), np.arange(3)]),
    "einsum attention": (_einsum("bhqd,bhkd->bhqk"), [_r(2, 2, 3, 4), _r(2, 2, 5, 4)]),
}  # fmt: skip


@needs_torch
@pytest.mark.filterwarnings("ignore:Using torch.cross without:UserWarning")
@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, rtol=1e-11, atol=1e-11)


def _o(L, *shape):
    return L.ones(*shape)


ERRORS = {
    "mm": lambda L: L.mm(_o(L, 2, 3), _o(L, 2, 3)),
    "mm of rows": lambda L: L.mm(_o(L, 1, 10_000), _o(L, 1, 10_000)),
    "matmul of rows": lambda L: _o(L, 1, 10_000).long() @ _o(L, 1, 10_000).long(),
    "matmul of a vector": lambda L: _o(L, 10_000) @ _o(L, 100, 100),
    "dot of whole runs": lambda L: L.dot(_o(L, 16_384), _o(L, 8192)),
    "linear": lambda L: L.nn.functional.linear(_o(L, 1, 10_000), _o(L, 1, 5000)),
    "linear bias": lambda L: L.nn.functional.linear(_o(L, 1, 100), _o(L, 1, 100), _o(L, 2)),
    "linear bias of a vector": lambda L: L.nn.functional.linear(_o(L, 3), _o(L, 1, 3), _o(L, 7)),
    "linear bias of matrices": lambda L: L.nn.functional.linear(_o(L, 2, 5, 3), _o(L, 1, 3), _o(L, 4)),
    "mm 1-d": lambda L: L.mm(_o(L, 2), _o(L, 2, 3)),
    "mm dtype": lambda L: _o(L, 2, 3) @ _o(L, 3, 2).long(),
    "mm bool": lambda L: L.mm(_o(L, 2, 2).bool(), _o(L, 2, 2).bool()),
    "bmm 2-d": lambda L: L.bmm(_o(L, 2, 3), _o(L, 2, 3)),
    "bmm": lambda L: L.bmm(_o(L, 2, 3, 4), _o(L, 2, 3, 4)),
    "mv": lambda L: L.mv(_o(L, 2, 3), _o(L, 2)),
    "mv dims": lambda L: L.mv(_o(L, 2), _o(L, 2)),
    "dot": lambda L: L.dot(_o(L, 2), _o(L, 3)),
    "dot dims": lambda L: L.dot(_o(L, 2, 2), _o(L, 2)),
    "dot dtype": lambda L: L.dot(_o(L, 2), _o(L, 2).double()),
    "outer": lambda L: L.outer(_o(L, 2, 2), _o(L, 2)),
    "inner": lambda L: L.inner(_o(L, 2, 3), _o(L, 2, 4)),
    "addmm": lambda L: L.addmm(_o(L, 5), _o(L, 2, 3), _o(L, 3, 2)),
    "addmv": lambda L: L.addmv(_o(L, 2), _o(L, 2, 3), _o(L, 2)),
    "addbmm": lambda L: L.addbmm(_o(L, 3, 3), _o(L, 2, 3, 4), _o(L, 2, 5, 3)),
    "baddbmm": lambda L: L.baddbmm(_o(L, 7), _o(L, 2, 3, 4), _o(L, 2, 4, 3)),
    "addr": lambda L: L.addr(_o(L, 5, 5), _o(L, 2), _o(L, 2)),
    "matmul vectors": lambda L: _o(L, 2) @ _o(L, 3),
    "matmul vector": lambda L: _o(L, 2) @ _o(L, 3, 2),
    "matmul batch": lambda L: _o(L, 2, 3, 4) @ _o(L, 3, 4, 5),
    "matmul 0-d": lambda L: L.matmul(L.tensor(1.0), _o(L, 2)),
    "tensordot": lambda L: L.tensordot(_o(L, 2, 3), _o(L, 2, 3), 1),
    "tensordot lists": lambda L: L.tensordot(_o(L, 2, 3), _o(L, 2, 3), ([0, 1], [0])),
    "cross": lambda L: L.cross(_o(L, 2, 2), _o(L, 2, 2)),
    "linalg.cross": lambda L: L.linalg.cross(_o(L, 2, 2), _o(L, 2, 2)),
    "trace": lambda L: L.trace(_o(L, 2)),
    "matrix_power": lambda L: L.matrix_power(_o(L, 2, 3), 2),
    "multi_dot": lambda L: L.linalg.multi_dot([_o(L, 2, 3), _o(L, 2, 2), _o(L, 2, 3)]),
    "multi_dot one": lambda L: L.linalg.multi_dot([_o(L, 2, 3)]),
    "einsum few": lambda L: L.einsum("ij,jk->ik", _o(L, 2, 3)),
    "einsum many": lambda L: L.einsum("ij->i", _o(L, 2, 3), _o(L, 2)),
    "einsum dims": lambda L: L.einsum("ijk->i", _o(L, 2, 3)),
    "einsum sizes": lambda L: L.einsum("ij,jk->ik", _o(L, 2, 3), _o(L, 4, 2)),
    "einsum output": lambda L: L.einsum("ij->k", _o(L, 2, 3)),
    "einsum diagonal": lambda L: L.einsum("ii->i", _o(L, 2, 3)),
    "einsum twice": lambda L: L.einsum("ij->ii", _o(L, 2, 3)),
    "einsum letter": lambda L: L.einsum("i1->i", _o(L, 2, 3)),
    "einsum dot": lambda L: L.einsum("i.->i", _o(L, 2, 3)),
    "einsum two ellipses": lambda L: L.einsum("...i...->i", _o(L, 2, 3)),
}


@needs_torch
@pytest.mark.filterwarnings("ignore:Using torch.cross without:UserWarning")
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_pytorchs(name):
    with pytest.raises((RuntimeError, NotImplementedError)) as theirs:
        ERRORS[name](torch)
    with pytest.raises(theirs.type) as ours:
        ERRORS[name](jtorch)
    assert str(ours.value) == str(theirs.value).partition("\nException raised")[0]


# Of as many elements, or of parts of them, so that it is not their number that tells what fits.
_VECTORS = ((1,), (2,), (100,), (5000,), (8192,), (10_000,), (16_384,))
_MATRICES = ((1, 10_000), (10_000, 1), (100, 100), (2, 5000))
_SIZED = {1: _VECTORS, 2: _MATRICES, 3: tuple((k, *s) for k in (1, 2) for s in _MATRICES)}

PAIRS = {
    "mm": (2, 2), "mv": (2, 1), "dot": (1, 1), "vdot": (1, 1), "bmm": (3, 3), "matmul": (None, None),
    "inner": (None, None), "nn.functional.linear": (None, 2), "addmm": (2, 2, 2), "addmv": (1, 2, 1),
    "addr": (2, 1, 1), "baddbmm": (3, 3, 3), "addbmm": (2, 3, 3),
    "einsum ij,jk->ik": (2, 2), "einsum ij,kj->ik": (2, 2), "einsum i,i": (1, 1), "einsum ij,ij->": (2, 2),
}  # fmt: skip


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("name", PAIRS)
def test_large_shapes_fit_where_they_do_in_pytorch(name):
    def run(L, make):
        path, _, equation = name.partition(" ")
        function = operator.attrgetter(path)(L)
        try:
            return tuple(function(*([equation] if equation else []), *map(make, shapes)).shape)
        except RuntimeError:
            return None

    choices = [_SIZED[n] if n else _VECTORS + _MATRICES + _SIZED[3] for n in PAIRS[name]]
    for shapes in itertools.product(*choices):
        if any(math.prod(x) * math.prod(y) > 1e8 for x, y in itertools.combinations(shapes, 2)):
            continue
        large = run(torch, lambda s: torch.ones(s, device="meta"))
        if large is None or math.prod(large) <= 1e6:
            assert run(jtorch, jtorch.ones) == run(torch, torch.ones), shapes


BIASES = {
    "rows": ((2, 5, 3), (4, 3), (10, 4)), "more axes": ((5, 3), (4, 3), (1, 5, 4)),
    "a batch": ((2, 5, 3), (4, 3), (2, 1, 5, 4)), "a vector's": ((3,), (4, 3), (3, 4)),
    "a row of a vector's": ((3,), (1, 3), (1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", BIASES)
def test_a_bias_never_gives_a_linear_layer_more_rows(name, compiled):
    linear = jtorch.compile(jtorch.nn.functional.linear) if compiled else jtorch.nn.functional.linear
    with pytest.raises(RuntimeError, match="expand"):
        linear(*(jtorch.ones(s) for s in BIASES[name]))
    fitting = linear(jtorch.ones(2, 5, 3), jtorch.ones(4, 3), jtorch.ones(5, 1))
    assert fitting.shape == (2, 5, 4) and (fitting == 4).all()


# -- without PyTorch -------------------------------------------------------------------------------

_SIZES = dict(zip("abcde", (2, 3, 1, 4, 2), strict=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abcde", max_size=3), min_size=1, max_size=4), st.randoms())
def test_einsum_equals_numpys(terms, random):
    used = sorted({letter for term in terms for letter in term})
    output = random.sample(used, random.randint(0, len(used)))
    equation = f"{','.join(terms)}->{''.join(output)}"
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal([_SIZES[s] for s in term]) for term in terms]
    found = jtorch.einsum(equation, *map(jtorch.tensor, arrays)).numpy()
    np.testing.assert_allclose(found, np.einsum(equation, *arrays), rtol=1e-10, atol=1e-10)


def test_chain_takes_the_cheapest_order():
    sizes = (40, 1, 40, 1)
    matrices = [jtorch.ones(n, m, requires_grad=True) for n, m in itertools.pairwise(sizes)]
    out = jtorch.linalg.multi_dot(matrices)
    left, right = (edge[0] for edge in out.grad_fn.next_functions)
    assert left.name() == "AccumulateGrad"  # a (b c): the middle product is one number
    assert right.name() == "MmBackward0"


def test_compiled_equals_eager():
    def step(x, y, z):
        return jtorch.einsum("bij,bjk->ik", x, y).matmul(z) + jtorch.kron(z, z)[:3, :3].trace()

    leaves = [jtorch.tensor(a, requires_grad=True) for a in (CUBE, CUBE2, SQUARE)]
    expected = jtorch.autograd.grad(step(*leaves).sum(), leaves)

    @jtorch.compile
    def compiled(*leaves):
        return jtorch.autograd.grad(step(*leaves).sum(), leaves)

    for a, b in zip(compiled(*leaves), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_factors_of_integer_products_lose_their_fractions() -> None:
    vector, matrix, batch = jtorch.tensor([10]), jtorch.tensor([[10]]), jtorch.tensor([[[10]]])
    half = {"beta": 0.5, "alpha": 1.5}
    for found in (
        jtorch.addmv(vector, jtorch.tensor([[3]]), jtorch.tensor([5]), **half),
        jtorch.addmm(matrix, jtorch.tensor([[3]]), jtorch.tensor([[5]]), **half),
        jtorch.baddbmm(batch, jtorch.tensor([[[3]]]), jtorch.tensor([[[5]]]), **half),
        jtorch.addbmm(matrix, jtorch.tensor([[[3]]]), jtorch.tensor([[[5]]]), **half),
    ):
        assert found.dtype is jtorch.int64 and found.item() == 15
    with pytest.raises(RuntimeError, match="argument beta must not be a floating point number"):
        jtorch.addr(matrix, jtorch.tensor([3]), jtorch.tensor([5]), **half)
    assert jtorch.addr(matrix, jtorch.tensor([3]), jtorch.tensor([5]), beta=2, alpha=3).item() == 65
    assert jtorch.addmv(vector.float(), jtorch.tensor([[3.0]]), jtorch.tensor([5.0]), **half).item() == 27.5


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((200, 200), (150, 200)), ((200, 150), (200, 200)), ((3001,), (3000, 3000)), ((3000, 3000), (3001,)),
        ((4, 300, 301), (300, 300)), ((4, 300, 300), (4, 299, 300)), ((4, 300, 300), (3, 300, 300)),
    ],
    ids=str,
)  # fmt: skip
def test_large_factors_that_do_not_match_are_refused(x, y, dtype):
    """By their sizes, before anything reads beyond them."""
    dtype = getattr(jtorch, dtype)
    with pytest.raises(RuntimeError):
        jtorch.ones(x, dtype=dtype) @ jtorch.ones(y, dtype=dtype)


def test_a_weight_without_rows_gives_one_number_for_each_input():
    weight = jtorch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for shape in ((3,), (2, 3), (4, 2, 3)):
        x = jtorch.ones(*shape).requires_grad_()
        weight.grad = None

        def step(x):
            out = jtorch.nn.functional.linear(x, weight)
            out.sum().backward()
            return out

        for wrapped in (step, jtorch.compile(step, mode="interpret")):
            x.grad = weight.grad = None
            out = wrapped(x)
            assert out.shape == shape[:-1] and (out == 6.0).all()
            assert (x.grad == weight.detach()).all() and x.grad.shape == x.shape
            assert weight.grad.tolist() == [x.numel() / 3] * 3
    with pytest.raises(RuntimeError, match="mat2 must be a matrix, got 1-D tensor"):
        jtorch.nn.functional.linear(jtorch.ones(2, 3), weight, jtorch.ones(1))


FACTORED = {
    "addmm": lambda L, m, **f: L.addmm(m, m, m, **f),
    "addmv": lambda L, m, **f: L.addmv(m[0], m, m[0], **f),
    "addr": lambda L, m, **f: L.addr(m, m[0], m[1], **f),
    "baddbmm": lambda L, m, **f: L.baddbmm(m[None], m[None], m[None], **f),
    "addbmm": lambda L, m, **f: L.addbmm(m, m[None], m[None], **f),
    "index_add": lambda L, m, **f: m.index_add(0, L.tensor([1]), m[:1], **f),
}
FACTORS = ({"beta": 2.0, "alpha": 0.5}, {"beta": 0.0}, {"alpha": 3})


def _factored(L, name, factors, wrap=lambda f: f):
    m = L.tensor([[1.0, 2.0], [3.0, -1.0]])
    given = {k: L.tensor(v) for k, v in factors.items() if name != "index_add" or k == "alpha"}
    run = wrap(lambda m, **given: FACTORED[name](L, m, **given))
    return run(m, **given)


@pytest.mark.parametrize("name", FACTORED)
def test_factors_may_be_tensors_of_one_number(name):
    for factors in FACTORS:
        plain = {k: v for k, v in factors.items() if name != "index_add" or k == "alpha"}
        expected = FACTORED[name](jtorch, jtorch.tensor([[1.0, 2.0], [3.0, -1.0]]), **plain)
        for wrap in (lambda f: f, jtorch.compile):
            found = _factored(jtorch, name, factors, wrap)
            assert (found.dtype, found.tolist()) == (jtorch.float32, expected.tolist())
        if HAS_TORCH:
            assert found.tolist() == _factored(torch, name, factors).tolist()


@pytest.mark.parametrize("name", FACTORED)
def test_other_tensors_are_no_factors(name):
    m = jtorch.ones(2, 2)
    for factor in (jtorch.tensor([2.0]), jtorch.tensor(2.0, requires_grad=True)):
        for wrap in (lambda f: f, jtorch.compile):
            with pytest.raises(TypeError, match="argument 'alpha' must be Number, not Tensor"):
                wrap(lambda m, factor: FACTORED[name](jtorch, m, alpha=factor))(m, factor)
