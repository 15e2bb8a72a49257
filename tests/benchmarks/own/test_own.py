"""A training step of a user's file: what it must have, how it is loaded, and what is told of it."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import jtorch
from benchmarks.agree import DisagreementError, Record, record
from benchmarks.cli import main
from benchmarks.contestant import COMPILED, EAGER, Local, StepTime, workload_of
from benchmarks.own import section
from benchmarks.own.load import workload
from benchmarks.own.protocol import OwnFileError, check, imports_torch, takes_library

ROOT = Path(__file__).parents[3]
STEP = """
import jtorch
weight = jtorch.full((3,), 2.0, requires_grad=True)
calls = []

def step():
    calls.append(1)
    loss = (weight * weight).sum()
    (grad,) = jtorch.autograd.grad(loss, [weight])
    with jtorch.no_grad():
        weight.sub_(0.1 * grad)
    return loss

def scaled(x):
    return (weight * x).sum()

def pair():
    return scaled, (jtorch.ones(3),)

def alone():
    return lambda: step()

def given(torch):
    return lambda: torch.ones(2).sum()

def number():
    return 3.5

def silent():
    step()

def failing():
    raise ValueError("no data")

if __name__ == "__main__":
    raise SystemExit("this part is left out")
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    path = tmp_path / "mine.py"
    path.write_text(STEP)
    yield path
    sys.modules.pop("mine", None)


@pytest.mark.parametrize(
    ("name", "losses"),
    [
        ("pair", [6.0, 6.0]),
        ("alone", [12.0, 12.0 * 0.64]),
        ("given", [2.0, 2.0]),
        ("number", [3.5, 3.5]),
        ("step", [12.0 * 0.64, 12.0 * 0.64**2]),  # the call that shows what it is was a step
    ],
)
def test_every_form(name, losses, file):
    program = workload(f"{file}:{name}").torch_like(jtorch)
    found = record(program, program.step, 2)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-6)


def test_both_modes_begin_with_the_same_step(file):
    """The first compiled call is one of those that are compared."""
    eager, compiled = Local(EAGER), Local(COMPILED)
    row = f"{file}:alone"
    assert workload_of(row).what == "mine.py:alone"
    program = workload(row).torch_like(jtorch)
    expected = record(program, program.step, 3)
    np.testing.assert_allclose(compiled.prepare(row, 3).losses, expected.losses, rtol=1e-6)
    assert eager.told(ValueError("x")) == "ValueError: x"


def test_a_step_that_returns_no_loss(file):
    program = workload(f"{file}:silent").torch_like(jtorch)
    with pytest.raises(OwnFileError, match="silent must return its loss, got NoneType"):
        record(program, program.step, 1)


def test_an_error_is_told_with_its_line(file):
    contestant = Local(COMPILED)
    with pytest.raises(ValueError) as raised:
        contestant.prepare(f"{file}:failing", 1)
    line = STEP.splitlines().index('    raise ValueError("no data")') + 1
    assert contestant.told(raised.value) == f"ValueError: no data (mine.py, line {line})"


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("{file}", "takes FILE.py:FUNCTION"),
        ("{file}:", "takes FILE.py:FUNCTION"),
        ("{folder}/none.py:step", "there is no file"),
        ("{file}:stpe", "has no stpe at its top level; there are step, scaled"),
        ("{folder}/broken.py:step", "is no Python"),
    ],
)
def test_what_is_refused_before_anything_runs(target, told, file, capsys):
    (file.parent / "broken.py").write_text("def step(:")
    text = target.format(file=file, folder=file.parent)
    with pytest.raises(OwnFileError, match=told):
        check(text)
    with pytest.raises(SystemExit) as stopped:
        main(["own", text])
    told_by_command = capsys.readouterr().err
    assert stopped.value.code == 2 and told in told_by_command and len(told_by_command.splitlines()) == 1


def test_which_files_run_on_pytorch(tmp_path):
    texts = {
        "import torch\n": True,
        "import torch.nn as nn\n": True,
        "def f():\n    from torch import optim\n": True,
        "import jtorch as torch\n": False,
        "import torchvision\n": False,
        "from .torch import x\n": False,
    }
    for text, expected in texts.items():
        path = tmp_path / "a.py"
        path.write_text(text)
        assert imports_torch(path) == expected, text
    path.write_text("def a(torch): pass\ndef b(n=3): pass\ndef c(): pass\nd = a\n")
    assert [takes_library(path, name) for name in "abcd"] == [True, False, False, False]


def test_modes_must_agree_and_pytorch_may_draw_other_numbers(file):
    row = section.OwnRow(workload(f"{file}:step"))
    ours, theirs = (Record([np.float64(x)], {}, {}) for x in (1.0, 1.2))
    with pytest.raises(DisagreementError, match="step 0 differs"):
        row.check(COMPILED, theirs, ours)
    row.check("torch", theirs, ours)
    row.check("torch", ours, ours)
    assert len(row.notes) == 1 and "other random draws" in row.notes[0]


def test_where_the_time_goes(tmp_path):
    file = tmp_path / "mine.py"
    profile = [StepTime(f"k{n}", "loop", f"{file}:{n}", float(n), 0.5) for n in range(1, 13)]
    console = Console(width=100)
    with console.capture() as capture:
        section._show_profile(console, profile)
    text = capture.get()
    assert text.index("k12") < text.index("k11") < text.index("k5 ") and "k4 " not in text
    assert "mine.py:12" in text and str(tmp_path) not in text and "4 shorter ones take 13%" in text


@pytest.mark.slow
def test_the_command_as_a_user_gives_it(file):
    figures = file.parent / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "own", "mine.py:alone", "--quick", "--json", str(figures)]
    done = subprocess.run(
        command, cwd=file.parent, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(figures.read_text())["rows"]
    assert row["name"] == "mine.py:alone" and not row["errors"]
    assert set(row["timings"]) == {EAGER, COMPILED}  # the file says nothing of torch
    assert row["first_call"]["first_call_s"] > 0 and row["profile"][0]["us"] > 0
    assert "Where the time of a compiled step goes" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed: nothing beside"
)
def test_a_file_for_pytorch_runs_on_both(tmp_path):
    text = STEP.replace("jtorch", "torch")
    (tmp_path / "mine.py").write_text(text)
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "own", "mine.py:alone", "--quick", "--json", str(figures)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(figures.read_text())["rows"]
    assert set(row["timings"]) == {EAGER, COMPILED, "torch"}
    assert row["notes"] == []  # nothing is drawn, so the losses are the same
