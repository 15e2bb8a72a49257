"""Functions of shape, joining and parting against PyTorch: values, gradients, and which of them are views."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4))
SQUARE = RNG.standard_normal((4, 4))
CUBE = RNG.standard_normal((2, 3, 4))
ROW = RNG.standard_normal(4)
SCALAR = np.array(1.5)
EMPTY = np.zeros((0, 4))
ONES = RNG.standard_normal((1, 3, 1))
INTS = RNG.integers(-5, 6, (3, 4))

VIEWS = {  # a view, or a copy, exactly where PyTorch makes one
    "view": (lambda L, x: x.view(2, -1), [A]),
    "view tuple": (lambda L, x: x.view((6, 2)), [A]),
    "view of transposed": (lambda L, x: x.transpose(0, 1).view(3, 2, 2, 2), [CUBE]),
    "view_as": (lambda L, x: x.view_as(L.zeros(2, 6)), [A]),
    "reshape": (lambda L, x: x.reshape(-1), [CUBE]),
    "reshape copy": (lambda L, x: x.t().reshape(-1), [A]),
    "reshape_as": (lambda L, x: x.reshape_as(L.zeros(12)), [A]),
    "expand": (lambda L, x: x.expand(2, 3, -1), [A]),
    "expand_as": (lambda L, x: x.expand_as(L.zeros(2, 3, 4)), [A]),
    "broadcast_to": (lambda L, x: L.broadcast_to(x, (2, 3, 4)), [A]),
    "broadcast_to sizes": (lambda L, x: x.broadcast_to(2, -1, 4), [A]),
    "broadcast_to one": (lambda L, x: x.broadcast_to(3), [SCALAR]),
    "broadcast_to size=": (lambda L, x: x.broadcast_to(size=(2, 3, 4)), [A]),
    "flip": (lambda L, x: x.flip(0, -1), [CUBE]),
    "flip list": (lambda L, x: L.flip(x, [1]), [CUBE]),
    "fliplr": (lambda L, x: L.fliplr(x), [A]),
    "flipud": (lambda L, x: x.flipud(), [A]),
    "roll": (lambda L, x: L.roll(x, 1, 0), [A]),
    "roll many": (lambda L, x: x.roll((2, -1), (0, -1)), [A]),
    "roll flat": (lambda L, x: x.roll(5), [A]),
    "roll nothing": (lambda L, x: x.roll(3, 0), [A]),
    "roll empty": (lambda L, x: x.roll(1, 0), [EMPTY]),
    "rot90": (lambda L, x: L.rot90(x), [A]),
    "rot90 twice": (lambda L, x: x.rot90(2, (0, 2)), [CUBE]),
    "rot90 back": (lambda L, x: x.rot90(-1, [1, 2]), [CUBE]),
    "rot90 nothing": (lambda L, x: x.rot90(4), [CUBE]),
    "movedim": (lambda L, x: L.movedim(x, 0, -1), [CUBE]),
    "movedim of a number": (lambda L, x: L.movedim(x[0, 0, 0], 0, -1), [CUBE]),
    "movedim many": (lambda L, x: x.movedim((0, 1), (2, 0)), [CUBE]),
    "moveaxis": (lambda L, x: L.moveaxis(x, -1, 0), [CUBE]),
    "swapaxes": (lambda L, x: x.swapaxes(0, 1), [CUBE]),
    "swapdims": (lambda L, x: L.swapdims(x, 0, -1), [CUBE]),
    "permute function": (lambda L, x: L.permute(x, (2, 0, 1)), [CUBE]),
    "t": (lambda L, x: L.t(x), [A]),
    "t vector": (lambda L, x: L.t(x), [ROW]),
    "T": (lambda L, x: x.T, [A]),
    "mT": (lambda L, x: x.mT, [CUBE]),
    "H": (lambda L, x: x.H, [A]),
    "mH": (lambda L, x: x.mH, [CUBE]),
    "adjoint": (lambda L, x: L.adjoint(x), [CUBE]),
    "narrow": (lambda L, x: L.narrow(x, 1, -3, 2), [A]),
    "narrow_copy": (lambda L, x: x.narrow_copy(0, 1, 2), [A]),
    "narrow nothing": (lambda L, x: x.narrow(0, 3, 0), [A]),
    "unfold": (lambda L, x: x.unfold(1, 2, 1), [CUBE]),
    "unfold first": (lambda L, x: x.unfold(0, 3, 2), [RNG.standard_normal((8, 2))]),
    "unfold 0-d": (lambda L, x: x.unfold(0, 1, 1), [SCALAR]),
    "as_strided": (lambda L, x: x.as_strided((2, 3), (4, 1)), [A]),
    "as_strided overlapping": (lambda L, x: L.as_strided(x, (5, 3), (1, 2), 2), [A]),
    "as_strided number": (lambda L, x: x.as_strided((), (), 7), [A]),
    "unbind": (lambda L, x: x.unbind(1), [CUBE]),
    "split": (lambda L, x: x.split(3, -1), [CUBE]),
    "split lengths": (lambda L, x: L.split(x, [1, 0, 3], dim=1), [A]),
    "split of nothing": (lambda L, x: x.split(2), [EMPTY]),
    "split zero": (lambda L, x: x.split(0), [EMPTY]),
    "split_with_sizes": (lambda L, x: L.split_with_sizes(x, [2, 1]), [A]),
    "chunk": (lambda L, x: L.chunk(x, 3, 1), [A]),
    "chunk of nothing": (lambda L, x: x.chunk(3), [EMPTY]),
    "tensor_split": (lambda L, x: L.tensor_split(x, 3, 1), [A]),
    "tensor_split places": (lambda L, x: x.tensor_split([1, 3, 9], 1), [A]),
    "tensor_split negative": (lambda L, x: x.tensor_split((-2, -1), 1), [A]),
    "hsplit": (lambda L, x: L.hsplit(x, 2), [A]),
    "hsplit vector": (lambda L, x: x.hsplit([1, 2]), [ROW]),
    "vsplit": (lambda L, x: x.vsplit(3), [A]),
    "dsplit": (lambda L, x: L.dsplit(x, 2), [CUBE]),
    "select": (lambda L, x: L.select(x, 1, -1), [CUBE]),
    "squeeze": (lambda L, x: x.squeeze(), [ONES]),
    "squeeze dim": (lambda L, x: x.squeeze(-1), [ONES]),
    "squeeze dims": (lambda L, x: x.squeeze((0, 1)), [ONES]),
    "unsqueeze": (lambda L, x: x.unsqueeze(-1), [A]),
    "flatten": (lambda L, x: L.flatten(x, 1), [CUBE]),
    "flatten 0-d": (lambda L, x: x.flatten(), [SCALAR]),
    "unflatten": (lambda L, x: x.unflatten(-1, (2, -1)), [CUBE]),
    "ravel": (lambda L, x: x.ravel(), [CUBE]),
    "ravel copy": (lambda L, x: x.t().ravel(), [A]),
    "diagonal": (lambda L, x: x.diagonal(1), [A]),
    "diagonal dims": (lambda L, x: L.diagonal(x, -1, 2, 0), [CUBE]),
    "diagonal outside": (lambda L, x: x.diagonal(9), [A]),
    "diag of matrix": (lambda L, x: x.diag(1), [A]),
    "diag of vector": (lambda L, x: L.diag(x, -1), [ROW]),
    "diagflat": (lambda L, x: L.diagflat(x, 1), [A]),
    "diag_embed": (lambda L, x: L.diag_embed(x, 1, 0, 2), [A]),
    "contiguous": (lambda L, x: x.contiguous(), [A]),
    "contiguous copy": (lambda L, x: x.t().contiguous(), [A]),
    "clone": (lambda L, x: L.clone(x), [A]),
    "atleast_1d": (lambda L, x: L.atleast_1d(x), [SCALAR]),
    "atleast_2d": (lambda L, x: L.atleast_2d(x), [ROW]),
    "atleast_3d": (lambda L, x: L.atleast_3d(x), [ROW]),
    "atleast_3d matrix": (lambda L, x: L.atleast_3d(x), [A]),
    "repeat": (lambda L, x: x.repeat(2, 1, 3), [A]),
    "repeat once": (lambda L, x: x.repeat(1, 1), [A]),
    "tile": (lambda L, x: L.tile(x, (2,)), [A]),
    "repeat_interleave": (lambda L, x: x.repeat_interleave(2, 1), [A]),
    "repeat_interleave flat": (lambda L, x: L.repeat_interleave(x, 3), [A]),
    "repeat_interleave counts": (lambda L, x: x.repeat_interleave(L.tensor([0, 2, 1]), dim=0), [A]),
    "tril": (lambda L, x: x.tril(-1), [CUBE]),
    "triu": (lambda L, x: L.triu(x, 1), [CUBE]),
    "tril bool": (lambda L, x: (x > 0).tril(), [A]),
    "select_scatter": (lambda L, x, y: L.select_scatter(x, y, 0, -1), [A, ROW]),
    "slice_scatter": (lambda L, x, y: x.slice_scatter(y, 0, 0, 3, 2), [A, SQUARE[:2].copy()]),
    "diagonal_scatter": (lambda L, x, y: x.diagonal_scatter(y, 1), [A, ROW[:3].copy()]),
}  # fmt: skip

JOINED = {
    "cat": (lambda L, x, y: L.cat([x, y], 0), [A, SQUARE]),
    "cat last": (lambda L, x, y: L.cat((x, y), -1), [A, A[:, :2].copy()]),
    "cat with an old empty": (lambda L, x: L.cat([L.zeros(0, dtype=L.float64), x], 1), [A]),
    "cat types": (lambda L, x, y: L.cat([x, y]), [A.astype(np.float32), A]),
    "cat int and float": (lambda L, x, y: L.cat([x, y]), [INTS, A]),
    "concat": (lambda L, x, y: L.concat([x, y]), [A, SQUARE]),
    "concatenate": (lambda L, x, y: L.concatenate([x, y], axis=0), [A, SQUARE]),
    "stack": (lambda L, x, y: L.stack([x, y], -2), [A, A]),
    "hstack": (lambda L, x, y: L.hstack([x, y]), [A, A]),
    "hstack vectors": (lambda L, x, y: L.hstack([x, y]), [ROW, SCALAR]),
    "vstack": (lambda L, x, y: L.vstack([x, y]), [A, ROW]),
    "row_stack": (lambda L, x, y: L.row_stack([x, y]), [A, ROW]),
    "dstack": (lambda L, x, y: L.dstack([x, y]), [A, A]),
    "column_stack": (lambda L, x, y: L.column_stack([x, y]), [SQUARE, ROW]),
    "block_diag": (lambda L, x, y, z: L.block_diag(x, y, z), [A, ROW, SCALAR]),
    "broadcast_tensors": (lambda L, x, y: L.broadcast_tensors(x, y), [A, ROW]),
    "meshgrid": (lambda L, x, y: L.meshgrid(x, y, indexing="ij"), [ROW, A[0, :3].copy()]),
    "meshgrid xy": (lambda L, x, y: L.meshgrid([x, y], indexing="xy"), [ROW, A[0, :3].copy()]),
    "cartesian_prod": (lambda L, x, y: L.cartesian_prod(x, y), [ROW, A[0, :3].copy()]),
    "combinations": (lambda L, x: L.combinations(x, 3), [ROW]),
    "combinations again": (lambda L, x: L.combinations(x, with_replacement=True), [ROW]),
    "vander": (lambda L, x: L.vander(x.detach(), 3), [ROW]),
    "vander ints": (lambda L, x: L.vander(x, increasing=True), [INTS[0]]),
    "linalg.vander": (lambda L, x: L.linalg.vander(x.detach(), N=3), [A]),
    "linalg.vander of a number": (lambda L, x: L.linalg.vander(x, N=3), [SCALAR]),
    "tril_indices": (lambda L, x: L.tril_indices(3, 4, 1), [A]),
    "triu_indices": (lambda L, x: L.triu_indices(3, 4, -1, dtype=L.int32), [A]),
    "repeat_interleave alone": (lambda L, x: L.repeat_interleave(L.tensor([2, 0, 3])), [A]),
}


@needs_torch
@pytest.mark.parametrize("name", [*VIEWS, *JOINED])
def test_equals_pytorch(name):
    call, arrays = (VIEWS | JOINED)[name]
    compare(call, jtorch, torch, arrays, rtol=1e-12, atol=1e-12)


@needs_torch
@pytest.mark.parametrize("name", VIEWS)
def test_shares_memory_where_pytorch_does(name):
    call, arrays = VIEWS[name]
    ours, theirs = jtorch.tensor(arrays[0]), torch.tensor(arrays[0])
    out = call(jtorch, ours, *map(jtorch.tensor, arrays[1:]))
    expected = call(torch, theirs, *map(torch.tensor, arrays[1:]))
    if not isinstance(out, (tuple, list)):
        out, expected = (out,), (expected,)
    for a, b in zip(out, expected, strict=True):
        shares = b.untyped_storage().data_ptr() == theirs.untyped_storage().data_ptr()
        if a.numel():
            assert (a._cell is ours._cell) == shares, "a view" if shares else "a copy"
            assert np.shares_memory(a.numpy(), ours.numpy()) == shares
            if a.numel() > 1:
                assert not shares or a.stride() == b.stride()


ERRORS = {
    "view size": lambda L, x: x.view(5),
    "view strides": lambda L, x: x.t().view(12),
    "reshape": lambda L, x: x.reshape(5, -1),
    "reshape two": lambda L, x: x.reshape(-1, -1),
    "permute": lambda L, x: x.permute(0, 0),
    "transpose": lambda L, x: x.transpose(0, 2),
    "movedim": lambda L, x: x.movedim(0, 2),
    "rot90": lambda L, x: x.rot90(1, (0, 0)),
    "roll": lambda L, x: x.roll((1, 2), (0,)),
    "narrow": lambda L, x: x.narrow(0, 2, 2),
    "narrow start": lambda L, x: x.narrow(0, 4, 0),
    "unfold size": lambda L, x: x.unfold(0, 4, 1),
    "unfold step": lambda L, x: x.unfold(0, 2, 0),
    "split": lambda L, x: x.split([1, 1]),
    "split negative": lambda L, x: x.split(-1),
    "split zero": lambda L, x: x.split(0),
    "chunk": lambda L, x: x.chunk(0),
    "tensor_split": lambda L, x: x.tensor_split(0),
    "hsplit": lambda L, x: x.hsplit(3),
    "select": lambda L, x: x.select(0, 3),
    "unflatten": lambda L, x: x.unflatten(1, (3, 2)),
    "flatten": lambda L, x: x.flatten(1, 0),
    "expand": lambda L, x: x.expand(5, 4),
    "repeat": lambda L, x: x.repeat(2),
    "stack": lambda L, x: L.stack([x, x[0]]),
    "stack none": lambda L, x: L.stack([]),
    "cat none": lambda L, x: L.cat([]),
    "flip twice": lambda L, x: x.flip(0, 0),
    "cat": lambda L, x: L.cat([x, x[:, :2]]),
    "diagonal": lambda L, x: x.diagonal(0, 1, -1),
    "diag": lambda L, x: L.diag(x[None]),
    "linalg.vander": lambda L, x: L.linalg.vander(x[:, :1]),
    "tril": lambda L, x: x[0].tril(),
    "select_scatter": lambda L, x: x.select_scatter(x, 0, 0),
    "cartesian_prod": lambda L, x: L.cartesian_prod(x),
    "combinations": lambda L, x: L.combinations(x),
    "meshgrid indexing": lambda L, x: L.meshgrid(x[0], indexing="zz"),
    "broadcast_tensors": lambda L, x: L.broadcast_tensors(x, x[:2]),
    "broadcast_to nothing": lambda L, x: x.broadcast_to(),
    "broadcast_to a number": lambda L, x: L.broadcast_to(x, 4),
    "adjoint": lambda L, x: x[0].adjoint(),
    "mT": lambda L, x: x[0].mT,
    "repeat_interleave": lambda L, x: x.repeat_interleave(L.tensor([1, 2]), 0),
    "as_strided": lambda L, x: x.as_strided((5, 5), (4, 1)),
    "unsqueeze": lambda L, x: x.unsqueeze(4),
    "view dtype": lambda L, x: x[:, :3].contiguous().float().view(L.float64),
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


def test_writes_go_through_views():
    x = jtorch.zeros(3, 4)
    x.diagonal().fill_(1)
    x.unfold(1, 2, 2)[0].mul_(0)
    x.view(-1).as_strided((3,), (4,), 3).add_(5)
    expected = np.zeros((3, 4))
    np.fill_diagonal(expected, 1)
    expected[0] = 0
    expected[:, 3] += 5
    np.testing.assert_array_equal(x.numpy(), expected)


def test_gradient_of_a_write_through_a_diagonal():
    x = jtorch.tensor(SQUARE, requires_grad=True)
    y = x * 2
    y.diagonal(1).mul_(3)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 + 4 * np.eye(4, k=1))


def test_view_of_bytes():
    x = jtorch.tensor([1.0, -2.0])
    bits = x.view(jtorch.int32)
    np.testing.assert_array_equal(bits.numpy(), np.float32([1, -2]).view(np.int32))
    bits[0] = 0
    assert x.tolist() == [0.0, -2.0]
    assert x.view(jtorch.uint8).shape == (8,)


def test_broadcast_shapes():
    assert jtorch.broadcast_shapes((3, 1), (1, 4), 4) == (3, 4)
    assert jtorch.broadcast_shapes() == ()
    with pytest.raises(RuntimeError, match="broadcast"):
        jtorch.broadcast_shapes((3,), (4,))


def test_compiled_equals_eager():
    def step(x, y):
        z = x.roll(1, 0).diagonal().unsqueeze(0) + x.unfold(1, 2, 1).sum(-1)[:, :3]
        z = jtorch.cat([z, jtorch.diag_embed(y[:3])], 1).flip(0)
        return jtorch.block_diag(z, y).tril()

    x, y = jtorch.tensor(A[:3, :4]), jtorch.tensor(ROW)
    np.testing.assert_allclose(jtorch.compile(step)(x, y).numpy(), step(x, y).numpy(), rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_numbers_without_dims_are_not_joined(compiled):
    def function(x):
        return jtorch.cat([x, x.sum()])

    with pytest.raises(RuntimeError, match=r"zero-dimensional tensor \(at position 1\) cannot be concatena"):
        (jtorch.compile(function) if compiled else function)(jtorch.ones(2))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_range_too_long_for_any_memory(compiled):
    def function(x, end):
        return x + jtorch.arange(end)

    with pytest.raises(RuntimeError, match="invalid size, possible overflow"):
        (jtorch.compile(function) if compiled else function)(jtorch.ones(1), 1e30)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("shape", [(-2, 3), (2, -2), (-6,), (-3, -1), (-1, -1), (-1, 4)])
def test_sizes_that_no_reshape_has_are_refused(mode, shape):
    """NumPy takes any negative size for the one that it is to find."""
    x = jtorch.arange(6.0)
    for function in (
        lambda x: x.reshape(*shape),
        lambda x: jtorch.reshape(x, shape),
        lambda x: x.view(shape),
    ):
        f = jtorch.compile(function) if mode == "compiled" else function
        with pytest.raises(RuntimeError, match=r"invalid (shape|for input)|only one dimension"):
            f(x)
