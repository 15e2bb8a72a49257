"""Pictures of tapes, and what ``jtorch.viz`` writes to files."""

import itertools
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

import jtorch
import jtorch.nn as nn
from jtorch import viz
from jtorch.viz.tape import tape_of


@pytest.fixture
def loss():
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    return model, model(jtorch.ones(2, 3)).square().mean()


def test_a_tape_has_nodes_leaves_and_names(loss):
    model, out = loss
    boxes = tape_of(out, dict(model.named_parameters()))
    assert [b.name for b in boxes if b.kind == "leaf"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert {"AddmmBackward0", "TanhBackward0", "MeanBackward0"} <= {b.name for b in boxes}
    assert boxes[-1].kind == "result" and all(n < k for k, b in enumerate(boxes) for n in b.inputs)


def test_a_leaf_that_is_used_twice_is_one_box():
    x = jtorch.ones(2, requires_grad=True)
    boxes = tape_of((x * 2 + x).sum(), {"x": x})
    assert [b.name for b in boxes].count("x") == 1
    assert str(viz.show((x * 2 + x).sum(), names={"x": x})).count("x  float32 [2]") == 2


def test_a_long_chain_needs_no_recursion():
    x = jtorch.ones(2, requires_grad=True)
    for _ in range(3000):
        x = x + 1
    assert len(tape_of(x)) == 3002 and str(viz.show(x)).endswith("...")


def test_files_of_a_tensor(loss, tmp_path):
    model, out = loss
    names = {"<script>&": model[0].weight}
    page = viz.save(out, tmp_path / "a.html", names=names).read_text()
    assert "<script>" not in page and "&lt;script&gt;&amp;" in page
    picture = ET.fromstring(viz.save(out, tmp_path / "a.svg", names=names).read_text())
    assert len(picture.findall(".//{*}rect")) == len(tape_of(out))
    dot = viz.save(out, tmp_path / "a.dot", names={'say "w"': model[0].weight}).read_text()
    assert dot.startswith("digraph") and r"say \"w\"" in dot


@pytest.mark.slow
def test_a_trace_has_the_measured_steps(tmp_path):
    f, x = jtorch.compile(lambda x: (x * 2).sum(1) @ jtorch.ones(4)), jtorch.ones(4, 3)
    f(x)
    f.profile()
    trace = json.loads(viz.save(f, tmp_path / "t.json").read_text())
    steps = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == 2]
    assert len(steps) == len(f.document()["programs"][0]["steps"])
    for before, after in itertools.pairwise(steps):
        assert after["ts"] == pytest.approx(before["ts"] + before["dur"])


def test_what_cannot_be_drawn_says_so(loss, tmp_path):
    with pytest.raises(ValueError, match=r"writes .html, .svg, .dot of this object, not '.png'"):
        viz.save(loss[1], tmp_path / "a.png")
    with pytest.raises(TypeError, match="takes a Tensor or what jtorch"):
        viz.show(3)
    with pytest.raises(RuntimeError, match="call it once"):
        viz.show(jtorch.compile(lambda x: x))


@pytest.mark.slow
def test_a_script_runs_as_by_itself_and_its_functions_are_drawn(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, jtorch\n"
        "def main():\n"
        "    f = jtorch.compile(lambda x: (x * 2).sum())\n"
        "    print(f(jtorch.ones(3)).item(), sys.argv[1:], __name__)\n"
        "main()\n"
        "sys.exit(3)\n"
    )
    command = [sys.executable, "-m", "jtorch.viz", str(script), "a", "--html", str(tmp_path / "p.html"), "b"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == "6.0 ['a', 'b'] __main__" and done.returncode == 3, done.stderr
    assert "&lt;lambda&gt;" in (tmp_path / "p.html").read_text()
    usage = subprocess.run([sys.executable, "-m", "jtorch.viz"], capture_output=True, text=True)
    assert usage.returncode == 2 and "usage" in usage.stderr
