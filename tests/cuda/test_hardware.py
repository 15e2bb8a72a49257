"""The same plans on a real device, where this machine has one: what no test on the host's memory can show."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jtorch
from benchmarks.workloads import ROWS
from jtorch.compile.run.cuda_patch import patch
from jtorch.compile.run.targets import CPU, on_device
from jtorch.core.errors import CudaError
from jtorch.native.cuda.device import Device
from tests.compile.chain import Machine, arguments_of, assert_link, trace
from tests.compile.codegen.cuda_chain import plan_of
from tests.compile.codegen.cuda_programs import MAPS, REDUCTIONS
from tests.each import each

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("numba_cuda") is None,
        reason="numba-cuda is not installed (the extra 'cuda')",
    ),
]


@pytest.fixture(scope="module")
def device():
    try:
        found = Device()
        assert found.blas.handle
    except CudaError as error:
        pytest.skip(str(error))
    return found


def run_both(function, leaves, device, steps: int = 1):
    """(the CPU's outputs, the device's) after some runs."""
    made = trace(function, leaves)
    plan, arguments = plan_of(made), arguments_of(made)
    cpu, cuda = (Machine(plan, target, arguments) for target in (CPU, on_device(device)))
    for _ in range(steps):
        assert cpu.run() == 0 == cuda.run()
    return cpu.outputs, cuda.outputs


PROGRAMS = {name: program for name, program in {**MAPS, **REDUCTIONS}.items() if name != "convolution"}
EXACT = MAPS.keys() - {"special values"}


@each("name", PROGRAMS)
def test_kernels_give_what_those_of_the_cpu_give(name, device):
    expected, found = run_both(*PROGRAMS[name], device)
    assert_link("CPU -> CUDA", expected, found)
    if name in EXACT:
        assert [a.tobytes() for a in expected] == [b.tobytes() for b in found]


def test_random_draws_are_those_of_the_cpu(device):
    jtorch.manual_seed(3)
    expected, found = run_both(lambda: [jtorch.rand(3, 5), jtorch.randn(17)], [], device)
    assert [a.tobytes() for a in expected] == [b.tobytes() for b in found]


@each("name", ["toy", "rnn_cell", "mlp", "rnn"])
def test_a_training_step_is_that_of_the_cpu(name, device):
    jtorch.manual_seed(0)
    program = ROWS[name].torch_like(jtorch)
    expected, found = run_both(program.step, list(program.arguments[0]), device, steps=3)
    for a, b in zip(expected, found, strict=True):
        if a.dtype.kind != "f":
            np.testing.assert_array_equal(b, a)
        elif a.size:
            assert np.abs(a - b).max() <= 1e-5 * np.abs(a).max()


def test_words_are_set(device):
    words = np.arange(1200) * 7 - 9
    with device.own():
        buffer = device.allocate(words.nbytes)
        patch(device, buffer.address, words.tolist())
        found = np.empty_like(words)
        device.download(found.ctypes.data, buffer.address, found.nbytes)
    np.testing.assert_array_equal(found, words)


def test_a_text_that_the_driver_cannot_compile_is_explained(device):
    from tests.cuda.texts import COPY

    with pytest.raises(
        CudaError, match=r"cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX.*The module is that of copy\."
    ):
        device.kernel(COPY.replace("ld.global.f32", "lod.global.f32"), "copy")
