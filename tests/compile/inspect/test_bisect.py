"""Saved programs, and the search for the stage that makes one wrong: planted miscompiles are named."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
from jtorch.compile.graph.passes import Fuel
from jtorch.compile.inspect.bisect import bisect, spread
from jtorch.compile.inspect.repro import Recorder
from jtorch.compile.inspect.stages import Machine
from jtorch.compile.plan.plan import Where
from jtorch.compile.run.targets import PYTHON
from jtorch.native import converted

pytestmark = pytest.mark.slow

# What a repro script gets at its end by these tests: the fault to plant, named by an environment variable.
PLANT = """
import os
from dataclasses import replace
from jtorch.compile.codegen import source as written
from jtorch.compile.graph import passes
from jtorch.compile.plan import memory, tiles
from jtorch.compile.codegen.source import Kernel
from jtorch.compile.run import replay

fault = os.environ.get("PLANT")
if fault == "tiles":  # rows that others compute are read
    tiles._Growing._is_apart = lambda *_: True
if fault == "rule":  # exp(x) = exp(exp(x)) once
    passes._RULES_OF["neg"] = [lambda eqn, define: eqn.inputs[0]]
if fault == "codegen":
    write = written.write_kernel
    def wrong(nest, same):
        kernel = write(nest, same)
        source = kernel.source.replace("exp_f32(", "-exp_f32(")
        return Kernel(kernel.entry, source, kernel.arguments, kernel.errors)
    written.write_kernel = wrong
if fault == "numba":
    word = replay.word_of
    def wrong_word(number):
        return word(replace(number, value=number.value + (number.dtype.kind == "f")))
    replay.word_of = wrong_word
if fault == "memory":
    lay_out = memory.lay_out
    def overlapping(*arguments):
        begins, size = lay_out(*arguments)
        return dict.fromkeys(begins, 0), size
    memory.lay_out = overlapping
if fault == "fusion":  # a kernel of more than one equation computes its exp wrong
    write_nest = written.write_kernel
    def wrong_nest(nest, same):
        kernel = write_nest(nest, same)
        if "exp" in kernel.entry and "sum" in kernel.entry:
            source = kernel.source.replace("exp_f32(", "-exp_f32(")
            kernel = Kernel(kernel.entry, source, kernel.arguments, kernel.errors)
        return kernel
    written.write_kernel = wrong_nest
"""


def program(x, w):
    a = (x @ w) * 1.5
    b = (-(a.exp() + a)).sum(1)
    c = jtorch.tanh(a @ w)
    return b, c @ w, (c * a).sum(0)


def recurrence(x, w):
    for _ in range(32):
        x = (x.flip(0) @ w * 0.1).clamp(-1.0, 1.0)  # plain Python takes a minute for so many tanh
    return x


def _saved(function, rows, columns, folder):
    """A script of a compiled program, which may be told to break it."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, columns)).astype(np.float32) for n in (rows, columns)]
    x, w = map(jtorch.from_numpy, arrays)
    f = jtorch.compile(function)
    f(x, w)
    path = f.save_repro(folder)
    text = path.read_text().replace('if __name__ == "__main__":', PLANT + '\nif __name__ == "__main__":')
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    return _saved(program, 4, 4, tmp_path_factory.mktemp("repro"))


def run(*arguments, plant=""):
    environment = {**os.environ, "PLANT": plant}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def test_a_saved_program_runs_in_every_way(script):
    status, out = run(script)
    assert status == 0 and out.count("the same") == 3
    assert [line.split("  ")[0] for line in out.splitlines()[1:]] == [
        "interpreted", "optimised, interpreted", "source as plain Python", "machine code",
    ]  # fmt: skip


def test_a_saved_program_is_safe_to_load(script):
    arrays = np.load(script.with_suffix(".npz"), allow_pickle=False)
    assert sorted(arrays) == ["input_0", "input_1"] and arrays["input_0"].shape == (4, 4)


def test_nothing_wrong(script):
    status, out = run("-m", "jtorch.compile.inspect.bisect", script)
    assert status == 0 and out.startswith("stage: none")


def test_a_wrong_rule(script):
    status, out = run("-m", "jtorch.compile.inspect.bisect", script, plant="rule")
    assert status == 1 and out.startswith("stage: passes, rewrite ")
    assert "simplify rewrites" in out and "neg(" in out and "test_bisect.py" in out


def test_wrong_source(script):
    status, out = run("-m", "jtorch.compile.inspect.bisect", script, plant="codegen")
    assert status == 1 and out.startswith("stage: codegen")
    assert "= exp(" in out and "first wrong step: map_" in out


