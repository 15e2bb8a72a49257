"""The documents at the root say what is true: their code runs, their paths and settings exist."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cli import ACCURACY, BUSY, EAGER, NAMES, parser
from jtorch.core.config import SETTINGS

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")


def blocks(document, language):
    text = (ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_code_of_the_readme_runs(tmp_path, capsys):
    """Its blocks follow from each other, so they run as one program."""
    file = tmp_path / "readme.py"
    file.write_text("\n".join(blocks("README.md", "python")))
    runpy.run_path(str(file))
    printed = capsys.readouterr().out
    first, last = map(float, re.search(r"loss (\S+) -> (\S+)", printed).groups())
    assert last < first
    assert "def step(" in printed and "NllLossBackward0" in printed


def test_the_first_program_of_the_readme_is_short():
    lines = [line for line in blocks("README.md", "python")[0].splitlines() if line.strip()]
    assert len(lines) <= 15


ADDED = """
import jtorch

x = jtorch.tensor([-3.0, 0.0, 1.0], dtype=jtorch.float64, requires_grad=True)
assert x.bell().tolist() == [0.1, 1.0, 0.5]
assert jtorch.autograd.gradcheck(jtorch.bell, (x,)) and jtorch.autograd.gradgradcheck(jtorch.bell, (x,))
compiled = jtorch.compile(jtorch.bell)
assert jtorch.allclose(compiled(x), jtorch.bell(x)) and "def map_bell" in compiled.source()
assert jtorch.bell(jtorch.arange(2)).tolist() == [1.0, 0.5]
"""


def test_the_op_shown_is_one_that_works(tmp_path):
    """In a copy of the source: the op must not stay in the table."""
    shutil.copytree(ROOT / "jtorch", tmp_path / "jtorch", ignore=shutil.ignore_patterns("__pycache__"))
    for block, folder in zip(blocks("CONTRIBUTING.md", "text"), ("ops/xp", "ops"), strict=True):
        with (tmp_path / "jtorch" / folder / "elementwise.py").open("a") as file:
            file.write("\n\n" + block)
    done = subprocess.run(
        [sys.executable, "-c", ADDED], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_exist(document):
    text = (ROOT / document).read_text()
    paths = re.findall(r"`((?:jtorch|tests|benchmarks|examples|tools|docs)/[\w./]*)`", text)
    assert paths
    assert [p for p in paths if not (ROOT / p).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_settings_and_workloads_exist(document):
    text = (ROOT / document).read_text()
    settings = set(re.findall(r"JTORCH_([A-Z]+)", text))
    assert settings <= set(SETTINGS)
    for command in re.findall(r"python -m benchmarks((?: [\w.,-]+)*)", text):
        assert set(parser().parse_args(command.split()).workloads) <= {*NAMES, EAGER, BUSY, ACCURACY}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_installs_another_project(document):
    """The name on the public package index belongs to somebody else."""
    assert not re.search(r"pip install\s+(?:-\S+\s+)*jtorch(?![-\w])", (ROOT / document).read_text())
