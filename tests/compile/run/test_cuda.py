"""Plans on a CUDA device: the driver's calls go to a device on the host's memory, which runs the kernels'
PTX."""

from __future__ import annotations

import gc
import importlib.util
import re
import sys

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from benchmarks.workloads import ROWS, transformer
from jtorch import nn
from jtorch.compile.codegen import cuda_build
from jtorch.compile.run import cuda_graph, cuda_products, cuda_table, cuda_texts, targets
from jtorch.compile.run.cuda_patch import patch
from jtorch.compile.run.targets import CPU, on_device
from jtorch.core.errors import CompileError, CudaError
from jtorch.native import cache_files
from tests.compile.chain import Machine, arguments_of, assert_link, trace
from tests.compile.codegen.cuda_chain import plan_of
from tests.compile.codegen.cuda_programs import MAPS, REDUCTIONS, X, integers, tensor
from tests.cuda.device import FakeDevice, cuda_device
from tests.each import each

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)
STEP_TOLERANCE = 3.9e-7  # of the largest element of each tensor, after two steps


def machines(function, leaves, seed: int = 0):
    """(on the CPU, on a device) of one program; the device asks its driver for each piece of memory."""
    made = trace(function, leaves)
    plan, arguments = plan_of(made), arguments_of(made)
    device = cuda_device(FakeDevice(seed), caching=False)
    return Machine(plan, CPU, arguments), Machine(plan, on_device(device), arguments)


def off(expected: np.ndarray, found: np.ndarray) -> float:
    """The largest difference, of the largest element; integers must be equal."""
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return 0.0
    if not expected.size:
        return 0.0
    largest = float(np.abs(expected).max()) or 1.0
    return float(np.abs(expected.astype(np.float64) - found).max()) / largest


def both(name: str, steps: int):
    """(the machine of the CPU, that on the device) after some steps of a workload."""
    jtorch.manual_seed(0)
    program = ROWS.get(name, transformer.WORKLOAD).torch_like(jtorch)
    cpu, cuda = machines(program.step, list(program.arguments[0]))
    for _ in range(steps):
        assert cpu.run() == 0 == cuda.run()
    return cpu, cuda


def workload(name: str, steps: int):
    """(the machine on the device, how far each output is from the CPU's) after some steps of a workload."""
    cpu, cuda = both(name, steps)
    return cuda, [off(a, b) for a, b in zip(cpu.outputs, cuda.outputs, strict=True)]


def assert_but_for_parameters(name: str, tolerance: float) -> None:
    """All else is within 2e-6 after a step. Where a gradient is nearly 0 Adam's first step divides it by its
    own size, so another order of sums, which processors have, moves the parameter by another step."""
    machine, found = workload(name, 1)
    plan = machine.runner.plan
    inputs = [np.abs(a).max() for a in machine.inputs]
    moved = {d.index for d in plan.destinations if d.kind == "write" and inputs[d.index] > 0}
    for distance, destination in zip(found, plan.destinations, strict=True):
        is_parameter = destination.kind == "write" and destination.index in moved
        assert distance <= (tolerance if is_parameter else 2e-6)


# -- training steps ------------------------------------------------------------------------------------------


@pytest.mark.slow
@each("name", ["toy", "rnn_cell", "mlp"])
def test_a_training_step_is_that_of_the_cpu(name):
    """Elements of parameters whose gradient is nearly 0 are not looked at: see above."""
    cpu, cuda = both(name, 2)
    writes = [k for k, d in enumerate(cuda.runner.plan.destinations) if d.kind == "write"]
    # parameters are written first, their gradients given last
    n = len(cpu.outputs) - 1 - writes[-1] if writes else 0
    sizes = dict(zip(writes[:n], map(np.abs, cpu.outputs[len(cpu.outputs) - n :]), strict=True))
    for k, (a, b) in enumerate(zip(cpu.outputs, cuda.outputs, strict=True)):
        if k in sizes:
            counts = (sizes[k] > 1e-3 * sizes[k].max()) | (sizes[k] == 0)
            assert counts.shape == a.shape and counts.mean() > 0.9
            a, b = a[counts], b[counts]
        assert off(a, b) <= STEP_TOLERANCE


