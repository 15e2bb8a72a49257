"""An example on the tests' device."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import jtorch
from jtorch.utils.data import TensorDataset
from tests.cuda.marks import compiles
from tests.each import each

MNIST = Path(__file__).parents[2] / "examples" / "mnist.py"


@pytest.mark.slow
@compiles
@each("options", (["--device", "cuda"], ["--compile"]), ids=lambda options: options[0])
def test_the_mnist_example_learns_the_same_there(options, cuda, tmp_path, monkeypatch):
    """By its option, and where it is the default device."""
    spec = importlib.util.spec_from_file_location("mnist_example", MNIST)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    draws = jtorch.Generator().manual_seed(0)
    images = jtorch.rand(24, 1, 28, 28, generator=draws)
    examples = TensorDataset(images, jtorch.arange(24) % 10)
    monkeypatch.setattr(example, "dataset", lambda args, train: examples)

    def losses(name, *more):
        given = ["--data", "", "--epochs", "2", "--batch-size", "8", "--losses", str(tmp_path / name)]
        example.main([*given, *more])
        return [float(line) for line in (tmp_path / name).read_text().splitlines()]

    expected = losses("here")
    assert len(expected) == 6
    with jtorch.device("cpu" if "cuda" in options else "cuda"):
        before = cuda.fake.calls.count("cuLaunchKernel")
        assert losses("there", *options) == pytest.approx(expected, rel=1e-4)
        assert cuda.fake.calls.count("cuLaunchKernel") > before
