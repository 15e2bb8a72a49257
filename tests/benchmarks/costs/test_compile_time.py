import json

import pytest
from rich.console import Console

import jtorch
from benchmarks.cli import main
from benchmarks.contestant import workload_of
from benchmarks.costs import compile_time
from benchmarks.first_call import STAGES, FirstCall, of_function
from benchmarks.models import generated


def call(seconds, stage):
    return FirstCall(seconds, dict.fromkeys(STAGES, stage), kernels=2, equations=120)


def test_the_rest_and_the_rate_are_of_all_stages():
    found = call(1.0, 0.1)
    assert found.rest == pytest.approx(0.4)
    assert found.equations_per_ms == pytest.approx(120 / 600)


@pytest.mark.parametrize("width", [60, 100])
def test_the_tables_fit(width):
    console = Console(width=width)
    row = compile_time.Compiling(workload_of("toy"), call(1.0, 0.1), call(0.1, 0.01))
    with console.capture() as capture:
        compile_time._show(console, [row])
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).split())
    for part in ("toy, cold", "toy, warm", "120", "1.00 s", "100 ms", "400.0", "0.20", "2.00"):
        assert part in words


@pytest.mark.parametrize("equations", [50, 200])
def test_a_stack_has_about_as_many_equations_as_its_name_says(equations):
    program = workload_of(generated.stack_name(equations)).torch_like(jtorch)
    compiled = jtorch.compile(program.step)
    compiled(*program.arguments[0])
    found = of_function(compiled, 1.0)
    assert abs(found.equations - equations) < generated.PER_LAYER
    assert found.kernels <= 6


def test_generated_programs_are_known_by_their_names():
    assert workload_of("mlp-32x2-b8").what == "MLP 64-32-32-10, b8"
    assert generated.perceptron_name(width=32, batch=8, depth=2) == "mlp-32x2-b8"
    assert not any(map(generated.is_one, ("mlp", "mlp-64", "stack", "stack-", "toy")))


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    file = tmp_path / "figures.json"
    assert main(["compile-time", "toy", "--equations", "30", "--json", str(file)]) == 0
    assert "stack-30, warm" in capsys.readouterr().out
    toy, stack = json.loads(file.read_text())["rows"]
    assert (toy["generated"], stack["generated"]) == (False, True)
    for row in (toy, stack):
        assert row["cold"]["equations"] == row["warm"]["equations"] > 0
        assert row["cold"]["kernels"] == row["warm"]["kernels"] > 0
        assert 0 < sum(row["warm"]["stages"].values()) <= row["warm"]["seconds"]