def test_a_wrong_fusion(script):
    status, out = run("-m", "jtorch.compile.inspect.bisect", script, plant="fusion")
    assert status == 1 and out.startswith("stage: fusion, rewrite "), out
    assert "fuses [" in out and "exp" in out


def test_wrong_memory(script):
    status, out = run("-m", "jtorch.compile.inspect.bisect", script, plant="memory")
    assert status == 1 and out.startswith("stage: memory plan")


def test_wrong_native_code(script):
    status, out = run("-m", "jtorch.compile.inspect.bisect", script, plant="numba")
    assert status == 1 and out.startswith("stage: machine code")
    assert "= mul(" in out


def test_tiles_that_meet(tmp_path):
    path = _saved(recurrence, 32, 64, tmp_path)
    assert run("-m", "jtorch.compile.inspect.bisect", path)[1].startswith("stage: none")
    status, out = run("-m", "jtorch.compile.inspect.bisect", path, plant="tiles")
    assert status == 1 and out.startswith("stage: tiles"), out


def test_the_links_of_a_planted_program_differ(script):
    status, out = run(script, plant="rule")
    assert status == 1 and "output 0: " in out


def test_a_script_that_makes_no_program(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "jtorch.compile.inspect.bisect", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 2 and "makes no program" in done.stderr


# -- what is saved -----------------------------------------------------------------------------------------


def loaded(path):
    return next(v for v in runpy.run_path(str(path)).values() if isinstance(v, Recorder))


def test_a_training_step_with_random_numbers_and_state(tmp_path):
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.5), nn.Flatten())
    optimizer = jtorch.optim.AdamW(model.parameters(), lr=0.01)

    def step(x, target):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    step = jtorch.compile(step)
    x, target = jtorch.randn(2, 1, 5, 5), jtorch.tensor([1, 3])
    for _ in range(2):
        step(x, target)
    path = step.save_repro(tmp_path / "new folder", x, target)
    assert path.name == "step.py" and path.with_suffix(".npz").exists()
    verdict = bisect(loaded(path))
    assert verdict.stage == "none", verdict


def test_a_forward_with_backward_outside(tmp_path):
    w = jtorch.full((3, 3), 0.5, requires_grad=True)
    f = jtorch.compile(lambda x: ((w @ x).tanh(), float("inf") + x))
    f(jtorch.ones(3, 3))
    path = f.save_repro(str(tmp_path), jtorch.ones(3, 3))
    program = loaded(path)
    assert Path(path).name == "lambda.py" and len(program.outputs) == 3  # two results, one gradient
    assert bisect(program).stage == "none"


@pytest.mark.parametrize("dtype", [jtorch.bfloat16, jtorch.float16], ids=str)
def test_arguments_of_16_bits(dtype, tmp_path):
    f = jtorch.compile(lambda x, w: (x @ w).tanh() @ w)
    x, w = jtorch.randn(5, 4).to(dtype), jtorch.randn(4, 4).to(dtype).requires_grad_()
    f(x, w)
    program = loaded(f.save_repro(tmp_path, x, w))
    for found, given in zip(program.arguments(), (x, w, jtorch.arange(20).cos().to(dtype)), strict=True):
        assert found.dtype == program.inputs[0].dtype
        assert found.tobytes() == given.detach().numpy().tobytes()
    assert bisect(program).stage == "none"


def test_machine_code_multiplies_factors_of_16_bits(tmp_path, monkeypatch):
    """As in a call, so that what is wrong there is found."""
    f = jtorch.compile(lambda x, w: (x @ w) @ w)
    x, w = (jtorch.randn(4, 4).bfloat16() for _ in range(2))
    f(x, w)
    program = loaded(f.save_repro(tmp_path, x, w))
    of_float16 = converted.kernel("f16")
    monkeypatch.setattr(converted, "kernel", lambda kind: of_float16)
    verdict = bisect(program)
    assert verdict.stage == "machine code" and "= matmul(" in verdict.told


def test_spread_memory_shares_nothing(script):
    program = loaded(script)
    plan = spread(program.planned(Fuel(-1)))
    places = [p.at for p in plan.places.values() if p.kind is Where.ARENA]
    assert len(places) == len(set(places))
    assert plan.arena_bytes >= program.planned(Fuel(-1)).arena_bytes
    arguments = program.arguments()
    for a, b in zip(
        Machine(plan, PYTHON, arguments).run(),
        Machine(program.planned(Fuel(-1)), PYTHON, arguments).run(),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
