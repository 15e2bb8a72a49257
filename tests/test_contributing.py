"""What CONTRIBUTING.md says to add is all that must be added.

Each of its blocks is appended to its file, in a copy of the source, and then used.
"""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jtorch.core.op import reduction

ROOT = Path(__file__).parents[1]

USES = {
    "an elementwise op": """
        x = jtorch.tensor([-3.0, 0.0, 1.0], dtype=jtorch.float64, requires_grad=True)
        assert x.bell().tolist() == [0.1, 1.0, 0.5]
        assert jtorch.autograd.gradcheck(jtorch.bell, (x,))
        assert jtorch.autograd.gradgradcheck(jtorch.bell, (x,))
        compiled = jtorch.compile(jtorch.bell)
        assert jtorch.allclose(compiled(x), jtorch.bell(x)) and "def map_bell" in compiled.source()
        assert jtorch.bell(jtorch.arange(2)).tolist() == [1.0, 0.5]
    """,
    "a reduction": """
        x = jtorch.tensor([[1.0, 5.0], [3.0, 2.0]])
        compiled = jtorch.compile(lambda x: (x * 2).peak(1))
        assert x.peak().item() == 5.0 and x.peak(0).tolist() == [3.0, 5.0]
        assert compiled(x).tolist() == [10.0, 6.0] and "def row_mul_peak" in compiled.source()
    """,
    "an op with several outputs": """
        x = jtorch.tensor([2.0, 4.0], dtype=jtorch.float64, requires_grad=True)
        assert [t.tolist() for t in jtorch.halves(x)] == [[1.0, 2.0], [-1.0, -2.0]]
        assert jtorch.autograd.gradcheck(jtorch.halves, (x,))
        compiled = jtorch.compile(jtorch.halves)
        assert [t.tolist() for t in compiled(x)] == [[1.0, 2.0], [-1.0, -2.0]]
    """,
    "a module": """
        assert jtorch.nn.Bell()(jtorch.tensor([0.0, 1.0])).tolist() == [1.0, 0.5]
        assert jtorch.nn.Bell.__module__ == "jtorch.nn.activation"
    """,
    "a rewrite": """
        compiled = jtorch.compile(lambda x: x.abs().abs() + 1)
        assert compiled(jtorch.tensor([-2.0])).tolist() == [3.0] and compiled.graph().count("abs(") == 1
    """,
    "a rule of fusion": """
        compiled = jtorch.compile(lambda x: (x * 2).sum())
        assert compiled(jtorch.ones(3)).item() == 6.0 and len(compiled.kernels()) == 2
        assert "products stay apart from sums" in str(compiled.explain())
    """,
    "a target": """
        from jtorch.compile.run import targets
        targets.chosen = lambda *_: targets.COUNTED
        compiled = jtorch.compile(lambda x: x + 1)
        for _ in range(3):
            assert compiled(jtorch.ones(2)).tolist() == [2.0, 2.0]
        assert targets.Counted.runs == 3
    """,
}


def additions():
    """(file, text) of each block, which is for the file that was named last before it."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for block in re.finditer(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield re.findall(r"`(jtorch/[\w/]+\.py)`", text[: block.start()])[-1], block[1]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The source with all of it added; the ops must not stay in the table of this process."""
    folder = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "jtorch", folder / "jtorch", ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in additions():
        with (folder / path).open("a") as file:
            file.write("\n\n" + text)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("what", USES)
def test_what_is_shown_is_all_that_is_needed(copy, what):
    program = "import jtorch\n" + textwrap.dedent(USES[what])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=copy, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_a_reduction_that_kernels_cannot_write_is_refused():
    with pytest.raises(TypeError, match="combine='xor' is none of add, mul, maximum"):

        @reduction(combine="xor")
        def parity(xp, x, *, axis, keepdims):
            return x
