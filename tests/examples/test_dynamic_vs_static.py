import itertools
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("as_users_run_it")

FILE = Path(__file__).parents[2] / "examples" / "dynamic_vs_static.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(FILE))


@pytest.fixture
def told(example, capsys):
    """What the example prints, split at its headings."""
    example["main"]()
    text = capsys.readouterr().out
    heads = ["== Dynamic", "== Static", "== What it costs"]
    assert all(text.count(h) == 1 for h in heads)
    places = [*(text.index(h) for h in heads), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places)]


def test_the_tape_is_told_as_a_tree(example):
    import jtorch

    W_x, W_h = (jtorch.randn(20, n, requires_grad=True) for n in (10, 20))
    loss = example["rnn_cell"](W_x, W_h, jtorch.randn(1, 10), jtorch.randn(1, 20))
    assert example["tape"](loss.grad_fn) == [
        "SumBackward0",
        "    TanhBackward0",
        "        AddBackward0",
        "            MmBackward0",
        "                AccumulateGrad    into a leaf of shape (20, 10)",
        "                None    an input that needs no gradient",
        "            MmBackward0",
        "                AccumulateGrad    into a leaf of shape (20, 20)",
        "                None    an input that needs no gradient",
    ]


def test_the_whole_story(told):
    dynamic, static, cost = told
    assert "(<TanhBackward0 object at 0x" in dynamic
    assert "gradients are 2 times the first" in dynamic
    assert "Trying to backward through the graph a second time" in dynamic
    assert "tanh(" in static and "def " in static
    numbers = static.split("eager gives ")[1].split("\n")[0].split(", compiled ")
    assert float(numbers[0]) == pytest.approx(float(numbers[1]), rel=1e-5)
    for stage in ("trace", "passes", "fuse", "plan", "build", "first call"):
        assert stage in cost
    assert "a step, eager" in cost and "a step, compiled" in cost
