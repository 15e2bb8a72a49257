"""Tensors over mapped files: what is written where."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.each import each
from tests.ops.support import HAS_TORCH

if HAS_TORCH:
    import torch

LIBRARIES = [jtorch, torch] if HAS_TORCH else [jtorch]


def _file(folder, count=4):
    path = folder / "numbers"
    np.arange(count, dtype=np.float64).tofile(path)
    return str(path)


@pytest.mark.parametrize("L", LIBRARIES)
@pytest.mark.parametrize("shared", [False, True])
def test_writes(tmp_path, L, shared):
    path = _file(tmp_path)
    x = L.from_file(path, shared=shared, size=3, dtype=L.float64)
    assert (x.tolist(), x.dtype) == ([0.0, 1.0, 2.0], L.float64)
    x += 5
    assert x.tolist() == [5.0, 6.0, 7.0]
    assert np.fromfile(path).tolist() == ([5.0, 6.0, 7.0, 3.0] if shared else [0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("L", LIBRARIES)
def test_a_shared_file_is_made(tmp_path, L):
    path = str(tmp_path / "new")
    L.from_file(path, shared=True, size=2, dtype=L.int32).fill_(7)
    assert np.fromfile(path, np.int32).tolist() == [7, 7]


def test_errors(tmp_path):
    path = _file(tmp_path, 2)
    with pytest.raises(RuntimeError, match=r"5 elements of jtorch\.float64 are 40 bytes, and .* has 16"):
        jtorch.from_file(path, size=5, dtype=jtorch.float64)
    with pytest.raises(RuntimeError, match="not to cuda"):
        jtorch.from_file(path, size=1, device="cuda")
    with pytest.raises(CompileError, match="maps a file"):
        jtorch.compile(lambda x: x + jtorch.from_file(path, size=1), fullgraph=True)(jtorch.zeros(1))


@each("dtype", ["float32", "bfloat16", "int64"])
def test_is_an_ordinary_tensor(dtype, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("mapped") / "numbers")
    x = jtorch.from_file(path, shared=True, size=2, dtype=getattr(jtorch, dtype))
    x.copy_(jtorch.tensor([1, 2]))
    assert (x * x).tolist() == [1, 4]
    assert jtorch.from_file(path, size=0).shape == (0,)
