"""The MNIST example runs as a script would and learns."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import jtorch

ROOT = Path(__file__).parents[2]
DATA = ROOT / "../shared/data/mnist"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the MNIST files are not in shared/data/mnist")


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("mnist_example", ROOT / "examples" / "mnist.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_mlp_learns_and_writes_its_losses(example, tmp_path, capsys):
    losses = tmp_path / "losses.txt"
    options = ["--data", str(DATA), "--epochs", "1", "--max-steps", "300", "--losses", str(losses)]
    assert example.main(options) > 0.88
    values = [float(line) for line in losses.read_text().splitlines()]
    assert len(values) == 100 and values[0] > 2.0 and sum(values[90:]) < 10.0
    text = capsys.readouterr().out
    assert "test accuracy" in text and "steps/s" in text


@pytest.mark.slow
def test_runs_are_reproducible(example, tmp_path):
    runs = []
    for name in ("a", "b"):
        path = tmp_path / name
        example.main(["--data", str(DATA), "--epochs", "1", "--max-steps", "20", "--losses", str(path)])
        runs.append(path.read_text())
    assert runs[0] == runs[1]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="Numba is not installed")
@pytest.mark.parametrize("model", ["mlp", "lenet"])
def test_compiling_changes_no_loss(example, tmp_path, model):
    runs = []
    for more in ([], ["--compile"]):
        path = tmp_path / f"losses{len(more)}"
        options = ["--data", str(DATA), "--model", model, "--epochs", "1", "--max-steps", "20"]
        example.main([*options, "--losses", str(path), *more])
        runs.append([float(line) for line in path.read_text().splitlines()])
    assert runs[1] == pytest.approx(runs[0], rel=1e-4)


@pytest.mark.slow
def test_lenet_takes_steps(example):
    options = ["--data", str(DATA), "--model", "lenet", "--epochs", "2", "--max-steps", "20"]
    assert example.main(options) > 0.5


def test_models_have_the_expected_sizes(example):
    count = {name: sum(p.numel() for p in build().parameters()) for name, build in example.MODELS.items()}
    assert count == {"mlp": 784 * 80 + 80 + 80 * 10 + 10, "lenet": 61706}
    assert example.mlp()(jtorch.zeros(2, 1, 28, 28)).shape == (2, 10)