@pytest.mark.slow
def test_a_network_over_time_is_that_of_the_cpu():
    """Adam keeps squares of gradients, which are off by twice as much."""
    _, found = workload("rnn", 2)
    assert max(found) <= 2 * STEP_TOLERANCE


@pytest.mark.slow
def test_a_convolutional_network_is_that_of_the_cpu():
    """Its products add up to 36,864 terms, and Adam keeps squares of them."""
    assert_but_for_parameters("lenet", 1e-5)


@pytest.mark.slow
def test_a_transformer_is_that_of_the_cpu():
    assert_but_for_parameters("transformer", transformer.WORKLOAD.tolerance.parameters)


def test_adam_of_all_parameters_is_one_launch_and_a_step_is_one_graph():
    machine, _ = workload("mlp", 1)
    assert machine.runner.graph.launched[-2:] == [("map_sub_mul_add_9_more_sub", 4), ("map_add", 4)]
    calls = machine.runner.device.fake.calls
    before = len(calls)
    assert machine.run() == 0
    assert [c for c in calls[before:] if "Launch" in c] == ["cuLaunchKernel", "cuGraphLaunch"]
    assert "cuMemAlloc_v2" not in calls[before:]


def random_draws():
    return [jtorch.rand(3, 5), jtorch.randn(17), jtorch.randint(2, 9, (11,)), jtorch.empty(9).exponential_()]


PROGRAMS = {**MAPS, **REDUCTIONS, "random": (random_draws, [])}
PROGRAMS = {
    name: PROGRAMS[name]
    for name in (
        "random", "dropout", "softmax", "sums", "cross_entropy", "where, cast, bool", "integers", "cat",
        "gather", "embedding backward", "layer_norm", "of nothing", "empty", "float64", "any, all",
    )
}  # fmt: skip
EXACT = {"dropout", "random"} | MAPS.keys()


@pytest.mark.slow
@each("name", PROGRAMS)
def test_kernels_give_what_those_of_the_cpu_give(name):
    """Maps, scatters and random draws to the bit."""
    jtorch.manual_seed(3)
    cpu, cuda = machines(*PROGRAMS[name])
    assert cpu.run() == 0 == cuda.run()
    assert_link("CPU -> CUDA", cpu.outputs, cuda.outputs)
    if name in EXACT:
        assert [a.tobytes() for a in cpu.outputs] == [b.tobytes() for b in cuda.outputs]


def convolved(x, w):
    out = F.conv2d(x, w, padding=1)
    (out * out).sum().backward()
    return [out, x.grad, w.grad]


def attention(q, k, v):
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    (out * out).sum().backward()
    return [out, q.grad, k.grad, v.grad]


