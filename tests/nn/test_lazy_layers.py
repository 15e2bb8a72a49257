"""Lazy convolutions and normalisations become ordinary ones; clusters of classes as PyTorch has them."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn

RNG = np.random.default_rng(0)
CASES = [
    ("LazyConv1d", (4, 3), (2, 6, 9)),
    ("LazyConv2d", (4, 3), (2, 6, 9, 8)),
    ("LazyConv3d", (4, 2), (2, 6, 4, 5, 3)),
    ("LazyConvTranspose1d", (4, 3), (2, 6, 9)),
    ("LazyConvTranspose2d", (4, 3), (2, 6, 4, 5)),
    ("LazyConvTranspose3d", (4, 2), (2, 6, 3, 4, 3)),
    ("LazyBatchNorm1d", (), (5, 6)),
    ("LazyBatchNorm2d", (), (3, 6, 4, 4)),
    ("LazyBatchNorm3d", (), (3, 6, 2, 2, 2)),
    ("LazyInstanceNorm1d", (), (3, 6, 4)),
    ("LazyInstanceNorm2d", (), (3, 6, 4, 4)),
    ("LazyInstanceNorm3d", (), (3, 6, 2, 2, 2)),
]


@pytest.mark.parametrize(("name", "args", "shape"), CASES, ids=[c[0] for c in CASES])
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_equals_pytorch_once_it_has_a_shape(torch, name, args, shape):
    x = RNG.standard_normal(shape).astype(np.float32)
    ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours(jtorch.tensor(x))
    theirs(torch.tensor(x))
    assert type(ours) is getattr(nn, name.removeprefix("Lazy")) and repr(ours) == repr(theirs)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    got, expected = ours.eval()(jtorch.tensor(x)), theirs.eval()(torch.tensor(x))
    np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_lazy_conv_errors():
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv2d(4, 3, groups=2)(jtorch.ones(1, 5, 8, 8))
    with pytest.raises(RuntimeError, match=r"3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"):
        nn.LazyConv2d(4, 3)(jtorch.ones(1, 5))


@pytest.mark.parametrize("head_bias", [False, True])
def test_adaptive_log_softmax(torch, head_bias):
    def make(lib):
        return lib.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=head_bias).double()

    ours, theirs = make(jtorch), make(torch)
    assert list(ours.state_dict()) == list(theirs.state_dict()) and repr(ours) == repr(theirs)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    x, target = RNG.standard_normal((9, 8)), np.array([0, 11, 5, 2, 7, 3, 6, 1, 9])
    a, b = ours(jtorch.tensor(x), jtorch.tensor(target)), theirs(torch.tensor(x), torch.tensor(target))
    np.testing.assert_allclose(a.output.detach().numpy(), b.output.detach().numpy(), rtol=1e-11)
    a.loss.backward()
    b.loss.backward()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-13)
    full = ours.log_prob(jtorch.tensor(x))
    np.testing.assert_allclose(full.exp().sum(1).detach().numpy(), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(
        ours.predict(jtorch.tensor(x)).numpy(), theirs.predict(torch.tensor(x)).numpy()
    )
    alone = ours(jtorch.tensor(x[0]), jtorch.tensor(4))
    assert alone.output.shape == ()
    with pytest.raises(RuntimeError, match="same size in the batch dimension"):
        ours(jtorch.tensor(x), jtorch.tensor(target[:3]))
    with pytest.raises(ValueError, match="cutoffs should be a sequence of unique, positive integers"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [7, 3])
