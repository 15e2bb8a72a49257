"""The pages of docs/: their blocks run in order, and print what stands under them.

A page's blocks follow from each other. Those of docs/differences.md stand alone: each is run with jtorch as
``torch``, and with PyTorch where that is installed, and a text with a title says what each of them prints.
"""

import contextlib
import importlib.util
import io
import re
import tempfile
from pathlib import Path

import pytest

import jtorch
import jtorch.training

pytestmark = pytest.mark.usefixtures("as_users_run_it")

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
MNIST = (DOCS.parent / "../shared/data/mnist").resolve()
ALONE = "differences.md"
PAGES = [
    page.relative_to(DOCS).as_posix()
    for page in sorted(DOCS.rglob("*.md"))
    if page.name != ALONE and BLOCK.search(page.read_text())
]

TITLED = r'(?:\n```text title="{}"\n(.*?)^```\n)?'
COMPARED = re.compile(
    r"^```python\n(.*?)^```\n" + TITLED.format("jtorch") + TITLED.format("PyTorch"), re.MULTILINE | re.DOTALL
)
DIFFERENCES = COMPARED.findall((DOCS / ALONE).read_text())

PROCESSES = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
MARKS = {"learn/6_processes_deployment.md": [pytest.mark.slow, PROCESSES]}


def run_blocks(page):
    """(source, what it printed, what the page shows) of each block."""
    namespace = {"__name__": Path(page).stem}
    for match in BLOCK.finditer((DOCS / page).read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(match[1], f"{namespace['__name__']}.py", "exec"), namespace)
        yield match[1], printed.getvalue(), match[2] or ""


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, marks=MARKS.get(page, ())) for page in PAGES])
def test_every_block_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for those that write files
    for source, printed, shown in run_blocks(page):
        assert printed.rstrip() == shown.rstrip(), source


def test_the_page_about_training_on_a_terminal(tmp_path, monkeypatch):
    """There a progress bar is one callback more."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jtorch.training.ProgressBar, "on_terminal", lambda: True)
    for source, printed, shown in run_blocks("training.md"):
        assert printed.rstrip() == shown.rstrip(), source


OURS = re.compile(r"jtorch\.(viz|compile)")


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if re.match(r"learn/[123]_", page)])
@pytest.mark.filterwarnings("ignore")
def test_pages_about_the_dynamic_graph_say_what_pytorch_does(page, request):
    """All but the blocks about what is jtorch's own, and those are the last ones."""
    torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with")
    before = torch.get_num_threads()
    request.addfinalizer(lambda: torch.set_num_threads(before))
    torch.set_num_threads(1)  # more wait for each other where other processes run, for a minute
    namespace = {"__name__": page}
    blocks = [(match[1], match[2] or "") for match in BLOCK.finditer((DOCS / page).read_text())]
    first = next(k for k, (source, _) in enumerate(blocks) if OURS.search(source))
    assert first >= 5
    for source, shown in blocks[:first]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(re.sub(r"\bjtorch\b", "torch", source), namespace)
        assert printed.getvalue().rstrip() == shown.rstrip(), source


@pytest.mark.slow
@pytest.mark.skipif(not MNIST.is_dir(), reason="the MNIST files are not in shared/data/mnist")
def test_the_page_about_lenet_holds_for_mnist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mnist").symlink_to(MNIST)
    for source, printed, shown in run_blocks("learn/4_lenet.md"):
        assert printed.rstrip() == shown.rstrip(), source


def printed_with(torch, source):
    """What a block prints, and the last line of the traceback if it ends in one."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(source, "differences.py", "exec"), {"torch": torch})
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    return printed.getvalue().rstrip()


@pytest.mark.parametrize("block", DIFFERENCES, ids=range(len(DIFFERENCES)))
def test_what_jtorch_prints(block):
    source, ours, _ = block
    assert printed_with(jtorch, source) == ours.rstrip()


@pytest.mark.parametrize("block", [b for b in DIFFERENCES if b[2]], ids=lambda b: b[0].splitlines()[0][:40])
@pytest.mark.filterwarnings("ignore")
def test_what_pytorch_prints(block):
    torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with")
    source, _, theirs = block
    assert printed_with(torch, source) == theirs.rstrip()


def test_links_between_the_pages_lead_somewhere():
    for page in DOCS.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_table_of_ops_is_current():
    from tools import ops_page

    assert ops_page.FILE.read_text() == ops_page.text(), "python -m tools.ops_page writes it anew"


def test_pytorch_has_what_the_table_of_ops_links_to():
    torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with")
    from jtorch.core.op import TABLE
    from tools.ops_page import pytorch_name

    names = [name for op in TABLE if (name := pytorch_name(op))]
    assert len(names) > 100
    for name in names:
        found = torch
        for part in name.split(".")[1:]:
            found = getattr(found, part)


def test_examples_become_code_blocks_of_the_reference():
    pytest.importorskip("griffe", reason="the extra docs is not installed")
    from tools.docstrings import fenced

    text = "Adds.\n\n    >>> 1 + 1\n    2\n\nSource: none\n"
    assert fenced(text) == "Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nSource: none\n"


@pytest.mark.slow
def test_the_reference_has_every_namespace_and_no_name_twice_in_one():
    pytest.importorskip("griffe", reason="the extra docs is not installed")
    from tools.reference import NAMESPACES, page, tensor_page

    for namespace in NAMESPACES:
        entries = re.findall(r"^(?:## |::: ).+$", page(namespace), re.MULTILINE)
        assert entries and len(entries) == len(set(entries)), namespace
    assert "```python\nexp(input, *, out=None) -> Tensor\n```" in page("jtorch")
    assert "```python\nclamp_(self, min=None, max=None)" in tensor_page()


def update():
    """Put what the blocks print today under them: ``python tests/test_docs.py`` after a look at the diff."""
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # for those that write files
            outputs = iter([printed for _, printed, _ in run_blocks(page)])

        def replace(match, outputs=outputs):
            printed = next(outputs).rstrip()
            block = f"```python\n{match[1]}```\n"
            return block + (f"\n```text\n{printed}\n```\n" if printed else "")

        (DOCS / page).write_text(BLOCK.sub(replace, (DOCS / page).read_text()))


if __name__ == "__main__":
    update()
