"""CUDA kernels, as PTX, equal the interpreter; where nothing is reordered, the CPU's kernels to the bit."""

from __future__ import annotations

import importlib.util

import pytest

from tests.compile.codegen.cuda_programs import PROGRAMS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program):
    PROGRAMS[program]()
