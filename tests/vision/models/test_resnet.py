"""ResNets: torchvision's names and shapes; the same outputs and gradients where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.vision import models
from jtorch.vision.models.resnet import BasicBlock, Bottleneck, ResNet

# numbers of parameters of 1000 classes, from the table of torchvision's documentation
PARAMETERS = {"resnet18": 11_689_512, "resnet34": 21_797_672, "resnext50_32x4d": 25_028_904}


def small(block=BasicBlock, **options):
    return ResNet(block, (1, 1, 1, 1), num_classes=5, **options)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_number_of_parameters(name):
    model = getattr(models, name)()
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


def test_names_in_the_state_dict():
    names = list(small(Bottleneck).state_dict())
    assert names[:2] == ["conv1.weight", "bn1.weight"]
    assert "layer1.0.downsample.0.weight" in names and "layer4.0.bn3.num_batches_tracked" in names
    assert names[-2:] == ["fc.weight", "fc.bias"]


@pytest.mark.slow
@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
def test_shapes_and_a_gradient_for_every_parameter(block):
    model = small(block)
    out = model(jtorch.randn(2, 3, 32, 32))
    assert out.shape == (2, 5)
    out.square().sum().backward()
    assert all(p.grad is not None and bool(jtorch.isfinite(p.grad).all()) for p in model.parameters())


def test_dilation_takes_the_place_of_strides():
    model = small(Bottleneck, replace_stride_with_dilation=(False, True, True))
    features = nn.Sequential(*list(model.children())[:-2])
    assert features(jtorch.randn(1, 3, 64, 64)).shape == (1, 2048, 8, 8)
    assert model.layer4[0].conv2.dilation == (2, 2)


def test_blocks_begin_as_their_shortcuts():
    model = small(Bottleneck, zero_init_residual=True)
    assert not model.layer1[0].bn3.weight.any() and model.layer1[0].bn2.weight.all()


def test_errors():
    with pytest.raises(NotImplementedError, match="downloads no weights"):
        models.resnet18(weights="DEFAULT")
    with pytest.raises(NotImplementedError, match="downloads no weights"):
        models.resnet18(pretrained=True)
    with pytest.raises(ValueError, match="or a 3-element tuple"):
        small(replace_stride_with_dilation=(True,))
    with pytest.raises(ValueError, match="only supports groups=1"):
        BasicBlock(8, 8, groups=2)
    with pytest.raises(NotImplementedError, match="Dilation > 1"):
        BasicBlock(8, 8, dilation=2)


@pytest.mark.parametrize("name", ["BasicBlock", "Bottleneck"])
def test_as_torchvision(name):
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("torchvision.models.resnet")
    theirs = peer.ResNet(getattr(peer, name), [1, 1, 1, 1], num_classes=5).double()
    ours = small({"BasicBlock": BasicBlock, "Bottleneck": Bottleneck}[name]).double()
    assert repr(ours) == repr(theirs)
    ours.load_state_dict({k: jtorch.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((2, 3, 64, 64))
    want, have = theirs(torch.from_numpy(x)), ours(jtorch.from_numpy(x))
    np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), rtol=1e-10)
    want.square().sum().backward()
    have.square().sum().backward()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-8, atol=1e-10)
