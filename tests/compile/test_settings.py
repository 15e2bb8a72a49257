"""The debugging ladder on a whole step: fuel, checks, dumps, and the two ways to run without native code."""

from __future__ import annotations

import ast
import logging

import numpy as np
import pytest

import jtorch
from jtorch.compile.graph import passes
from jtorch.compile.record.tree import flatten
from tests.compile.workloads import WORKLOADS


def train(name, compiled, rows=(5, 5)):
    """What two steps give and leave in the parameters."""
    jtorch.manual_seed(0)
    model, _, step, batch = WORKLOADS[name]()
    step = jtorch.compile(step) if compiled else step
    rng = np.random.default_rng(0)
    outs = [t.detach().numpy().copy() for n in rows for t in flatten(step(*batch(n, rng)))[0]]
    return outs + [p.detach().numpy().copy() for p in model.parameters()]


def assert_trains(name):
    for a, b in zip(train(name, True), train(name, False), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.fixture
def plain_python(monkeypatch):
    """Kernels run as Python: whatever fuel leaves unfused is not worth compiling."""
    monkeypatch.setenv("JTORCH_JIT", "0")


def _burned(monkeypatch, name):
    """How much fuel a whole compilation burns."""
    amounts = []

    class Counted(passes.Fuel):
        def __init__(self, amount):
            super().__init__(10**9)
            amounts.append(self)

    from jtorch.compile import pipeline

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "Fuel", Counted)
        train(name, True, rows=(5,))
    return int(10**9 - amounts[0].left)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp_adam", "normed_adamw"])
def test_every_amount_of_fuel_gives_the_same(name, monkeypatch, plain_python):
    most = _burned(monkeypatch, name)
    assert most > 50
    for fuel in sorted({*range(0, 12), *range(12, most, max(1, most // 12)), most - 1, most, most + 1}):
        monkeypatch.setenv("JTORCH_FUEL", str(fuel))
        assert_trains(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_without_any_rewrite_or_fusion(name, monkeypatch, plain_python):
    monkeypatch.setenv("JTORCH_FUEL", "0")
    assert_trains(name)


@pytest.mark.parametrize("name", ["mlp_adam", "lenet", "transformer"])
def test_plain_python_and_checks(name, monkeypatch, plain_python):
    monkeypatch.setenv("JTORCH_CHECK", "1")
    assert_trains(name)


def test_compile_switched_off(monkeypatch):
    monkeypatch.setenv("JTORCH_COMPILE", "0")
    jtorch.manual_seed(0)
    _, _, step, batch = WORKLOADS["mlp_adam"]()
    compiled = jtorch.compile(step)
    compiled(*batch(4, np.random.default_rng(0)))
    assert not compiled.plans


def test_dump_writes_every_stage(monkeypatch, tmp_path):
    monkeypatch.setenv("JTORCH_DUMP", str(tmp_path))
    train("mlp_adam", True, rows=(5,))
    (folder,) = tmp_path.iterdir()
    names = sorted(p.name for p in folder.iterdir())
    stages = [n.split("_", 1)[1].rsplit(".", 1)[0] for n in names]
    assert stages == ["trace", *(p.__name__ for p in passes.PASSES), "final", "plan", "kernels"]
    ast.parse((folder / names[-1]).read_text())
    assert "cross_entropy" not in (folder / names[0]).read_text()  # composites disappear at trace time


def test_log_prints_what_was_asked_for(monkeypatch, caplog):
    monkeypatch.setenv("JTORCH_LOG", "graph")
    with caplog.at_level(logging.INFO, "jtorch"):
        jtorch.compile(lambda x: (x * 2.0).exp())(jtorch.ones(3))
    stage, line = [r for r in caplog.records if r.name == "jtorch.compile"]
    assert "exp(" in stage.getMessage() and stage.levelno == logging.WARNING
    assert line.getMessage().startswith("compiled '<lambda>'") and line.levelno == logging.INFO