PRODUCTS = {
    "matmul": (lambda x, y: [x @ y, x.t() @ x, (y @ x).t() @ x.t()], [tensor(3, 5), tensor(5, 3)]),
    "float64": (lambda x: [x @ x.t()], [tensor(3, 5, dtype=np.float64)]),
    "batches": (lambda x, y: [x @ y, x.transpose(1, 2) @ x], [tensor(4, 3, 5), tensor(4, 5, 2)]),
    "heads": (
        lambda q, k: [q.view(2, 3, 4, 5).transpose(1, 2) @ k.view(2, 3, 4, 5).permute(0, 2, 3, 1)],
        [tensor(2, 3, 20), tensor(2, 3, 20, seed=1)],
    ),
    "several inner axes": (
        lambda x, y: [jtorch.einsum("abc,acb->a", x, y)],
        [tensor(3, 4, 5), tensor(3, 5, 4)],
    ),
    "vectors": (lambda x, y: [x @ y, x.outer(y)], [tensor(6), tensor(6, seed=1)]),
    "nothing": (lambda x, y: [x @ y, y @ x], [tensor(3, 0), tensor(0, 3)]),
    "one element": (lambda x: [x @ x], [tensor(1, 1)]),
    "windows": (lambda x, w: [F.conv2d(x, w, stride=2)], [tensor(2, 3, 7, 6), tensor(4, 3, 3, 2, seed=1)]),
    "windows in groups": (
        lambda x, w: [F.conv1d(x, w, padding=1, groups=2)],
        [tensor(2, 4, 9), tensor(6, 2, 3, seed=1)],
    ),
    "windows of both": (
        lambda x: [x.unfold(0, 4, 1) @ x.unfold(0, 4, 1).t()],
        [tensor(9, dtype=np.float64)],
    ),
    "repeated": (lambda x: [x.expand(3, 4) @ x.t()], [tensor(1, 4)]),
    "every second": (lambda x: [x[::2, ::2] @ x[1::2, ::2].t()], [tensor(6, 6)]),
    "attention, backward": (attention, [tensor(2, 3, 4, 5, seed=k, grad=True) for k in range(3)]),
    "convolution, backward": (
        convolved,
        [tensor(2, 3, 6, 5, grad=True), tensor(4, 3, 3, 3, seed=1, grad=True)],
    ),
}


