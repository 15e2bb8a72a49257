"""Both modes draw the same codes, and the bound is one."""

from __future__ import annotations

import math

import pytest

import jtorch
import jtorch.nn.functional as F

pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")


@pytest.mark.slow
def test_both_modes_give_the_same_losses(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    (losses, lines), (others, their_lines) = in_all_modes(
        "--epochs 2 --every 1 --hidden 32", ["", "--compile"]
    )
    assert others == pytest.approx(losses, rel=1e-4) and losses[1] < losses[0]
    assert len(lines) == len(their_lines) == 2 + 8  # epochs, rows of the drawing


@pytest.mark.slow
def test_it_learns_digits(example, capsys):
    losses = example.main([])
    assert losses[0] > 33 and losses[-1] < 26
    assert "#" in capsys.readouterr().out


def test_the_divergence_is_that_of_the_formula(example):
    model = example.VAE(4, 8, 3)
    x = jtorch.rand(5, 4)
    _, divergence = example.bound(model, x)
    mean, log_variance = model.encoder(x).chunk(2, dim=1)
    normal = jtorch.distributions.Normal
    expected = jtorch.distributions.kl_divergence(normal(mean, (0.5 * log_variance).exp()), normal(0.0, 1.0))
    assert divergence.item() == pytest.approx(expected.sum().item() / 5, rel=1e-5)


def test_the_bound_is_above_what_the_decoder_gives(example):
    """Where the decoder ignores the code -log p(x) is known: a code only costs, and none is exact."""
    jtorch.set_default_dtype(jtorch.float64)
    model, x = example.VAE(4, 8, 3), jtorch.rand(5, 4).round()
    with jtorch.no_grad():
        for p in model.decoder[0].parameters():
            p.zero_()
    exact = (
        F.binary_cross_entropy_with_logits(model.decoder(jtorch.zeros(5, 3)), x, reduction="sum").item() / 5
    )
    assert sum(part.item() for part in example.bound(model, x)) > exact
    with jtorch.no_grad():
        for p in model.encoder[2].parameters():
            p.zero_()
    assert math.isclose(sum(part.item() for part in example.bound(model, x)), exact)
