"""Compiled functions of tensors on the tests' device whose sizes move: recorded once, right at each size."""

from __future__ import annotations

import threading

import pytest

import jtorch
from jtorch import nn
from jtorch.compile.run import cuda_sizes, cuda_steps, device_memory
from jtorch.core.errors import CudaError, EagerWarning
from tests.cuda.device import FakeDevice, cuda_device
from tests.cuda.marks import compiles
from tests.cuda.test_compiled import Attention, leaves, plans, same
from tests.each import each

F = nn.functional
pytestmark = [
    pytest.mark.usefixtures("cuda"),
    compiles,
]


def perceptron():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def images():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 4),
    )  # fmt: skip


NETWORKS = {
    "batches": (perceptron, [(n, 8) for n in (5, 3, 7, 2, 12, 5)]),
    "lengths": (Attention, [(2, t, 8) for t in (4, 7, 3, 4, 6)]),
    "batches and lengths": (Attention, [(2, 4, 8), (3, 4, 8), (3, 5, 8), (4, 6, 8), (2, 4, 8)]),
    "turns": (Recurrent, [(2, t, 8) for t in (3, 5, 4, 3)]),
    "images": (images, [(2, 1, s, s) for s in (6, 8, 7, 6)]),
}


def trained(make, sizes, device, wrap):
    jtorch.manual_seed(0)
    model = make().to(device)
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step, losses, draws = wrap(step), [], jtorch.Generator().manual_seed(3)
    for shape in sizes:
        x = jtorch.randn(*shape, generator=draws).to(device)
        y = jtorch.randint(0, 4, (shape[0],), generator=draws).to(device)
        losses.append(step(x, y).item())
    return losses, [t.detach().cpu() for t in (*model.parameters(), *model.buffers())], step


@pytest.mark.slow
@each("name", NETWORKS)
def test_a_training_step_is_recorded_once_for_sizes_that_move(name):
    recorded_once(name)


def recorded_once(name):
    """One of NETWORKS learns on the device as on the host, by one recording."""
    make, sizes = NETWORKS[name]
    losses, state, step = trained(
        make, sizes, "cuda", lambda f: jtorch.compile(f, fullgraph=True, dynamic=True)
    )
    expected_losses, expected, _ = trained(make, sizes, "cpu", lambda f: f)
    (plan,) = plans(step)
    assert plan.program.target.name == "cuda, any sizes"
    assert len(plan.runner.found) == len(set(sizes))
    jtorch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-6)
    for a, b in zip(state, expected, strict=True):
        jtorch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_second_size_makes_symbols_as_on_the_host():
    step = jtorch.compile(lambda x: (x * 2).sum(0), fullgraph=True)
    for n in (3, 5, 9, 4, 17):
        x = jtorch.randn(n, 4)
        same(step(x.cuda()), step(x), 1e-6)
    there = [plan for plan in plans(step) if plan.memory is not None]
    assert len(there) == len(plans(step)) - len(there) == 2


def test_a_size_seen_before_compiles_and_plans_nothing(cuda, monkeypatch):
    w = jtorch.randn(4, 4).cuda()
    step = jtorch.compile(lambda x: F.gelu(x @ w).softmax(1), fullgraph=True, dynamic=True)
    for n in (3, 5):
        step(jtorch.randn(n, 4).cuda())
    compiled = plans(step)[0].runner.compiled
    made = []
    monkeypatch.setattr(cuda_sizes, "planned", lambda *_: made.append(1))
    for n in (5, 3, 5):
        x = jtorch.randn(n, 4).cuda()
        same(step(x), F.gelu(x @ w).softmax(1), 1e-5)
    assert not made and plans(step)[0].runner.compiled == compiled


