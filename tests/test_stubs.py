"""What type checkers see of the functions and methods that exist only at run time."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jtorch
from tools import signatures, stubs

ROOT = Path(__file__).parents[1]

GOOD = """
import jtorch as torch
from jtorch import Tensor
from typing_extensions import assert_type

x = torch.randn(3, 4)
assert_type(x, Tensor)
assert_type(x.add(1, alpha=2).mul_(3).reshape(2, 6).sum(dim=0, keepdim=True), Tensor)
assert_type((x + 1) @ x.T, Tensor)
assert_type(-x[0] ** 2 < 1.0, Tensor)
assert_type(torch.cat([x, x], dim=1).softmax(dim=-1).log(), Tensor)
torch.where(x > 0, x, 0.0).sum()
assert_type(torch.allclose(x, x, rtol=1e-3), bool)
x[0] = 1
x += 1
x.requires_grad_().clamp(min=0).mean().backward()
torch.exp(x, out=x)
x.dtype, x.float().int().bool(), torch.int, torch.float32, len(x), x.shape.numel()
"""
BAD = {
    "x.soft_max(0)": '"Tensor" has no attribute "soft_max"',
    "x.clamp(minimum=0)": 'Unexpected keyword argument "minimum" for "clamp"',
    "x.add()": 'Missing positional argument "other"',
    "torch.randnn(3)": 'Module has no attribute "randnn"',
    "torch.softmax(x, dims=0)": 'Unexpected keyword argument "dims" for "softmax"',
    "x.shape.numels()": '"Size" has no attribute "numels"',
}


@pytest.mark.parametrize(
    ("file", "text"),
    [(stubs.METHODS_FILE, stubs.methods_text), (stubs.FUNCTIONS_FILE, stubs.functions_text)],
    ids=["methods", "functions"],
)
def test_the_committed_stub_is_the_one_generated_now(file, text):
    assert file.read_text() == text(), "python -m tools.stubs writes it anew"


def test_functions_have_their_signatures_whoever_was_looked_at_before():
    """In a process that has called none of them, nor looked at a method."""
    program = (
        "from tools.signatures import compiled_now; import inspect, jtorch; "
        "print(inspect.signature(compiled_now(jtorch.absolute)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout.strip()) == (0, "(input, *, out=None)"), done.stderr


def test_every_public_name_of_a_tensor_is_declared():
    declared = set(re.findall(r"^    (?:def )?(\w+)", stubs.METHODS_FILE.read_text(), re.MULTILINE))
    here = (ROOT / "jtorch/eager/tensor.py").read_text()
    written = set(re.findall(r"^    (?:def )?(\w+)", here, re.MULTILINE))
    public = {name for name in dir(jtorch.Tensor) if not name.startswith("_")}
    assert public - declared - written == set()


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda input, *, out=None: 0, "def f(self, *, out: Any = None) -> Any: ..."),
        (lambda *tensors: 0, "def f(self, *tensors: Any) -> Any: ..."),
        (lambda x, dim=(), eps=float("inf"), **rest: 0,
         "def f(self, dim: Any = (), eps: Any = ..., **rest: Any) -> Any: ..."),
    ],
)  # fmt: skip
def test_signatures_as_text(function, text):
    assert signatures.stub_of(function, "f", method=True) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("int | None", "_int | None"),
        ("tuple[Tensor, ...]", "tuple[Tensor, ...]"),
        ("Callable[[Tensor], bool]", "Callable[[Tensor], _bool]"),
        ("dt.dtype | None", "_dtype | None"),
        ("np.random.Generator", "Any"),
        ("Unknown", "Any"),
        (inspect.Parameter.empty, "Any"),
    ],
)
def test_annotations_in_the_names_of_the_stub(given, text):
    assert signatures.annotation(given) == text


def test_an_in_place_method_has_the_arguments_of_its_function():
    text = stubs.METHODS_FILE.read_text()
    assert "def clamp_(self, min: Any = None, max: Any = None) -> Tensor: ..." in text
    assert "def add_(self, other: Any, *early: Any, alpha: Any = 1) -> Tensor: ..." in text


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """What mypy says of GOOD, and of one line of BAD after the other: {line of the file: message}"""
    pytest.importorskip("mypy", reason="mypy is not installed: nothing reads the stubs")
    folder = tmp_path_factory.mktemp("typed")
    good, bad = folder / "good.py", folder / "bad.py"
    good.write_text(GOOD)
    bad.write_text("import jtorch as torch\nx = torch.randn(3)\n" + "\n".join(BAD) + "\n")
    config = str(ROOT / "pyproject.toml")
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--config-file", config]
    done = subprocess.run([*command, str(good), str(bad)], cwd=ROOT, capture_output=True, text=True)
    assert "error:" in done.stdout, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_mypy_accepts_what_is_right(checked):
    assert [line for line in checked.splitlines() if "good.py" in line] == []


@pytest.mark.parametrize("line", BAD)
def test_mypy_rejects_what_is_misspelt(line, checked):
    number = list(BAD).index(line) + 3
    told = [said for said in checked.splitlines() if f"bad.py:{number}:" in said]
    assert any(BAD[line] in said for said in told), checked
