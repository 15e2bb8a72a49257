"""The same plans on a real device: what no test on the host's memory can show.

``python -m tests.cuda.prove`` runs this where it may not skip, and brings the device.
"""

from __future__ import annotations

import functools
import importlib.util

import numpy as np
import pytest

import jtorch
from benchmarks.workloads import ROWS, transformer
from jtorch.compile.run import device_memory, targets
from jtorch.compile.run.cuda_patch import patch
from jtorch.compile.run.targets import CPU, on_device
from jtorch.core.errors import CudaError
from jtorch.native.cuda.device import Device
from tests.compile.chain import Machine, arguments_of, assert_link, trace
from tests.compile.codegen.cuda_chain import plan_of
from tests.compile.codegen.cuda_programs import MAPS, REDUCTIONS, tensor
from tests.compile.run.test_cuda import PRODUCTS, USES, off, random_draws
from tests.cuda import (
    test_asking,
    test_building_texts,
    test_calls_out,
    test_clocks,
    test_compiled_halves,
    test_loops,
    test_sizes,
    test_while_loops,
)
from tests.cuda.half_products import SHAPES, arguments
from tests.cuda.test_autocast import ByHand, Plain, steps
from tests.cuda.test_compiled import trained as compiled
from tests.cuda.test_tensors import trained
from tests.cuda.texts import COPY
from tests.each import each

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("numba_cuda") is None,
        reason="numba-cuda is not installed (the extra 'cuda')",
    ),
]


@pytest.fixture(scope="module")
def device(request):
    proving = request.config.pluginmanager.get_plugin("prove")
    if proving is not None:
        return proving.device
    try:
        found = Device()
        assert found.blas.handle
    except CudaError as error:
        pytest.skip(str(error))
    return found


@pytest.fixture
def there(device):
    """The device, where tensors lie."""
    device_memory.use(device_memory.DeviceMemory(device))
    try:
        yield device
    finally:
        device_memory.use(None)


def run_both(function, leaves, device, steps: int = 1):
    """(the CPU's outputs, the device's) after some runs."""
    made = trace(function, leaves)
    plan, arguments = plan_of(made), arguments_of(made)
    cpu, cuda = (Machine(plan, target, arguments) for target in (CPU, on_device(device)))
    for _ in range(steps):
        assert cpu.run() == 0 == cuda.run()
    return cpu.outputs, cuda.outputs


def same_bits(expected, found) -> bool:
    return [a.tobytes() for a in expected] == [b.tobytes() for b in found]


PROGRAMS = {**MAPS, **REDUCTIONS, **PRODUCTS}
EXACT = MAPS.keys() - {"special values"}


@each("name", PROGRAMS)
def test_kernels_give_what_those_of_the_cpu_give(name, device):
    expected, found = run_both(*PROGRAMS[name], device)
    assert_link("CPU -> CUDA", expected, found)
    assert name not in EXACT or same_bits(expected, found)


def test_random_draws_are_those_of_the_cpu(device):
    jtorch.manual_seed(3)
    assert same_bits(*run_both(random_draws, [], device))


STEPS = {name: (ROWS[name], 1e-5) for name in ("toy", "rnn_cell", "mlp", "rnn")} | {
    name: (row, row.tolerance.parameters)
    for name, row in (("lenet", ROWS["lenet"]), ("transformer", transformer.WORKLOAD))
}


@each("name", STEPS)
def test_a_training_step_is_that_of_the_cpu(name, device):
    row, tolerance = STEPS[name]
    jtorch.manual_seed(0)
    program = row.torch_like(jtorch)
    expected, found = run_both(program.step, list(program.arguments[0]), device, steps=3)
    assert max(off(a, b) for a, b in zip(expected, found, strict=True)) <= tolerance


def test_a_step_has_the_same_bits_each_time(device):
    found = set()
    for _ in range(5):
        jtorch.manual_seed(0)
        program = ROWS["mlp"].torch_like(jtorch)
        _, outputs = run_both(program.step, list(program.arguments[0]), device, steps=3)
        found.add(b"".join(array.tobytes() for array in outputs))
    assert len(found) == 1


@each("use", USES.values(), ids=list(USES))
def test_compiled_for_a_device_is_what_eager_mode_gives(use, device):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(targets, "chosen", lambda *_: on_device(device))
        found = [t.detach().numpy().copy() for t in use(jtorch.compile)]
    expected = [t.detach().numpy().copy() for t in use(lambda function, **options: function)]
    assert max(off(a, b) for a, b in zip(expected, found, strict=True)) <= 1e-6


def test_eager_training_there_is_that_of_the_cpu(there):
    for net, optimizer in (("perceptron", "Adam"), ("recurrent", "SGD"), ("lenet", "Adam")):
        pairs = zip(trained(net, optimizer, "cpu"), trained(net, optimizer, "cuda"), strict=True)
        assert max((a - b).abs().max().item() for a, b in pairs) <= 1e-5


