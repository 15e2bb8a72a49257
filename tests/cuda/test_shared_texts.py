"""Texts of kernels from a folder that another machine has filled, where there is no numba-cuda."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import jtorch
from jtorch.compile.run import cuda_texts, device_memory
from jtorch.core.errors import CompileError, CudaError
from jtorch.native import cache, cache_files
from tests.cuda.device import cuda_device
from tests.cuda.marks import compiles

ROOT = Path(__file__).parents[2]
pytestmark = [compiles, pytest.mark.slow]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty one, which the setting names, and a process that has no texts."""
    monkeypatch.setenv("JTORCH_CUDA_TEXTS", str(tmp_path / "texts"))
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(cuda_texts, "_TEXTS", {})
    cuda_texts._plain_text.cache_clear()
    yield tmp_path / "texts"
    cuda_texts._plain_text.cache_clear()
    device_memory.use(None)


def as_new(monkeypatch, compiler: bool):
    """A process of its own, as far as texts go, with or without numba-cuda."""
    monkeypatch.setattr(cuda_texts, "_TEXTS", {})
    monkeypatch.setattr(cuda_texts, "has_compiler", lambda: compiler)
    monkeypatch.setattr(device_memory, "make", cuda_device)
    device_memory.use(None)


def step(x):
    return (x.exp() * 2 + 1).sum(1), x @ x.t()


def test_what_one_machine_has_compiled_runs_on_another(folder, monkeypatch):
    x = jtorch.linspace(-1, 1, 12).reshape(3, 4)
    found = []
    for compiler in (True, False):
        as_new(monkeypatch, compiler)
        before = cache.counters.compiled
        found.append([t.cpu() for t in jtorch.compile(step, fullgraph=True)(x.cuda())])
        assert (cache.counters.compiled > before) is compiler
    assert all(map(jtorch.equal, *found))
    texts = [p.read_bytes() for p in cache_files.entries(folder)]
    assert texts and all(b".visible .entry" in text for text in texts)
    assert [*cache_files.faults(folder)] == []


PROGRAM = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None  # as if it were not installed
import jtorch
from jtorch.compile.run import device_memory
from tests.cuda.device import cuda_device
device_memory.make = cuda_device
x = jtorch.linspace(-1, 1, 12).reshape(3, 4).cuda()
step = jtorch.compile(lambda x: (x.exp() * 2 + 1).sum(1), fullgraph=True)
print(step(x).tolist(), (x * 2 + 1).sum().item())
"""


def test_a_machine_without_numba_runs_them(folder):
    texts = []
    for without in ((), ("numba", "llvmlite", "numba_cuda")):
        command = [sys.executable, "-c", PROGRAM, *without]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout)
    assert texts[0] == texts[1] != ""


def test_a_kernel_that_is_not_there_is_named(folder, monkeypatch):
    as_new(monkeypatch, False)
    x = jtorch.ones(3, 4).cuda()
    with pytest.raises(CompileError, match=r"no text of the kernel jtorch_\w+ in .*texts.*JTORCH_CUDA_TEXTS"):
        jtorch.compile(step, fullgraph=True)(x)


def test_without_a_folder_there_is_no_device(folder, monkeypatch):
    as_new(monkeypatch, False)
    assert jtorch.cuda.is_available()
    monkeypatch.delenv("JTORCH_CUDA_TEXTS")
    as_new(monkeypatch, False)
    assert not jtorch.cuda.is_available()
    with pytest.raises(CudaError, match="compiled by numba-cuda: pip install"):
        device_memory.current()


def test_a_folder_that_others_can_write_is_refused(folder, monkeypatch):
    folder.mkdir()
    folder.chmod(0o777)
    as_new(monkeypatch, True)
    with pytest.raises(CompileError, match=r"JTORCH_CUDA_TEXTS: .*others can write to"):
        jtorch.compile(step, fullgraph=True)(jtorch.ones(3, 4).cuda())
