"""Loss modules against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn

RNG = np.random.default_rng(0)
SCORES = RNG.standard_normal((6, 4)).astype(np.float32)
OTHER = RNG.standard_normal((6, 4)).astype(np.float32)
PROBABILITIES = (1 / (1 + np.exp(-SCORES))).astype(np.float32)
BINARY = (OTHER > 0).astype(np.float32)
CLASSES = np.array([0, 3, 1, 1, 2, 0])
LOSSES = [
    ("L1Loss", {}, SCORES, OTHER),
    ("MSELoss", {}, SCORES, OTHER),
    ("SmoothL1Loss", {"beta": 0.7}, SCORES, OTHER),
    ("HuberLoss", {"delta": 0.7}, SCORES, OTHER),
    ("BCELoss", {}, PROBABILITIES, BINARY),
    ("BCEWithLogitsLoss", {}, SCORES, BINARY),
    ("NLLLoss", {}, SCORES, CLASSES),
    ("NLLLoss", {"ignore_index": 1}, SCORES, CLASSES),
    ("CrossEntropyLoss", {}, SCORES, CLASSES),
    ("CrossEntropyLoss", {"ignore_index": 0}, SCORES, CLASSES),
    ("CrossEntropyLoss", {"label_smoothing": 0.1}, SCORES, CLASSES),
    ("KLDivLoss", {}, SCORES, PROBABILITIES),
]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("case", LOSSES, ids=lambda c: f"{c[0]}{c[1] or ''}")
@pytest.mark.filterwarnings("ignore:reduction:UserWarning")  # PyTorch's, about KLDivLoss's mean
def test_loss_equals_pytorch(torch, case, reduction):
    name, options, x, y = case
    ours = getattr(nn, name)(**options, reduction=reduction)
    theirs = getattr(torch.nn, name)(**options, reduction=reduction)
    a, b = jtorch.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    out, expected = ours(a, jtorch.tensor(y)), theirs(b, torch.tensor(y))
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    out.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert repr(ours) == repr(theirs)


def test_class_weights(torch):
    weight = np.array([0.5, 2.0, 1.0, 0.1], np.float32)
    ours = nn.CrossEntropyLoss(weight=jtorch.tensor(weight))
    theirs = torch.nn.CrossEntropyLoss(weight=torch.tensor(weight))
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["weight"]
    got = ours(jtorch.tensor(SCORES), jtorch.tensor(CLASSES))
    expected = theirs(torch.tensor(SCORES), torch.tensor(CLASSES))
    np.testing.assert_allclose(got.item(), expected.item(), rtol=1e-6)


def test_wrong_batch_size_says_both():
    with pytest.raises(ValueError, match=r"input batch_size \(6\) to match target batch_size \(5\)"):
        nn.CrossEntropyLoss()(jtorch.tensor(SCORES), jtorch.tensor(CLASSES[:5]))
