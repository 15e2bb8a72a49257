"""``jtorch.linalg`` against PyTorch: values, gradients, error sentences; and against its own definitions.

Eigenvectors and singular vectors are compared by what does not depend on their signs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch.autograd import gradcheck, gradgradcheck
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)


def _r(*shape):
    return RNG.standard_normal(shape)


REGULAR = _r(3, 3) + 3 * np.eye(3)
BATCH = _r(2, 1, 3, 3) + 3 * np.eye(3)
POSITIVE = BATCH @ BATCH.swapaxes(-2, -1)
SYMMETRIC = POSITIVE[0, 0]
SINGULAR = np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0])
TALL, WIDE = _r(2, 4, 3), _r(2, 2, 4)
RIGHT, VECTOR = _r(3, 2), _r(3)
ORDERS = [None, "fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2]


def _projector(x):
    return x @ x.mT


CALLS = {
    "inv": (lambda L, x: L.linalg.inv(x), [BATCH]),
    "inverse": (lambda L, x: x.inverse(), [REGULAR]),
    "inv empty": (lambda L, x: L.linalg.inv(x), [np.zeros((2, 0, 0))]),
    "inv_ex": (lambda L, x: L.linalg.inv_ex(x), [BATCH]),
    "det": (lambda L, x: L.det(x), [BATCH]),
    "det singular": (lambda L, x: L.linalg.det(x), [SINGULAR]),
    "det rank 2": (lambda L, x: L.linalg.det(x), [SINGULAR + np.outer(VECTOR, VECTOR)]),
    "slogdet": (lambda L, x: L.slogdet(x), [-BATCH]),
    "logdet": (lambda L, x: x.logdet(), [POSITIVE]),
    "logdet negative": (lambda L, x: L.logdet(x.detach()), [-REGULAR]),
    "solve": (lambda L, a, b: L.linalg.solve(a, b), [REGULAR, RIGHT]),
    "solve vector": (lambda L, a, b: L.linalg.solve(a, b), [REGULAR, VECTOR]),
    "solve vectors": (lambda L, a, b: L.linalg.solve(a, b), [BATCH[:, 0].copy(), _r(2, 3)]),
    "solve broadcast": (lambda L, a, b: L.linalg.solve(a, b), [BATCH, _r(4, 3, 2)]),
    "solve right": (lambda L, a, b: L.linalg.solve(a, b, left=False), [REGULAR, RIGHT.T.copy()]),
    "solve_triangular": (lambda L, a, b: L.linalg.solve_triangular(a, b, upper=True), [REGULAR, RIGHT]),
    "solve_triangular lower right": (
        lambda L, a, b: L.linalg.solve_triangular(a, b, upper=False, left=False), [BATCH, RIGHT.T.copy()]
    ),
    "solve_triangular unit": (
        lambda L, a, b: L.linalg.solve_triangular(a, b, upper=False, unitriangular=True), [REGULAR, RIGHT]
    ),
    "cholesky": (lambda L, x: L.linalg.cholesky((x + x.mT) / 2), [POSITIVE]),
    "cholesky upper": (lambda L, x: L.linalg.cholesky((x + x.mT) / 2, upper=True), [POSITIVE]),
    "cholesky unsymmetric": (lambda L, x: L.linalg.cholesky(x), [SYMMETRIC + np.triu(np.ones((3, 3)), 1)]),
    "cholesky old": (lambda L, x: L.cholesky((x + x.mT) / 2), [POSITIVE]),
    "cholesky_solve": (lambda L, b, x: L.cholesky_solve(b, x.tril()), [RIGHT, np.tril(REGULAR)]),
    "cholesky_solve upper": (lambda L, b, x: b.cholesky_solve(x.triu(), upper=True), [RIGHT, REGULAR]),
    "cholesky_inverse": (lambda L, x: L.cholesky_inverse(x.tril()), [np.tril(REGULAR)]),
    "eigvalsh": (lambda L, x: L.linalg.eigvalsh((x + x.mT) / 2), [POSITIVE]),
    "eigvalsh upper": (lambda L, x: L.linalg.eigvalsh(x.detach(), UPLO="U"), [REGULAR]),
    "eigh values": (lambda L, x: L.linalg.eigh(x).eigenvalues, [SYMMETRIC]),
    "eigh vectors": (lambda L, x: _projector(L.linalg.eigh((x + x.mT) / 2)[1][..., :2]), [POSITIVE]),
    "svdvals": (lambda L, x: L.linalg.svdvals(x), [TALL]),
    "svdvals equal": (lambda L, x: L.linalg.svdvals(x).sum(), [np.eye(3)]),
    "eigh equal values": (lambda L, x: L.linalg.eigh(x)[0].pow(2).sum(), [2 * np.eye(3)]),
    "svd equal values": (lambda L, x: L.linalg.svd(x)[1].sum(), [2 * np.eye(3)]),
    "svd zeros": (lambda L, x: L.linalg.svd(x, full_matrices=False)[1].sum(), [np.zeros((3, 2))]),
    "svd": (lambda L, x: L.linalg.svd(x, full_matrices=False).S, [WIDE]),
    "svd left": (lambda L, x: _projector(L.linalg.svd(x, full_matrices=False).U[..., :1]), [TALL]),
    "svd right": (lambda L, x: _projector(L.linalg.svd(x, full_matrices=False).Vh.mT[..., :1]), [WIDE]),
    "svd full": (lambda L, x: L.linalg.svd(x).S, [TALL]),
    "svd old": (lambda L, x: _projector(x.svd().V[..., :1]), [WIDE]),
    "qr": (lambda L, x: L.linalg.qr(x), [TALL]),
    "qr wide": (lambda L, x: L.linalg.qr(x), [WIDE]),
    "qr square": (lambda L, x: L.qr(x), [REGULAR]),
    "qr complete": (lambda L, x: L.linalg.qr(x.detach(), "complete"), [TALL]),
    "qr r": (lambda L, x: L.linalg.qr(x.detach(), mode="r"), [TALL]),
    "lu_factor": (lambda L, x: L.linalg.lu_factor(x)[0], [BATCH]),
    "lu": (lambda L, x: L.linalg.lu(x)[1:], [BATCH]),
    "lu_factor tall": (lambda L, x: L.linalg.lu_factor(x)[0], [TALL]),
    "lu_factor wide": (lambda L, x: L.linalg.lu_factor(x)[0], [WIDE]),
    "lu tall": (lambda L, x: L.linalg.lu(x)[1:], [TALL]),
    "lu wide": (lambda L, x: L.linalg.lu(x)[1:], [WIDE]),
    "lu tall, rows exchanged": (lambda L, x: L.linalg.lu(x), [TALL]),
    "lu_solve": (lambda L, x, b: L.linalg.lu_solve(*L.linalg.lu_factor(x), b), [REGULAR, RIGHT]),
    "pinv": (lambda L, x: L.linalg.pinv(x), [TALL]),
    "pinv wide": (lambda L, x: x.pinverse(), [WIDE]),
    "pinv singular": (lambda L, x: L.linalg.pinv(x.detach()), [SINGULAR]),
    "pinv rtol": (lambda L, x: L.linalg.pinv(x.detach(), rtol=0.4), [TALL]),
    "pinv atol": (lambda L, x: L.linalg.pinv(x.detach(), atol=1.0), [TALL]),
    "matrix_rank": (lambda L, x: L.linalg.matrix_rank(x), [SINGULAR]),
    "matrix_rank batch": (lambda L, x: L.linalg.matrix_rank(x, atol=1.5), [TALL]),
    "matrix_rank hermitian": (lambda L, x: L.linalg.matrix_rank(x, hermitian=True), [POSITIVE]),
    "lstsq": (lambda L, a, b: L.linalg.lstsq(a, b).solution, [TALL, _r(2, 4, 1)]),
    "lstsq all": (lambda L, a, b: L.linalg.lstsq(a.detach(), b.detach())[1:3], [TALL, _r(2, 4, 1)]),
    "lstsq residuals": (lambda L, a, b: L.linalg.lstsq(a, b, driver="gels")[1], [TALL, _r(2, 4, 2)]),
    "lstsq gelsd": (
        lambda L, a, b: L.linalg.lstsq(a.detach(), b.detach(), driver="gelsd"), [TALL, _r(2, 4, 2)]
    ),
    "lstsq wide": (lambda L, a, b: L.linalg.lstsq(a, b)[0], [WIDE, _r(2, 2, 1)]),
    "matrix_exp": (lambda L, x: L.linalg.matrix_exp(x), [BATCH / 3]),
    "matrix_exp method": (lambda L, x: x.matrix_exp(), [REGULAR / 3]),
    "matrix_power 0": (lambda L, x: L.linalg.matrix_power(x, 0), [BATCH]),
    "matrix_power -2": (lambda L, x: L.linalg.matrix_power(x, -2), [BATCH]),
    "tensorinv": (lambda L, x: L.linalg.tensorinv(x, ind=1), [_r(6, 2, 3)]),
    "tensorsolve": (lambda L, x, y: L.linalg.tensorsolve(x, y), [_r(2, 3, 6), _r(2, 3)]),
    "diagonal": (lambda L, x: L.linalg.diagonal(x, offset=1), [TALL]),
    "vector_norm": (lambda L, x: L.linalg.vector_norm(x), [TALL]),
    "vector_norm dims": (lambda L, x: L.linalg.vector_norm(x, 3, (0, 2), keepdim=True), [TALL]),
    "vector_norm inf": (lambda L, x: L.linalg.vector_norm(x, math.inf, 1), [TALL]),
    "vector_norm 0": (lambda L, x: L.linalg.vector_norm(x.detach(), 0), [SINGULAR]),
    "vector_norm of zeros": (lambda L, x: L.linalg.vector_norm(x), [np.zeros(3)]),
    "norm": (lambda L, x: L.linalg.norm(x), [TALL]),
    "norm matrix": (lambda L, x: L.linalg.norm(x, 1), [REGULAR]),
    "norm vector": (lambda L, x: L.linalg.norm(x, 1), [VECTOR]),
    "norm dims": (lambda L, x: L.linalg.norm(x, "fro", (0, 1)), [TALL]),
} | {
    f"matrix_norm {p}": (lambda L, x, p=p: L.linalg.matrix_norm(x, p), [TALL]) for p in ORDERS[1:]
} | {
    f"matrix_norm {p} dims": (
        lambda L, x, p=p: L.linalg.matrix_norm(x, p, (0, -1), keepdim=True), [TALL]
    ) for p in ORDERS[1:]
} | {
    f"matrix_norm {p} of {shape}": (
        lambda L, x, p=p: (
            L.linalg.norm(x.detach(), p, (-2, -1)), L.linalg.matrix_norm(x.detach(), p, (1, 0), True),
        ),
        [np.zeros(shape)],
    )  # of some of them PyTorch 2.13 loses the graph
    for p in ("fro", "nuc", math.inf, 1, 2) for shape in ((0, 3), (3, 0), (0, 0))
} | {
    f"cond {p}": (lambda L, x, p=p: L.linalg.cond(x if p in (None, 2, -2) else x.detach(), p), [BATCH])
    for p in ORDERS  # in the other orders PyTorch 2.13 has no gradient: it writes over what it saved
}  # fmt: skip


@needs_torch
@pytest.mark.filterwarnings("ignore:torch.(cholesky|qr) is deprecated")
@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, rtol=1e-8, atol=1e-9)


BAD = {
    "singular": np.ones((2, 2)), "batch": np.stack([np.eye(2), np.ones((2, 2))]), "wide": np.ones((2, 3)),
    "vector": np.ones(3), "ints": np.ones((2, 2), np.int64), "negative": -np.eye(2),
    "nan": np.full((2, 2), np.nan),
}  # fmt: skip
FAILING = {
    "inv": lambda L, x: L.linalg.inv(x),
    "inverse": lambda L, x: L.inverse(x),
    "solve": lambda L, x: L.linalg.solve(x, L.ones(2, 1, dtype=x.dtype)),
    "cholesky": lambda L, x: L.linalg.cholesky(x),
    "cholesky old": lambda L, x: L.cholesky(x),
    "det": lambda L, x: L.linalg.det(x),
    "slogdet": lambda L, x: L.linalg.slogdet(x),
    "logdet": lambda L, x: L.logdet(x),
    "svd": lambda L, x: L.linalg.svd(x),
    "svdvals": lambda L, x: L.linalg.svdvals(x),
    "pinv": lambda L, x: L.linalg.pinv(x),
    "matrix_exp": lambda L, x: L.linalg.matrix_exp(x),
    "matrix_power": lambda L, x: L.linalg.matrix_power(x, -1),
    "eigvalsh": lambda L, x: L.linalg.eigvalsh(x),
    "cond": lambda L, x: L.linalg.cond(x, 1),
    "vector_norm": lambda L, x: L.linalg.vector_norm(x),
    "matrix_norm": lambda L, x: L.linalg.matrix_norm(x),
    "solve_triangular": lambda L, x: L.linalg.solve_triangular(x, L.ones(2, 1, dtype=x.dtype), upper=True),
}


@needs_torch
@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
@pytest.mark.parametrize(("name", "bad"), [(n, b) for n in FAILING for b in BAD if (n, b) != ("cond", "nan")])
def test_refuses_what_pytorch_refuses(name, bad):
    try:
        expected = FAILING[name](torch, torch.tensor(BAD[bad]))
    except RuntimeError as theirs:
        with pytest.raises(RuntimeError) as ours:
            FAILING[name](jtorch, jtorch.tensor(BAD[bad]))
        assert str(ours.value) == str(theirs)
        linear = type(theirs) is torch.linalg.LinAlgError
        assert isinstance(ours.value, jtorch.linalg.LinAlgError) == linear
        assert isinstance(ours.value, NotImplementedError) == isinstance(theirs, NotImplementedError)
    else:
        found = FAILING[name](jtorch, jtorch.tensor(BAD[bad]))
        if not isinstance(expected, tuple):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


# -- without PyTorch -------------------------------------------------------------------------------


def _leaf(array):
    return jtorch.tensor(array, requires_grad=True)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3)])
@pytest.mark.parametrize("name", ["svd", "qr", "lu"])
def test_factors_multiply_to_the_matrix(name, shape):
    x = jtorch.tensor(_r(*shape))
    if name == "svd":
        u, s, vh = jtorch.linalg.svd(x, full_matrices=False)
        product = (u * s.unsqueeze(-2)) @ vh
    elif name == "qr":
        q, r = jtorch.linalg.qr(x)
        product = q @ r
    else:
        p, low, up = jtorch.linalg.lu(x)
        product = p @ low @ up
    np.testing.assert_allclose(product.numpy(), x.numpy(), atol=1e-12)


def test_eigenvectors_diagonalise():
    values, vectors = jtorch.linalg.eigh(jtorch.tensor(SYMMETRIC))
    product = (vectors * values) @ vectors.mT
    np.testing.assert_allclose(product.numpy(), SYMMETRIC, atol=1e-12)


def test_inputs_without_a_gradient_get_none():
    a, b = jtorch.tensor(REGULAR), _leaf(RIGHT)
    jtorch.linalg.solve(a, b).sum().backward()
    assert a.grad is None
    np.testing.assert_allclose(b.grad.numpy(), np.linalg.solve(REGULAR.T, np.ones((3, 2))), rtol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jtorch.linalg.lstsq(x, jtorch.tensor(TALL[0, :, :1])).solution,
        lambda x: jtorch.linalg.norm(x, "nuc"),
        lambda x: jtorch.linalg.svd(x, full_matrices=False).U.abs(),
    ],
)
def test_composed_gradients(function):
    assert gradcheck(function, [_leaf(TALL[0])])
    assert gradgradcheck(function, [_leaf(TALL[0])])


def test_equal_values_of_which_the_vectors_are_not_used():
    """Nor are they where they are another result of a compiled function, of which no gradient comes."""
    leaf = _leaf(2 * np.eye(3))
    for function in (jtorch.linalg.eigh, jtorch.linalg.svd):
        compiled = jtorch.compile(lambda x, function=function: tuple(function(x)))
        values = next(part for part in compiled(leaf) if part.ndim == 1)
        (found,) = jtorch.autograd.grad(values.pow(2).sum(), leaf)
        np.testing.assert_allclose(found.numpy(), 4 * np.eye(3))
    (found,) = jtorch.autograd.grad(jtorch.linalg.eigh(leaf)[0].pow(2).sum(), leaf, create_graph=True)
    (second,) = jtorch.autograd.grad(found.diagonal().sum(), leaf)
    np.testing.assert_allclose(second.numpy(), 2 * np.eye(3))


GENERAL = {
    "largest": lambda L, a: L.linalg.eigvals(a).abs().max(),
    "products": lambda L, a: _of_conjugates(L.linalg.eigvals(a)),
    "vectors": lambda L, a: _of_both(*L.linalg.eig(a)),
}


def _of_conjugates(values):
    return (values * values.conj()).real.sum() + values.imag.abs().sum()


def _of_both(values, vectors):
    return (values.real**3).sum() + (vectors.abs() ** 3 * values.abs()[..., None, :]).sum()


@needs_torch
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", GENERAL)
def test_general_eigenvalues(name, dtype, shape):
    """Of what does not depend on the order of the values, nor on the phases of the vectors."""
    import torch

    random = np.random.default_rng(1)
    array = random.standard_normal(shape).astype(dtype)
    if dtype == "complex128":
        array = array + 1j * random.standard_normal(shape)
    found = []
    for library in (jtorch, torch):
        a = library.from_numpy(array.copy()).requires_grad_()
        out = GENERAL[name](library, a)
        out.backward()
        found.append((out.item(), a.grad.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-8, atol=1e-10)


def test_eigenvalues_of_what_is_not_finite():
    with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
        jtorch.linalg.eigvals(jtorch.tensor([[1.0, float("nan")], [0.0, 1.0]]))


def test_compiled_equals_eager():
    def step(a, b):
        x = jtorch.linalg.solve(a, b)
        low = jtorch.linalg.cholesky(a @ a.mT)
        return x.sum() + jtorch.linalg.slogdet(low)[1] + jtorch.linalg.svdvals(a).sum()

    leaves = [_leaf(REGULAR), _leaf(RIGHT)]
    expected = [step(*leaves), *jtorch.autograd.grad(step(*leaves), leaves)]

    @jtorch.compile
    def compiled(a, b):
        out = step(a, b)
        return [out, *jtorch.autograd.grad(out, [a, b])]

    for a, b in zip(compiled(*leaves), expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10)


def test_compiled_code_tells_of_singular_matrices():
    function = jtorch.compile(lambda x: jtorch.linalg.inv(x) * 2)
    np.testing.assert_allclose(function(jtorch.eye(2)).numpy(), 2 * np.eye(2))
    with pytest.raises(RuntimeError, match="diagonal element 2 is zero"):
        function(jtorch.ones(2, 2))


def test_a_hermitian_pseudo_inverse_reads_the_lower_triangle_alone() -> None:
    A = jtorch.tensor([[1.0, 9.0], [2.0, 1.0]], dtype=jtorch.float64)
    expected = [[-1 / 3, 2 / 3], [2 / 3, -1 / 3]]
    np.testing.assert_allclose(jtorch.linalg.pinv(A, hermitian=True).numpy(), expected, rtol=1e-12)
    batch = jtorch.stack([A, A])
    np.testing.assert_allclose(jtorch.linalg.pinv(batch, hermitian=True).numpy(), [expected] * 2, rtol=1e-12)
    assert jtorch.linalg.matrix_rank(jtorch.tensor([[1.0, 0.0], [2.0, 4.0]]), hermitian=True).item() == 1


@needs_torch
def test_the_gradient_of_a_hermitian_pseudo_inverse() -> None:
    A = np.array([[3.0, 1.0], [1.0, 2.0]])
    g = np.array([[1.0, 2.0], [0.5, -1.0]])
    x = jtorch.tensor(A, requires_grad=True)
    t = torch.tensor(A, requires_grad=True)
    jtorch.linalg.pinv(x, hermitian=True).backward(jtorch.tensor(g))
    torch.linalg.pinv(t, hermitian=True).backward(torch.tensor(g))
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-10)


SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
FAULTY = {
    "singular": SINGULAR, "indefinite": [[1.0, 2.0], [2.0, 1.0]], "zero": [[0.0, 0.0], [0.0, 0.0]],
    "batch": [[[2.0, 1.0], [1.0, 3.0]], [[0.0, 0.0], [0.0, 0.0]], SINGULAR],
    "nan": [[1.0, math.nan], [math.nan, 2.0]],
    "fine": [[2.0, 1.0], [1.0, 3.0]], "larger": [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
}  # fmt: skip
WITH_INFO = {
    "cholesky_ex": lambda L, x, **k: L.linalg.cholesky_ex(x, **k),
    "cholesky_ex upper": lambda L, x, **k: L.linalg.cholesky_ex(x, upper=True, **k),
    "inv_ex": lambda L, x, **k: L.linalg.inv_ex(x, **k),
    "solve_ex": lambda L, x, **k: L.linalg.solve_ex(x, L.ones_like(x), **k),
    "solve_ex of vectors": lambda L, x, **k: L.linalg.solve_ex(x, L.ones_like(x[..., 0]), **k),
}


@needs_torch
@pytest.mark.parametrize("faulty", FAULTY)
@pytest.mark.parametrize("name", WITH_INFO)
def test_a_fault_is_told_as_info(name, faulty):
    function = WITH_INFO[name]
    x, y = jtorch.tensor(FAULTY[faulty]), torch.tensor(FAULTY[faulty])
    theirs = function(torch, y)
    for ours in (function(jtorch, x), jtorch.compile(lambda x: function(jtorch, x))(x)):
        np.testing.assert_allclose(ours[0].numpy(), theirs[0].numpy(), 1e-5)
        assert (ours[1].tolist(), ours[1].dtype) == (theirs[1].tolist(), jtorch.int32)


@needs_torch
@pytest.mark.parametrize("faulty", FAULTY)
@pytest.mark.parametrize("name", WITH_INFO)
def test_a_fault_is_an_error_where_errors_are_checked(name, faulty):
    def outcome(library):
        try:
            return WITH_INFO[name](library, library.tensor(FAULTY[faulty]), check_errors=True)[1].tolist()
        except library.linalg.LinAlgError as error:
            return str(error)

    assert outcome(jtorch) == outcome(torch)


@pytest.mark.parametrize("name", ["cholesky_ex", "inv_ex", "solve_ex"])
def test_the_gradient_beside_info_is_that_without(name):
    x = jtorch.tensor([[2.0, 0.5], [0.5, 3.0]], requires_grad=True)
    plain = {
        "cholesky_ex": jtorch.linalg.cholesky, "inv_ex": jtorch.linalg.inv,
        "solve_ex": lambda x: jtorch.linalg.solve(x, jtorch.ones_like(x)),
    }[name]  # fmt: skip
    (want,) = jtorch.autograd.grad(plain(x).square().sum(), x)
    found, info = WITH_INFO[name](jtorch, x)
    (got,) = jtorch.autograd.grad(found.square().sum(), x)
    assert not info.requires_grad
    np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-6)


@needs_torch
@pytest.mark.parametrize("faulty", ["singular", "zero", "batch", "larger"])
def test_lu_factor_refuses_a_singular_matrix(faulty):
    with pytest.raises(RuntimeError) as theirs:
        torch.linalg.lu_factor(torch.tensor(FAULTY[faulty]))
    x = jtorch.tensor(FAULTY[faulty])
    for function in (jtorch.linalg.lu_factor, jtorch.compile(lambda x: jtorch.linalg.lu_factor(x))):
        with pytest.raises(RuntimeError) as ours:
            function(x)
        assert str(theirs.value) in str(ours.value)
    P, L, U = jtorch.linalg.lu(x)
    assert (P @ L @ U).tolist() == x.tolist()
