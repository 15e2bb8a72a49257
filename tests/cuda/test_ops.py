"""Every op as a CUDA kernel: its PTX gives what the interpreter gives."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jtorch
from jtorch.eager.tensor import leaf
from tests.compile.codegen.cuda_chain import on_machine
from tests.compile.test_chain import program_of
from tests.each import each
from tests.ops.samples import samples
from tests.ops.support import CASES

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)
NAMES = [name for name, k in (case.values for case in CASES) if k == 0]


@each("name", NAMES, parts=2)
def test_first_sample(name):
    function, arrays = program_of(name, samples(name)[0].cast(np.dtype(np.float32)))
    with jtorch.no_grad():
        on_machine(
            lambda *tensors: [o.clone() for o in function(*tensors)], [leaf(np.array(a)) for a in arrays]
        )
