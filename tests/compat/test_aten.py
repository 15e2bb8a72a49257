"""``torch.ops.aten``: ops by the names of PyTorch's schemas."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

X = np.random.default_rng(0).standard_normal((3, 4))
CALLS = {
    "add.Tensor": lambda a, x: a.add.Tensor(x, x, alpha=2),
    "add.Scalar": lambda a, x: a.add.Scalar(x, 3),
    "add": lambda a, x: a.add(x, x),
    "mul self": lambda a, x: a.mul.Tensor(self=x, other=x),
    "mm": lambda a, x: a.mm.default(x, a.t.default(x)),
    "sum": lambda a, x: a.sum.dim_IntList(x, [1], True),
    "mean": lambda a, x: a.mean.dim(x, [0, 1]),
    "view": lambda a, x: a.view.default(x, [2, 6]),
    "permute": lambda a, x: a.permute.default(x, [1, 0]),
    "transpose": lambda a, x: a.transpose.int(x, 0, 1),
    "cat": lambda a, x: a.cat.default([x, x], 1),
    "max": lambda a, x: a.max.dim(x, 1)[0],
    "softmax": lambda a, x: a._softmax.default(x, 1, False),
    "log_softmax": lambda a, x: a._log_softmax.default(x, 1, False),
    "relu": lambda a, x: a.relu.default(x),
    "gelu": lambda a, x: a.gelu.default(x, approximate="tanh"),
    "clone": lambda a, x: a.clone.default(x),
    "to copy": lambda a, x: a._to_copy.default(x),
    "where": lambda a, x: a.where.self(a.gt.Scalar(x, 0), x, a.neg.default(x)),
    "addmm": lambda a, x: a.addmm.default(x, x, a.mm.default(a.t.default(x), x)),
    "fft": lambda a, x: a.fft_irfft.default(a.fft_rfft.default(x)),
    "linalg": lambda a, x: a.linalg_vector_norm.default(x),
    "special": lambda a, x: a.special_entr.default(a.abs.default(x)),
    "in place": lambda a, x: a.add_.Tensor(a.clone.default(x), x),
    "layer_norm": lambda a, x: a.layer_norm.default(x, [4]),
    "slice": lambda a, x: a.select.int(x, 0, 1),
}


@needs_torch
@each("name", CALLS)
def test_equals_pytorch(name):
    ours, theirs = (CALLS[name](L.ops.aten, L.tensor(X)) for L in (jtorch, torch))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-10, strict=True)


@needs_torch
def test_ops_have_pytorchs_names():
    for L in (jtorch, torch):
        packet = L.ops.aten.add
        assert (str(packet), str(packet.Tensor), packet.Tensor.name()) == (
            "aten.add", "aten.add.Tensor", "aten::add.Tensor",
        )  # fmt: skip
        assert packet.Tensor.overloadpacket is packet is L.ops.aten.add
        assert repr(packet.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
        assert packet.Tensor is packet.Tensor
        for wrong in (lambda L=L: L.ops.aten.no_such_op, lambda L=L: L.ops.aten.add.no_such):
            with pytest.raises(AttributeError):
                wrong()
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'no_such_op'"):
        _ = jtorch.ops.aten.no_such_op
    with pytest.raises(
        AttributeError, match=r"The underlying op of 'aten\.add' has no overload name 'no_such'"
    ):
        _ = jtorch.ops.aten.add.no_such


def test_gradients_and_compiled_code_go_through_them():
    def loss(x):
        return jtorch.ops.aten.sum.default(jtorch.ops.aten.mul.Tensor(x, x))

    x = jtorch.tensor(X, requires_grad=True)
    loss(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)
    np.testing.assert_allclose(jtorch.compile(loss, fullgraph=True)(x).item(), (X * X).sum())
