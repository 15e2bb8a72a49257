"""The fifteen networks compute the same in both modes and in PyTorch, exactly enough in float64."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

import jtorch
from benchmarks.agree import record
from benchmarks.cli import main
from benchmarks.models import training
from benchmarks.models.rows import IMAGES, MODELS

TORCH = importlib.util.find_spec("torch") is not None
SLOW = ("mobilenet", "resnet")  # a second each a step


def _first_step(library, name, compiled=False):
    """(loss, gradients) of the first step in float64."""
    library.set_default_dtype(library.float64)
    try:
        program = MODELS[name].torch_like(library)
        arguments = [a.double() if a.is_floating_point() else a for a in program.arguments[0]]
        step = jtorch.compile(program.step) if compiled else program.step
        return float(step(*arguments).detach()), program.gradients()
    finally:
        library.set_default_dtype(library.float32)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in MODELS]
)
def test_both_modes_and_pytorch_compute_the_same(name):
    loss, gradients = _first_step(jtorch, name)
    others = [_first_step(jtorch, name, compiled=True)]
    if TORCH:
        import torch

        others.append(_first_step(torch, name))
    for other_loss, other in others:
        assert other_loss == pytest.approx(loss, rel=1e-12)
        assert other.keys() == gradients.keys()
        for key, g in gradients.items():
            np.testing.assert_allclose(other[key], g, rtol=1e-9, atol=1e-10 * max(abs(g).max(), 1e-3))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX, a peer, is not installed")
@pytest.mark.parametrize("name", [n for n, workload in MODELS.items() if workload.jax is not None])
def test_jax_computes_the_same(name):
    """The losses of five steps: each comes from all gradients of the steps before."""
    ours, theirs = MODELS[name].torch_like(jtorch), MODELS[name].jax()
    expected, found = record(ours, ours.step, 5), record(theirs, theirs.step, 5)
    assert expected.losses[0] != pytest.approx(expected.losses[-1], rel=1e-3)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=2e-4)


@pytest.mark.slow
def test_the_section_prints_a_table_and_keeps_all_samples(tmp_path, capsys):
    file = tmp_path / "figures.json"
    status = main(["compiled", "mlp-64", "lenet-64", "--quick", "--json", str(file)])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert "MLP 64-64-10, b32" in printed.out
    rows = json.loads(file.read_text())["rows"]
    assert [row["name"] for row in rows] == ["mlp-64", "lenet-64"]
    expected = {"jtorch eager", "jtorch compiled", *(["torch"] if TORCH else [])}
    assert set(rows[0]["timings"]) == expected
    assert set(rows[1]["timings"]) == expected | ({"channels_last"} if TORCH else set())
    assert training.how == "" and set(IMAGES) < set(MODELS)


@pytest.mark.parametrize("arguments", [["no-such-network"], ["mlp-64", "--peers", "tensorflow"]])
def test_unknown_names_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        main(["compiled", *arguments])
    assert "there are" in capsys.readouterr().err
