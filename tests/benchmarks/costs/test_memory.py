import json
import sys

import pytest

import jtorch
from benchmarks.cli import main
from benchmarks.contestant import COMPILED, EAGER
from benchmarks.costs import peak
from benchmarks.workloads import mlp

PARAMETERS = 4 * (64 * 64 + 64 + 64 * 10 + 10)


def measured(contestant):
    return peak.measure(contestant, lambda: mlp.torch_like(jtorch), steps=1)


def test_tensors_are_counted_by_what_they_are(monkeypatch):
    monkeypatch.setattr(peak, "_lower_the_mark", lambda: False)
    found = measured(EAGER)
    state = found.kept.pop("optimizer state")
    assert 2 * PARAMETERS <= state <= 2 * PARAMETERS + 64  # Adam's two moments, and its counts
    assert found.kept == {"parameters": PARAMETERS, "gradients": PARAMETERS}
    assert found.saved > 0 and found.arena is None and found.peak is None


def test_a_plan_has_an_arena(monkeypatch):
    monkeypatch.setattr(peak, "_lower_the_mark", lambda: False)
    found = measured(COMPILED)
    assert found.arena > 0 and found.saved is None


@pytest.mark.skipif(sys.platform != "linux", reason="the high-water mark is Linux's")
def test_the_mark_follows_what_is_allocated():
    before = peak._resident()
    if before is None or not peak._lower_the_mark():
        pytest.skip("the system keeps its mark")
    bytearray(b"x" * 50_000_000)
    assert peak._status("VmHWM") - before > 40_000_000
    assert peak._resident() - before < 40_000_000


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    file = tmp_path / "figures.json"
    assert main(["memory", "lenet", "--quick", "--peers", "", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "lenet, eager" in printed and "lenet, compiled" in printed
    eager, compiled = json.loads(file.read_text())["rows"]
    assert eager["kept"] == compiled["kept"] and compiled["arena"] > 0
    if eager["peak"] is None:
        assert peak.NOT_HERE in " ".join(printed.split())
    else:
        assert eager["peak"] > sum(eager["kept"].values())