@pytest.mark.slow
@each("name", PRODUCTS)
@each("call", [cuda_products._CALL, 0], ids=["copies", "calls"])
def test_products_are_in_the_order_of_the_rows(name, call):
    """Factors are copied where that saves calls, or where cuBLAS cannot walk them alone."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cuda_products, "_CALL", call)
        cpu, cuda = machines(*PRODUCTS[name])
    assert cpu.run() == 0 == cuda.run()
    assert_link("CPU -> CUDA", cpu.outputs, cuda.outputs)


@pytest.mark.slow
def test_any_order_of_a_graph_gives_the_same_bits():
    jtorch.manual_seed(0)
    program = ROWS["mlp"].torch_like(jtorch)
    found = set()
    for seed in range(3):
        _, cuda = machines(program.step, list(program.arguments[0]), seed)
        assert cuda.run() == 0
        found.add(tuple(array.tobytes() for array in cuda.outputs))
    assert len(found) == 1


@each("high", [5, 6])
def test_where_a_kernel_reports_an_error_nothing_of_the_hosts_is_written(high):
    weight = tensor(5, 3)

    def step(ids):
        weight.mul_(2.0)
        return [weight[ids] + 1.0]

    cpu, cuda = machines(step, [jtorch.tensor([4, high - 1])])
    before = [array.copy() for array in (*cuda.inputs, *cuda.outputs)]
    statuses = cpu.run(), cuda.run()
    assert (statuses[0] == 0) == (statuses[1] == 0) == (high == 5)
    same = [np.array_equal(a, b) for a, b in zip((*cuda.inputs, *cuda.outputs), before, strict=True)]
    assert all(same) == (high == 6)
    if high == 6:
        failures = (m.runner.failure(status) for m, status in zip((cpu, cuda), statuses, strict=True))
        assert len({failure.sentence for failure in failures}) == 1


class Noting(FakeDevice):
    """Notes the instruction of the library that each copy to the host is made by."""

    def __init__(self):
        super().__init__()
        self.spots = []

    def cuMemcpyDtoHAsync_v2(self, *arguments):  # noqa: N802 - its name
        frame = sys._getframe(1)
        self.spots.append((frame.f_code.co_name, id(frame), frame.f_lasti, self.runner and self.runner.ended))
        return super().cuMemcpyDtoHAsync_v2(*arguments)


def test_what_a_run_writes_is_written_by_one_instruction():
    """So Ctrl-C comes before all of it, or after."""
    made = trace(lambda x: [x * 2.0, x + 1.0, x.sum(1)], [X])
    fake = Noting()
    fake.runner = None
    machine = Machine(plan_of(made), on_device(cuda_device(fake)), arguments_of(made))
    fake.runner = machine.runner
    for ended in range(2):
        assert machine.run() == 0
        assert len(fake.spots) == 3 and len(set(fake.spots)) == 1
        assert fake.spots[0][0] == "finish" and fake.spots[0][-1] == ended
        fake.spots.clear()
    assert machine.runner.ended == 2


def test_a_run_whose_results_do_not_arrive_has_not_ended():
    _, cuda = machines(lambda x: [x * 2.0, x + 1.0], [X])
    assert cuda.run() == 0
    last = cuda.runner.downloads[-1]
    cuda.runner.downloads[-1] = last._replace(address=last.address + (1 << 40))
    with pytest.raises(CudaError, match="is no address of device memory"):
        cuda.run()
    assert cuda.runner.ended == 1


# -- through the decorator -----------------------------------------------------------------------------------


@pytest.fixture
def device(monkeypatch):
    """What is compiled is for a device meanwhile. Python collects no garbage: what Numba has it call for
    types that go would be seen by a recording, as if the function did it."""
    device = cuda_device()
    target = on_device(device)
    monkeypatch.setattr(targets, "chosen", lambda *_: target)
    gc.collect()
    gc.disable()
    yield device
    gc.enable()


def training(steps: int):
    """(losses, parameters, kept gradients) of a compiled training with dropout whose rate of learning
    falls."""
    jtorch.manual_seed(7)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 4))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)
    schedule = jtorch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    @jtorch.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses, kept = [], []
    for k in range(steps):
        losses.append(step(tensor(5, 6, seed=k), integers(4, 5, seed=k)).item())
        kept.append(model[0].weight.grad)
        schedule.step()
    return losses, [p.detach().numpy() for p in model.parameters()], [g.numpy() for g in kept]


@pytest.mark.slow
def test_a_training_is_that_of_the_cpu(device):
    losses, parameters, kept = training(5)
    assert device.fake.calls.count("cuGraphLaunch") >= 4
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(targets, "chosen", lambda *_: CPU)
        expected = training(5)
    np.testing.assert_allclose(losses, expected[0], rtol=1e-6)
    for a, b in zip((*expected[1], *expected[2]), (*parameters, *kept), strict=True):
        assert off(a, b) <= 2e-6
    assert len({g.tobytes() for g in kept}) == 5, "a gradient that was kept is that of its step"


def test_numbers_of_the_call_and_draws_travel_as_parameters(device):
    jtorch.manual_seed(1)
    drawn = jtorch.compile(lambda x, scale: (jtorch.rand(4) + x) * scale)
    found = [drawn(tensor(4), scale).numpy() for scale in (0.5, 0.25, 3.0)]
    jtorch.manual_seed(1)
    for scale, array in zip((0.5, 0.25, 3.0), found, strict=True):
        np.testing.assert_array_equal(array, ((jtorch.rand(4) + tensor(4)) * scale).numpy())
    assert device.fake.calls.count("cuGraphInstantiateWithFlags") == 1


WEIGHT = tensor(4, 4, seed=9, grad=True)


def differentiated_outside(mode):
    WEIGHT.grad = None
    mode(lambda x: (x @ WEIGHT).tanh())(tensor(3, 4)).sum().backward()
    return [WEIGHT.grad]


def accumulated(mode):
    WEIGHT.grad = None

    @mode
    def step(x):
        loss = (x @ WEIGHT).sum()
        loss.backward()
        return loss

    return [*(step(tensor(2, 4, seed=k)) for k in range(3)), WEIGHT.grad]


def running_statistics(mode):
    norm = nn.BatchNorm1d(4)
    forward = mode(lambda x: norm(x))
    return [*(forward(tensor(6, 4, seed=k)) for k in range(3)), norm.running_mean, norm.num_batches_tracked]


def branches(mode):
    function = mode(lambda x: x * 2.0 if x.sum() > 0 else x - 1.0)
    return [function(x) for x in (tensor(3), -tensor(3), tensor(3))]


def in_place(mode):
    x = tensor(4)
    return [mode(lambda x: x.mul_(3.0))(x), x]


USES = {
    "differentiated outside": differentiated_outside,
    "accumulated": accumulated,
    "running statistics": running_statistics,
    "branches": branches,
    "in place": in_place,
    "dynamic": lambda mode: [mode(lambda x: x * 2.0 + x.sum(), dynamic=True)(tensor(n)) for n in (3, 5, 8)],
    "transposed argument": lambda mode: [mode(lambda x: x * 2.0)(tensor(4, 6).t())],
    "one argument twice": lambda mode: [mode(lambda x, y: x * y)(*[tensor(4)] * 2)],
    "no op": lambda mode: [mode(lambda x: x)(tensor(4))],
    "constants": lambda mode: [mode(lambda: jtorch.zeros(3) + 1.0)()],
}


@pytest.mark.slow
@each("use", USES.values(), ids=list(USES))
def test_compiled_for_a_device_is_what_eager_mode_gives(use, device):
    found = [t.detach().numpy().copy() for t in use(jtorch.compile)]
    expected = [t.detach().numpy().copy() for t in use(lambda function, **options: function)]
    for a, b in zip(expected, found, strict=True):
        assert off(a, b) <= 1e-6


def test_arguments_of_another_size_have_a_graph_of_their_own(device):
    double = jtorch.compile(lambda x: x * 2.0)
    for n in (3, 4, 5, 4, 5):
        np.testing.assert_array_equal(double(tensor(n)).numpy(), 2 * tensor(n).numpy())
    assert device.fake.calls.count("cuGraphInstantiateWithFlags") == 3
    assert sum(map(len, double.plans.values())) == 2  # the first is of its size alone


def test_an_error_of_the_device_is_raised_and_not_computed_elsewhere(device):
    double = jtorch.compile(lambda x: x * 2.0)
    double(tensor(3))
    device.fake.memory.allocations[0].room[0] = 0  # a guard byte
    with pytest.raises(CudaError, match="something wrote beside"):
        double(tensor(3))


def test_a_disabled_callee_of_what_lies_on_the_host_gets_and_gives_that(device):
    seen = []

    @jtorch.compiler.disable
    def callee(x):
        seen.append(x.device.type)
        return x + 1.0

    step = jtorch.compile(lambda x: callee(x * 2.0) * 3.0)
    for seed in range(3):
        x = tensor(3, seed=seed)
        np.testing.assert_array_equal(step(x).numpy(), (x * 2.0 + 1.0).numpy() * 3.0)
    assert seen == ["cpu"] * 3 and device.fake.calls.count("cuGraphInstantiateWithFlags") == 2


# -- what is refused -----------------------------------------------------------------------------------------


def test_products_of_other_numbers_are_refused(monkeypatch):
    monkeypatch.setattr("jtorch.compile.run.cuda_products.DTYPES", frozenset({np.dtype(np.float64)}))
    with pytest.raises(
        CompileError, match="'matmul' of float32 to float32 on a CUDA device: cuBLAS has none"
    ):
        machines(lambda x: [x @ x], [tensor(3, 3)])


def test_without_numba_cuda_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(cuda_texts, "_TEXTS", {})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match=r"compiled by numba-cuda: pip install 'jtorch-compile\[cuda\]'"):
        machines(lambda x: [x * 2.0], [X])


# -- texts on disk -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_process_compiles_nothing(monkeypatch, tmp_path, caplog):
    """Nor one that lost what it knew, unless what is on the disk is damaged."""
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(cache_files, "_warned", set())
    found = []
    for damaged in (False, False, True):
        monkeypatch.setattr(cuda_texts, "_TEXTS", {})
        for path in (tmp_path / "kernels").glob("*/*_table_*.kernel") if damaged else ():
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        _, cuda = machines(lambda x: [x.softmax(-1), x * 2.0], [X])
        assert cuda.run() == 0
        found.append((cuda.runner.compiled, [array.tobytes() for array in cuda.outputs]))
    assert [compiled for compiled, _ in found] == [1, 0, 1]
    assert found[0][1] == found[1][1] == found[2][1]
    assert "is damaged" in caplog.text


# -- planted faults ------------------------------------------------------------------------------------------


def two_layers(x, w):
    return [((x @ w).tanh() @ w).sum(0)]


LAYERS = [tensor(4, 4), tensor(4, 4, seed=1)]


def test_each_edge_of_a_graph_is_needed(monkeypatch):
    """Without any one of them a run names two steps that nothing orders."""
    added = cuda_graph.Edges.add
    edges = []

    def counted(self, footprint):
        found = added(self, footprint)
        edges.extend((len(self._before) - 1, other) for other in found)
        return found

    monkeypatch.setattr(cuda_graph.Edges, "add", counted)
    machines(two_layers, LAYERS)
    assert len(edges) >= 3
    for step, other in edges:
        monkeypatch.setattr(
            cuda_graph.Edges,
            "add",
            lambda self, footprint, step=step, other=other: [
                k for k in added(self, footprint) if (len(self._before) - 1, k) != (step, other)
            ],
        )
        _, cuda = machines(two_layers, LAYERS)
        with pytest.raises(CudaError, match=r"no edge of the graph says|nobody has written|workspace"):
            cuda.run()


CHANGED = {  # what is another one in the text of a kernel, and what is said
    "a barrier": (r"bar\.sync\s+0;", "", "row_max_sub_exp.* shared memory .* and no barrier is between"),
    "a width": (r"\.param \.u64 (\w+_param_1)", r".param .u32 \1", "must be a word of 8 bytes"),
    "the version": (r"\.version 8\.0", ".version 9.0", "cuModuleLoadDataEx: CUDA_ERROR_UNSUPPORTED_PTX"),
}


@pytest.mark.slow
@each("what", CHANGED)
def test_a_text_with_a_fault_is_named(what):
    pattern, instead, message = CHANGED[what]
    made = cuda_build.compile_ptx

    def changed(*arguments, **options):
        text, count = re.subn(pattern, instead, made(*arguments, **options), count=1)
        assert count == 1
        return text

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JTORCH_CACHE", "0")
        patched.setattr(cuda_texts, "_TEXTS", {})
        patched.setattr(cuda_build, "compile_ptx", changed)
        with pytest.raises(CudaError, match=message):
            machines(lambda x: [x.softmax(-1)], [tensor(3, 300)])[1].run()


def test_memory_of_a_plan_that_is_freed_is_named():
    _, cuda = machines(two_layers, LAYERS)
    del cuda.runner.graph.arena
    cuda.runner.device.memory.collect()
    with pytest.raises(CudaError, match=r"which was freed"):
        cuda.run()


def test_words_in_the_wrong_place_of_a_table_are_named(monkeypatch):
    """Each argument gets what the one before it should."""
    block = cuda_table.argument_block
    monkeypatch.setattr(cuda_table, "argument_block", lambda a, f: np.roll(block(a, f), 1))
    _, cuda = machines(lambda x: [x * 2.0], [X])
    with pytest.raises(CudaError, match=r"map_mul.*(no address of device|aligned)"):
        cuda.run()


def test_many_words_are_several_launches():
    device = cuda_device()
    buffer = device.allocate(8 * 1200)
    words = np.arange(1200) * 7 - 9
    patch(device, buffer.address, words.tolist())
    found = np.empty_like(words)
    device.download(found.ctypes.data, buffer.address, found.nbytes)
    np.testing.assert_array_equal(found, words)
    assert device.fake.calls.count("cuLaunchKernel") == 3
