import json

import numpy as np
import pytest
from rich.console import Console

import jtorch
from benchmarks import tables, tape
from benchmarks.cli import main
from benchmarks.costs import overhead
from benchmarks.program import torch_program
from benchmarks.timing import QUICK
from benchmarks.workloads import ROWS


def test_what_the_tape_keeps_is_counted_once_and_without_parameters_and_data():
    w = jtorch.ones(3, 4, requires_grad=True)

    def forward(x):
        h = (w * x).tanh()  # keeps w and x, which are there anyway, and h: 48 bytes
        return (h * h).sum()

    program = torch_program(jtorch, forward, forward, [(np.ones((3, 4), np.float32),)], {"w": w})
    assert tape.saved_bytes(jtorch, program) == 48


def test_the_parts_of_a_step():
    found = overhead.measure(ROWS["mlp"], QUICK)
    assert found.tape.nodes == 4 and found.saved > 0 and found.has_optimizer
    assert found.step.median > found.backward > 0 and found.optimizer is not None
    assert list(found.stages) == ["guards", "marshalling", "kernels", "wrapping", "call"]
    *parts, call = found.stages.values()
    assert sum(parts) == pytest.approx(call)


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tables, "console", lambda: Console(width=60))
    file = tmp_path / "figures.json"
    assert main(["overhead", "call", "toy", "--quick", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 60
    assert "An eager step" in printed and "marshalling" in printed
    call, toy = json.loads(file.read_text())["rows"]
    assert call["forward_and_backward"] is None and call["backward_s"] is None  # no scalar
    assert toy["optimizer_s"] is None and toy["backward_s"] > 0
    assert toy["tape"]["nodes"] == 6 and toy["compiled_us"]["call"] > 0
