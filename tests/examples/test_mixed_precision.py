"""Networks learn in 16 bits what they learn in float32, in both modes; PyTorch's losses are alike."""

from __future__ import annotations

import math

import pytest


@pytest.mark.slow
def test_all_precisions_learn_alike(example):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    pytest.importorskip("sklearn", reason="scikit-learn has the digits")
    for network, least, most in (("lenet", 0.85, 0.75), ("gpt", 0.15, 3.2)):
        found = {
            (precision, mode): result
            for _, precision, mode, result in example.runs([network], [*example.MODES], 120)
        }
        exact = found["float32", "eager"]
        assert exact["accuracy"] > least and exact["loss"] < most
        for case, result in found.items():
            assert result["accuracy"] == pytest.approx(exact["accuracy"], abs=0.03), case
            assert result["loss"] == pytest.approx(exact["loss"], rel=0.05, abs=0.02), case


@pytest.mark.slow
def test_a_few_steps_of_each_kind(example):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    for precision in example.PRECISIONS:
        eager, compiled = (example.train("gpt", precision, mode, 3) for mode in example.MODES)
        assert math.isfinite(eager["loss"])
        assert compiled["loss"] == pytest.approx(eager["loss"], rel=2e-3)
