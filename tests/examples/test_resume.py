"""The example of a trainer learns, and goes on where it stopped with the same bits."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import jtorch

pytestmark = pytest.mark.usefixtures("as_users_run_it")

ROOT = Path(__file__).parents[2]
MNIST = ROOT / "../shared/data/mnist"


@pytest.fixture(scope="module")
def example():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed, whose digits are the data")
    spec = importlib.util.spec_from_file_location("resume_example", ROOT / "examples" / "resume.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_learns_and_goes_on(example, tmp_path, capsys):
    first = ["--out", str(tmp_path / "a"), "--items", "1200", "--batch-size", "20"]
    trainer = example.main([*first, "--epochs", "3"])
    assert trainer.callback_metrics["val_accuracy"] > 0.75
    assert capsys.readouterr().out.startswith("done after 180 steps: loss ")
    second = ["--out", str(tmp_path / "b"), "--items", "1200", "--batch-size", "20"]
    example.main([*second, "--epochs", "1"])
    again = example.main([*second, "--epochs", "3", "--seed", "9"])
    assert again.callback_metrics == trainer.callback_metrics
    lines = [(tmp_path / name / "metrics.csv").read_text() for name in "ab"]
    assert lines[0] == lines[1] and len(lines[0].splitlines()) == 7


@pytest.mark.slow
@pytest.mark.skipif(not MNIST.is_dir(), reason="the MNIST files are not in shared/data/mnist")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_mnist(example, compiled, tmp_path):
    if compiled:
        pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    options = ["--data", str(MNIST), "--out", str(tmp_path), "--items", "6400", "--epochs", "1"]
    trainer = example.main([*options, *(["--compile"] if compiled else [])])
    assert trainer.global_step == 100 and trainer.callback_metrics["val_accuracy"] > 0.85
    assert jtorch.load(trainer._checkpoint.best_model_path)["global_step"] == 100
