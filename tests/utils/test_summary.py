"""``jtorch.summary``: shapes, parameters and FLOPs, in 80 columns."""

import pytest

import jtorch
import jtorch.nn as nn


def test_a_convolutional_network():
    model = nn.Sequential(nn.Conv2d(1, 6, 5), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(6 * 24 * 24, 10))
    before = model[1].running_mean.clone()
    told = jtorch.summary(model, jtorch.ones(2, 1, 28, 28))
    layers = {layer.name: layer for layer in told.layers}
    assert layers["0"].output == (2, 6, 24, 24) and layers["0"].parameters == 156
    assert layers["0"].flops == 2 * 25 * 6 * 24 * 24 * 2
    assert layers["3"].flops == 2 * 2 * 3456 * 10
    assert told.flops == layers["0"].flops + layers["3"].flops
    assert told.parameters == sum(p.numel() for p in model.parameters())
    assert layers["0"].nbytes == 2 * 6 * 24 * 24 * 4
    assert model.training and jtorch.equal(model[1].running_mean, before)


def test_transposed_and_recurrent_layers():
    up = jtorch.summary(nn.ConvTranspose2d(3, 4, 2, stride=2), jtorch.ones(1, 3, 5, 5))
    assert up.flops == 2 * (3 * 4 * 2 * 2) * 25
    cells = jtorch.summary(nn.LSTM(4, 6, batch_first=True), jtorch.ones(2, 5, 4))
    assert cells.flops == 2 * (4 * 6 * (4 + 6)) * 2 * 5
    both = jtorch.summary(nn.LSTM(4, 6, bidirectional=True), jtorch.ones(5, 2, 4))
    assert both.layers[0].flops is None and "FLOPs of LSTM are not counted" in str(both)


def test_the_text_has_80_columns_and_modes_are_put_back_after_an_error():
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 10_000)))
    model[1].eval()
    text = str(jtorch.summary(model, jtorch.ones(2, 3)))
    assert max(map(len, text.splitlines())) <= 80 and "1 Linear" in text and "total" in text
    with pytest.raises(RuntimeError):
        jtorch.summary(model, jtorch.ones(2, 7))
    assert model.training and not model[1].training and not model[0]._forward_hooks
