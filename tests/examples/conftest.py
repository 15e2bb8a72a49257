from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import jtorch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example(request):
    """The example that the file of the test is named after."""
    name = Path(request.path).stem.removeprefix("test_")
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def default_dtype():
    """Examples that set it are programs of their own."""
    before = jtorch.get_default_dtype()
    yield
    jtorch.set_default_dtype(before)


@pytest.fixture
def in_all_modes(example, capsys):
    """What ``main`` gives and prints, times apart, by the options beside the common ones."""

    def run(common: str, modes: list[str]) -> list[tuple[list[float], list[str]]]:
        found = []
        for mode in modes:
            figures = example.main([*common.split(), *mode.split()])
            lines = capsys.readouterr().out.splitlines()
            found.append((figures, [line for line in lines if " s in " not in line]))
        return found

    return run