FUNCTIONS = {
    "several results": lambda x, y: (x.sum(0), {"a": [y.amax(1), x > y]}, x.shape[0]),
    "halves": lambda x, y: (x[: x.shape[0] // 2] * 2, y.reshape(-1)[::2]),
    "a size in a number": lambda x, y: x / x.shape[0] + y.mean(),
    "counted": lambda x, y: jtorch.arange(x.shape[0], device=x.device) * y.shape[0],
    "outer": lambda x, y: x @ y.t(),
    "running sums": lambda x, y: (x + y).cumsum(0),
    "order": lambda x, y: (x * y).sort(0).values[:2],
    "a branch on a size": lambda x, y: x + y if x.shape[0] > 6 else x - y,
    "gather": lambda x, y: x.gather(0, y.argsort(0)),
    "a mask": lambda x, y: (x[x > 0] * 2, y[x[:, 0] > 0].sum(0)),
    "written": lambda x, y: x.mul_(2).add_(y[0]),
}


@pytest.mark.slow
@each("name", FUNCTIONS)
def test_a_function_gives_what_it_gives_on_the_host(name):
    compared(name)


def compared(name):
    """One of FUNCTIONS gives on the device what it gives on the host, at each size."""
    function = FUNCTIONS[name]
    compiled = jtorch.compile(function, fullgraph=True, dynamic=True)
    for n in (5, 9, 2, 1, 8, 64, 65, 5, 31):
        jtorch.manual_seed(n)
        x, y = jtorch.randn(n, 4), jtorch.randn(n, 4)
        there, y_there = x.cuda(), y.cuda()
        found, expected = compiled(there, y_there), function(x, y)
        found, expected = (leaves([each]) for each in (found, expected))
        for a, b in zip(found, expected, strict=True):
            if isinstance(b, jtorch.Tensor):
                same(a, b, 1e-5)
            else:
                assert a == b
        same(there, x, 1e-6)


def test_a_mask_that_names_another_number_is_no_new_recording():
    step = jtorch.compile(lambda x: (x[x > 0] * 2).sum(), fullgraph=True, dynamic=True)
    for n in (5, 9, 9, 9, 30):
        x = jtorch.randn(n)
        same(step(x.cuda()), (x[x > 0] * 2).sum(), 1e-5)
    assert len(plans(step)) == 1


@pytest.mark.slow
def test_many_sizes_share_memory_and_the_oldest_go(cuda):
    w = jtorch.randn(16, 16).cuda()
    step = jtorch.compile(lambda x: ((x @ w).relu() @ w).softmax(1), fullgraph=True, dynamic=True)
    most = 0
    for k, n in enumerate((*range(2, 42), 41, 40)):
        x = jtorch.randn(n, 16).cuda()
        same(step(x), ((x @ w).relu() @ w).softmax(1), 1e-5)
        if k == 20:
            most = jtorch.cuda.memory_allocated()
    (plan,) = plans(step)
    assert len(plan.runner.found) <= cuda_sizes.MOST
    assert jtorch.cuda.memory_allocated() < 2 * most + 40_000


@pytest.mark.parametrize("large", [120_000, 400_000])
def test_a_size_that_takes_much_or_more_than_there_is_leaves_the_others_right(large):
    """16 MiB beside cuBLAS's own: 120,000 rows fit, 400,000 do not."""
    device = cuda_device(FakeDevice(total=48 << 20))
    device_memory.use(device_memory.DeviceMemory(device))
    w = jtorch.randn(4, 4) / 2
    there = w.cuda()

    def function(x, w):
        return ((((x @ w).tanh() @ w).relu() @ w).exp() @ w).sum(0)

    step, ran = jtorch.compile(lambda x: function(x, there), fullgraph=True, dynamic=True), 0
    for n in (5, 8, large, 5, 9, large, 8, 200):
        x = jtorch.ones(n, 4)
        try:
            found = step(x.cuda())
        except CudaError as error:
            assert n == large and "out of memory" in str(error)
            continue
        ran += 1
        same(found, function(x, w), 1e-3)
    assert ran == (8 if large == 120_000 else 6)


def test_an_index_out_of_range_is_the_error_of_eager_mode_at_each_size():
    def run(device, wrap):
        table, found = jtorch.zeros(5, 3, device=device), []

        def step(rows):
            with jtorch.no_grad():
                table.add_(1.0)
            return table[rows] * 2

        step = wrap(step)
        for rows in ([0, 4], [0, 1, 7], [7, 1], [3, 3, 3], [0, 0, 0, 9], [1]):
            try:
                found.append(step(jtorch.tensor(rows, device=device)).tolist())
            except IndexError as error:
                found.append(str(error).split(" (")[0])
            found.append(table.tolist())
        return found

    compiled = run("cuda", lambda f: jtorch.compile(f, fullgraph=True, dynamic=True))
    assert compiled == run("cpu", lambda f: f)


def test_gradients_that_were_taken_stay_what_they_were():
    w = jtorch.ones(4, requires_grad=True, device="cuda")
    step = jtorch.compile(lambda x: (x * w).sum().backward(), fullgraph=True, dynamic=True)
    taken = []
    for n in (2, 5, 3, 2):
        w.grad = None
        step(jtorch.full((n, 4), float(n), device="cuda"))
        taken.append(w.grad)
    assert [g.cpu()[0].item() for g in taken] == [4.0, 25.0, 9.0, 4.0]


def test_threads_that_race_on_new_sizes():
    w = jtorch.randn(4, 4).cuda()
    step = jtorch.compile(lambda x: (x @ w).exp().sum(1), fullgraph=True, dynamic=True)
    step(jtorch.randn(2, 4).cuda())
    wrong = []

    def work(first):
        for n in range(first, first + 6):
            x = jtorch.full((n, 4), 0.1 * n).cuda()
            try:
                same(step(x), (x @ w).exp().sum(1), 1e-5)
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in (2, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_sizes_of_too_many_steps_are_recorded_and_refused_as_they_are(monkeypatch):
    model = nn.RNN(3, 3).cuda()
    step = jtorch.compile(lambda x: model(x)[0].sum(), dynamic=True, fullgraph=False)
    with jtorch.no_grad():
        step(jtorch.randn(4, 2, 3).cuda())
        monkeypatch.setattr(cuda_steps, "MOST_STEPS", 100)
        x = jtorch.randn(300, 2, 3).cuda()
        with pytest.warns(EagerWarning, match="steps, counting those of each turn"):
            found = step(x)
        same(found, model(x)[0].sum(), 1e-5)
