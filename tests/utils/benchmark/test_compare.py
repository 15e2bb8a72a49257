"""``utils.benchmark.Compare``: the tables are PyTorch's, character by character."""

from __future__ import annotations

import importlib

import pytest

from jtorch.utils.benchmark import Compare
from tests.ops.support import needs_torch

TIMES = {
    (1, "small", "add"): [1.1e-6, 1.2e-6, 1.3e-6], (1, "large", "add"): [4.5e-4, 9.6e-4, 1.1e-4],
    (1, "small", "mul"): [2.3e-6] * 3, (2, "small", "add"): [0.9e-6, 1.0e-6, 1.4e-6],
    (2, "large", "mul"): [1.01e-3, 1.02e-3, 1.00e-3],
}  # fmt: skip


def _table(library, change, env=None):
    benchmark = importlib.import_module(f"{library}.utils.benchmark")
    results = [
        benchmark.Measurement(
            1, times, benchmark.TaskSpec("x", "pass", label="ops", sub_label=size, description=name,
                                         num_threads=threads, env=env and env[threads - 1]),
        )
        for (threads, size, name), times in TIMES.items()
    ]  # fmt: skip
    compare = benchmark.Compare(results)
    change(compare)
    return str(compare)


CHANGES = {
    "plain": lambda c: None,
    "digits": lambda c: c.trim_significant_figures(),
    "columns": lambda c: c.colorize(),
    "rows": lambda c: c.colorize(rowwise=True),
    "warnings": lambda c: c.highlight_warnings(),
    "all": lambda c: (c.trim_significant_figures(), c.colorize(), c.highlight_warnings()),
}


@needs_torch
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("env", [None, ("a", "other")])
def test_equals_pytorch(change, env):
    assert _table("jtorch", CHANGES[change], env) == _table("torch", CHANGES[change], env)


def test_prints_and_takes_measurements_alone(capsys):
    Compare([]).print()
    assert capsys.readouterr().out == "\n"
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`, got <class 'int'> instead"):
        Compare([1])