def test_training_over_time_is_that_of_the_cpu(there):
    whole = functools.partial(jtorch.compile, fullgraph=True)
    for network in (test_loops.NETWORKS["LSTM"], test_loops.NETWORKS["both ways, twice"]):
        expected, found = (compiled(network, "Adam", where, whole)[1] for where in ("cpu", "cuda"))
        assert max((a - b).abs().max().item() for a, b in zip(expected, found, strict=True)) <= 1e-5


@each("name", SHAPES)
def test_products_of_16_bits_are_rounded_once(name, there):
    """Of whole numbers, in any order; cuBLAS is told to add no parts in 16 bits."""
    function = SHAPES[name][0]
    for dtype in (jtorch.float16, jtorch.bfloat16):
        given = arguments(name, dtype)
        expected = function(*(x.float() for x in given)).to(dtype)
        for run in (function, jtorch.compile(function, fullgraph=True)):
            assert jtorch.equal(run(*(x.cuda() for x in given)).cpu(), expected)


@each("name", ("functions", "sums", "products", "windows", "running sums"))
@each("kind", test_compiled_halves.KINDS)
def test_functions_of_16_bits_are_those_of_the_cpu(name, kind, there):
    test_compiled_halves.compared(name, kind)


@each("network", (test_compiled_halves.Narrow, test_compiled_halves.Mixed), ids=lambda n: n.__name__)
def test_training_in_16_bits_is_that_of_the_cpu(network, there):
    test_compiled_halves.learned(network, "Adam")


@each("compiled", [False, True], ids=["eager", "compiled"])
def test_a_step_under_autocast_is_the_one_that_is_cast_by_hand(compiled, there):
    losses, parameters, _ = steps(Plain, "cuda", compiled)
    expected_losses, expected, _ = steps(ByHand, "cuda", compiled)
    assert losses == expected_losses and losses[-1] < losses[0]
    assert all(map(jtorch.equal, parameters, expected))


# -- what parts a plan into several graphs, and what is asked of one -----------------------------------------


@each(
    "name", ("twice", "a view of an argument", "numbers", "many", "beside a library", "of 16 bits", "draws")
)
def test_disabled_functions_get_tensors_where_they_lie(name, there):
    test_calls_out.compared(name)


def test_a_clock_rises(there):
    test_clocks.with_a_clock()


@each("name", ("several", "a_loop_in_a_loop", "rows_by_number", "gradients"))
def test_loops_over_time_are_those_of_the_cpu(name, there):
    test_loops.compared(name, 9)


WHILE = {loop.__name__: loop for loop in test_while_loops.LOOPS}


@each("name", ("halved", "with_a_product", "in_a_scan", "gradients_twice"))
def test_loops_that_elements_end_are_those_of_the_cpu(name, there):
    test_while_loops.compared(WHILE[name])


@each("name", ("several results", "counted", "running sums", "a branch on a size", "a mask"))
def test_sizes_that_move_are_right_at_each_of_them(name, there):
    test_sizes.compared(name)


@each("name", ("batches", "turns"))
def test_training_at_sizes_that_move_is_that_of_the_cpu(name, there):
    test_sizes.recorded_once(name)


def test_stats_change_nothing(there, monkeypatch):
    test_asking.asked(monkeypatch)


@each("name", test_asking.PROFILED)
def test_a_profile_tells_the_times_of_steps(name, there, monkeypatch):
    test_asking.profiled(name, monkeypatch)


def test_a_folder_of_texts_serves_a_machine_without_a_compiler(device, tmp_path, monkeypatch):
    """Other processes, which have the device beside this one."""
    run = test_building_texts.machine(tmp_path, monkeypatch, of_tests=hasattr(device, "fake"))
    test_building_texts.built_and_used(run, tmp_path, monkeypatch)


# -- errors --------------------------------------------------------------------------------------------------


def test_an_error_of_a_kernel_comes_back(device):
    made = trace(lambda weight, ids: [weight[ids] + 1.0], [tensor(5, 3), jtorch.tensor([4, 5])])
    machine = Machine(plan_of(made), on_device(device), arguments_of(made))
    before = [array.copy() for array in machine.outputs]
    status = machine.run()
    assert status and "out of" in machine.runner.failure(status).sentence
    assert same_bits(before, machine.outputs), "nothing of the host's is written"


def test_words_are_set(device):
    words = np.arange(1200) * 7 - 9
    with device.own():
        buffer = device.allocate(words.nbytes)
        patch(device, buffer.address, words.tolist())
        found = np.empty_like(words)
        device.download(found.ctypes.data, buffer.address, found.nbytes)
    np.testing.assert_array_equal(found, words)


def test_a_text_that_the_driver_cannot_compile_is_explained(device):
    with pytest.raises(
        CudaError, match=r"cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX.*The module is that of copy\."
    ):
        device.kernel(COPY.replace("ld.global.f32", "lod.global.f32"), "copy")


def test_a_text_for_newer_drivers_is_refused(device):
    with pytest.raises(CudaError, match="CUDA_ERROR_UNSUPPORTED_PTX_VERSION"):
        device.kernel(COPY.replace(".version 8.0", ".version 99.0"), "copy")
