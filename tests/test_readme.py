"""The documents at the root say what is true: their code runs, their paths and settings exist."""

import re
import runpy
from pathlib import Path

import pytest

from benchmarks.cli import parse
from jtorch.core.config import SETTINGS

pytestmark = pytest.mark.usefixtures("as_users_run_it")

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/figures.md")


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


def test_the_readme_is_read_in_one_sitting():
    assert (ROOT / "README.md").stat().st_size <= 6 * 1024


def test_rows_of_the_readme_are_those_of_the_page_of_figures():
    """(step, eager, compiled, PyTorch eager, torch.compile, jax.jit), without what one thread took."""

    def rows(document):
        lines = (ROOT / document).read_text().splitlines()
        cells = [[cell.partition(" (")[0].strip() for cell in line.split("|")[1:-1]] for line in lines]
        return [row for row in cells if len(row) > 5 and any("us" in cell or "ms" in cell for cell in row)]

    measured = [[*row[:4], *row[5:7]] for row in rows("docs/figures.md") if len(row) == 8]
    shown = rows("README.md")
    assert len(shown) == 5 and all(row in measured for row in shown)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(document):
    text = (ROOT / document).read_text()
    links = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", text)
    assert links and [link for link in links if not (ROOT / link).exists()] == []


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
        parse(command.split())  # exits for a command or an option that is none


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_installs_another_project(document):
    """The name on the public package index belongs to somebody else."""
    assert not re.search(r"pip install\s+(?:-\S+\s+)*jtorch(?![-\w])", (ROOT / document).read_text())


def test_the_page_of_the_picture_can_be_made(tmp_path):
    """The browser that takes the picture is not needed for that."""
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    from tools import picture

    assert "<script" in picture.write_page(tmp_path).read_text()
    assert picture.FILE.stat().st_size < 200_000
