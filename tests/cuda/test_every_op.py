"""Each op with a kernel text, in each dtype: NumPy's body, the CPU's kernel and PTX give the same numbers."""

from __future__ import annotations

import importlib.util

import ml_dtypes
import numpy as np
import pytest

import jtorch
from jtorch.compile.run.targets import CPU
from jtorch.core.op import TABLE, Kind
from jtorch.eager.tensor import leaf
from tests.compile.chain import arguments_of, assert_link, by_numpy, copies, execute, trace, values_of
from tests.compile.codegen.cuda_chain import plan_of
from tests.compile.test_chain import program_of
from tests.cuda.plans import on_ptx_machine
from tests.each import each
from tests.ops.samples import samples
from tests.ops.sampling import Sample

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)
FLOATS = [np.dtype(d) for d in ("float32", "float64", "float16", ml_dtypes.bfloat16)]
DTYPES = FLOATS + [np.dtype(d) for d in ("int64", "int32", "int16", "int8", "uint8", "bool")]
HALVES = FLOATS[2:]
CALLS = {"full", "index_add", "fold", "strided_add"}  # of 16 bits they are library calls, and no kernels
OPS = {op.name: op for op in TABLE if op.text or op.integer_text or op.kind is Kind.REDUCTION}


def of_dtype(sample: Sample, dtype: np.dtype) -> Sample:
    """The sample with its floats in ``dtype``: as integers tenfold, and never 0, by which some ops divide."""
    if dtype in FLOATS:
        return sample.cast(dtype)

    def cast(a: np.ndarray) -> np.ndarray:
        if dtype.kind == "b":
            return a > 0
        tenfold = np.trunc(np.nan_to_num(a, posinf=9, neginf=-9) * 10).astype(np.int64)
        return np.where(tenfold == 0, 1, tenfold).astype(dtype)

    args = [cast(a) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in sample.args]
    statics = Sample((), sample.statics).cast(dtype).statics
    return Sample(tuple(args), statics, sample.constant, sample.symmetric)


def compared(name: str, dtype: np.dtype) -> bool:
    """Whether the op takes the dtype; its results on all three ways are compared."""
    function, arrays = program_of(name, of_dtype(samples(name)[0], dtype))
    leaves = [leaf(np.array(a)) for a in arrays]
    with jtorch.no_grad():
        try:
            with by_numpy():
                jtorch.manual_seed(1)
                eager = values_of(function(*copies(leaves)))
        except (RuntimeError, TypeError, ValueError):
            return False
        jtorch.manual_seed(1)
        made = trace(lambda *tensors: [out.clone() for out in function(*tensors)], leaves)
    plan, arguments = plan_of(made), arguments_of(made)
    if name in CALLS and dtype in HALVES:
        assert any(task.nest is None for task in plan.tasks), "there is a kernel: it is to be compared, too"
        return False
    assert all(task.nest is not None for task in plan.tasks), "a library call is in it, and no kernel"
    cpu, ptx = (execute(plan, target, arguments) for target in (CPU, on_ptx_machine()))
    where = f"{name} of {dtype}"
    assert_link(f"eager -> CPU, {where}", eager, cpu[: len(eager)])
    assert_link(f"CPU -> PTX, {where}", cpu, ptx)
    if OPS[name].kind is not Kind.REDUCTION:
        assert [a.tobytes() for a in cpu] == [b.tobytes() for b in ptx], f"{where}: other bits"
    return True


@pytest.mark.slow
@each("name", OPS, parts=4)
def test_in_each_dtype(name):
    assert [dtype for dtype in DTYPES if compared(name, dtype)], "no dtype is taken"
