"""Both modes take the same turns, and the generator's images come near to the data."""

from __future__ import annotations

import pytest

import jtorch

pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")


@pytest.mark.slow
def test_both_modes_take_the_same_turns(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    options = "--epochs 2 --every 1 --width 4 --items 192"
    (found, lines), (others, their_lines) = in_all_modes(options, ["", "--compile"])
    assert [each for epoch in others for each in epoch] == pytest.approx(
        [each for epoch in found for each in epoch], abs=0.03
    )
    assert len(lines) == len(their_lines) == 2 + 8  # epochs, rows of the drawing


def test_images_have_the_size_that_both_networks_expect(example):
    real = example.images(None)
    assert real.shape == (1797, 1, 16, 16) and real.min() >= -1 and real.max() <= 1
    made = example.generator(4)(jtorch.randn(3, example.NOISE, 1, 1))
    assert made.shape == (3, 1, 16, 16) and made.abs().max() <= 1
    assert example.discriminator(4)(made).shape == (3,)


@pytest.mark.slow
def test_its_images_come_near_to_digits(example):
    pytest.importorskip("numba", reason="Numba is not installed: eager mode takes longer")
    found = example.main(["--compile", "--epochs", "5", "--width", "8"])
    assert found[0][2] > 0.15 and found[-1][2] < 0.12
