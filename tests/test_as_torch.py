"""``python -m jtorch.as_torch``: what a script sees, what a missing name says, what the report lists."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def run(tmp_path):
    """Run a script, given as text, by as_torch; (return code, output, errors)."""

    def call(text, *arguments, report=False, name="script.py"):
        (tmp_path / name).write_text(textwrap.dedent(text))
        before = ["--report"] if report else []
        done = subprocess.run(
            [sys.executable, "-m", "jtorch.as_torch", *before, name, *arguments],
            capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return call


def test_every_form_of_import_gives_the_same_modules(run):
    code, out, errors = run(
        """
        import sys
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        import torch.backends.cudnn as cudnn
        import torchvision.transforms as T
        from torch import Tensor, nn as nn2, optim
        from torch.autograd import Variable, Function
        from torch.cuda.amp import GradScaler
        from torch.nn.modules.linear import Linear
        from torch.nn.modules.batchnorm import BatchNorm2d
        from torch.nn.modules.utils import _pair
        from torch.nn.parameter import Parameter
        from torch.optim.lr_scheduler import StepLR
        from torch.utils.data import DataLoader
        from torchvision import datasets
        import jtorch
        assert torch is jtorch and nn is nn2 is jtorch.nn and F is jtorch.nn.functional
        assert sys.modules["torch.nn.functional"] is F and Linear is nn.Linear and Tensor is jtorch.Tensor
        assert DataLoader is jtorch.utils.data.DataLoader and StepLR is jtorch.optim.lr_scheduler.StepLR
        assert _pair(3) == (3, 3) and BatchNorm2d is nn.BatchNorm2d
        assert jtorch.nn.__spec__.name == "jtorch.nn"
        assert torch.__version__ >= "1.8" and torch.__version__ >= (2, 0) and not torch.__version__ < "2.13"
        assert isinstance(torch.__version__, str) and torch.__version__.split("+")[1] == "jtorch"
        assert not any(m.startswith("torch.") and "site-packages/torch/" in (getattr(v, "__file__", 0) or "")
                       for m, v in sys.modules.items())
        print(torch.float64, type(torch.ones(1)), torch.ones(1, dtype=torch.float64))
        """
    )
    assert code == 0, errors
    assert out == "torch.float64 <class 'torch.Tensor'> tensor([1.], dtype=torch.float64)\n"


def test_the_script_is_main(run, tmp_path):
    (tmp_path / "beside.py").write_text("import torch\nvalue = torch.arange(3).sum().item()\n")
    code, out, errors = run(
        """
        import sys, beside
        assert sys.path[0].endswith(__file__.rpartition("/")[0]) and __name__ == "__main__"
        print(sys.argv, beside.value, sys.modules["__main__"].__file__)
        sys.exit(7)
        """,
        "--rate",
        "0.1",
    )
    assert (code, out) == (7, f"['script.py', '--rate', '0.1'] 3 {tmp_path / 'script.py'}\n"), errors


@pytest.mark.parametrize("arguments", [["nope.py"], ["--report", "nope.py"], ["--option"], ["-m"], []])
def test_no_script_to_run(arguments):
    done = subprocess.run(
        [sys.executable, "-m", "jtorch.as_torch", *arguments],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert "usage: python -m jtorch.as_torch" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if arguments and arguments != ["-m"]:
        assert f"can't open file {arguments[-1]!r}: no such file" in done.stderr


def test_a_module_by_name(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "tool.py").write_text(
        "import sys, torch\nprint(__name__, sys.argv[1:], torch.ones(1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "jtorch.as_torch", "-m", "package.tool", "x"],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert done.stdout == "__main__ ['x'] tensor([1.])\n", done.stderr


MISSING = {
    "import torch.fft; y = torch.fft.rfft4(1)": "AttributeError: jtorch has no torch.fft.rfft4 (here.py:1)",
    "from torch import blah": "ImportError: jtorch has no torch.blah (here.py:1): not in jtorch yet",
    "from torch.nn.modules.utils import _five": "ImportError: jtorch has no torch.nn.modules.utils._five",
    "import torch.nn.modules.blah": "ModuleNotFoundError: No module named 'torch.nn.modules.blah'",
    "import torch.sigmoidal": "ModuleNotFoundError: No module named 'torch.sigmoidal'",
    "import torch.nn as nn; nn.Blah(3)": "AttributeError: jtorch has no torch.nn.Blah (here.py:1)",
    "from torch.masked import MaskedTensor as t; t(1)": (
        "NotImplementedError: jtorch has no torch.masked.MaskedTensor (here.py:1): masked tensors: not"
    ),
    "import torch.fx; torch.fx.wrap('len'); torch.fx.wrap(len)(3)": "TypeError: object of type 'int' has no",
    "from torch.fx import symbolic_trace as t; t(1)": (
        "NotImplementedError: jtorch has no torch.fx.symbolic_trace (here.py:1): torch's graph format: not"
    ),
}


def test_a_missing_name_says_which_where_and_whether_it_is_planned(run):
    code, out, errors = run(
        f"""
        import linecache
        for text in {list(MISSING)!r}:
            linecache.cache["here.py"] = (len(text), None, [text], "here.py")
            try:
                exec(compile(text, "here.py", "exec"), {{}})
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}")
        """
    )
    assert code == 0, errors
    for line, sentence in zip(out.splitlines(), MISSING.values(), strict=True):
        assert line.startswith(sentence)


def test_what_libraries_of_models_import(run):
    code, out, errors = run(
        """
        import torch.fx
        from torch.jit.annotations import List
        from torch.utils._pytree import tree_map
        torch.fx.wrap("len")
        torch.compiler.allow_in_graph(len)
        print(List[int], tree_map(len, ["ab", {"c": "d"}]))
        """
    )
    assert code == 0, errors
    assert out == "typing.List[int] [2, {'c': 1}]\n"


@pytest.mark.slow
def test_the_traceback_is_that_of_the_script(run):
    code, _, errors = run("import torch\n\ndef f(x):\n    return x.blah()\n\nf(torch.ones(2))\n")
    assert code == 1
    assert [line.split(",")[1] for line in errors.splitlines() if "File" in line] == [" line 6", " line 4"]
    assert "jtorch has no torch.Tensor.blah: not in jtorch yet" in errors
    code, _, errors = run("import torch\ntorch.blah\n")
    assert code == 1
    assert "as_torch" not in errors
    assert "AttributeError: jtorch has no torch.blah (script.py:2): not in jtorch yet" in errors


def test_questions_about_what_is_not_there(run):
    code, _, errors = run(
        """
        import torch
        import torch.distributed as dist
        from torch.utils.tensorboard import SummaryWriter
        assert not hasattr(torch, "blah") and getattr(torch, "blah", 3) == 3
        from torch.distributed.fsdp import FullyShardedDataParallel
        assert dist.is_available() in (True, False) and not dist.is_initialized()
        assert not isinstance(torch.nn.Linear(1, 1), SummaryWriter)
        """
    )
    assert code == 0, errors


def test_report(run):
    code, out, _ = run(
        """
        import torch
        from torch import nn as layers
        import torch.nn.functional as F
        from torch.optim import Adam, Eve
        x = layers.Linear(1, 2)(torch.ones(1)).blah
        y = layers.Quadratic(1)
        if y: F.relu(torch.onnx.fft(x)); layers.Quadratic(2)
        torch.distributed.rpc.init_rpc("a")
        """,
        report=True,
    )
    assert code == 0
    lines = out.splitlines()
    assert [line.partition(": line ")[0] for line in lines[:-1]] == [
        "torch.distributed.rpc.init_rpc", "torch.nn.Quadratic", "torch.onnx.fft", "torch.optim.Eve",
    ]  # fmt: skip
    assert lines[1] == "torch.nn.Quadratic: line 7, 8: not in jtorch yet"
    assert lines[-1].endswith("of which jtorch lacks 4")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_loaders_have_the_names(run, method):
    code, out, errors = run(
        f"""
        import torch
        from torch.utils.data import DataLoader, Dataset
        class Squares(Dataset):
            def __len__(self): return 4
            def __getitem__(self, k):
                import torch.nn.functional as F
                assert torch.__name__ == "jtorch" and F.__name__ == "jtorch.nn.functional"
                return torch.tensor(float(k)) ** 2
        if __name__ == "__main__":
            loader = DataLoader(Squares(), batch_size=2, num_workers=1, multiprocessing_context="{method}")
            print([batch.tolist() for batch in loader])
        """
    )
    assert (code, out) == (0, "[[0.0, 1.0], [4.0, 9.0]]\n"), errors


def test_private_names_that_programs_touch(run):
    code, out, errors = run(
        """
        import unittest
        import torch
        import torch._C
        from torch._C import _log_api_usage_once

        @unittest.skipIf(not torch._nnpack_available(), "NNPACK unavailable")
        class TestNNPack(unittest.TestCase):
            pass

        _log_api_usage_once("here")
        torch._assert(True, "held")
        try:
            torch._assert(torch.zeros(1).bool().any(), "did not hold")
        except AssertionError as error:
            print(error)
        print(torch.backends.nnpack.is_available(), torch._C._get_tracing_state())
        print(torch._shape_as_tensor(torch.zeros(2, 3)).tolist(), torch._C.Generator is torch.Generator)
        with torch.backends.nnpack.flags(enabled=True):
            print(isinstance(torch.ones(1), torch._C._TensorBase))
        try:
            torch._C._cuda_getDeviceCount()
        except AttributeError as error:
            print(error)
        """
    )
    assert code == 0, errors
    *lines, error = out.splitlines()
    assert lines == ["did not hold", "False None", "[2, 3] True", "True"]
    assert "jtorch has no torch._C._cuda_getDeviceCount" in error


@pytest.mark.slow
def test_names_that_torchinfo_and_torchdiffeq_touch(run):
    code, out, errors = run(
        """
        import sys
        import torch
        from torch.jit import ScriptFunction, ScriptModule
        from torch.nn.parameter import is_lazy
        from torch.utils.hooks import RemovableHandle

        print(isinstance(torch.nn.Linear(1, 1), (ScriptFunction, ScriptModule)))
        print([is_lazy(p) for p in torch.nn.LazyLinear(2).parameters()], is_lazy(torch.ones(1)))
        print(isinstance(torch.nn.Linear(1, 1).register_forward_hook(print), RemovableHandle))
        full, empty = (sys.getsizeof(torch.zeros(n).untyped_storage()) for n in (10, 0))
        print(full - empty)
        try:
            torch.linalg.solve(torch.zeros(2, 2), torch.zeros(2))
        except torch._C._LinAlgError:
            print("singular")
        """
    )
    assert (code, out.splitlines()) == (0, ["False", "[True, True] False", "True", "40", "singular"]), errors
