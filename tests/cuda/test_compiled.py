"""Compiled functions of tensors on the tests' device: parameters, gradients, state stay there."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError, EagerWarning
from tests.cuda.marks import compiles
from tests.each import each

F = nn.functional
pytestmark = [
    pytest.mark.usefixtures("cuda"),
    compiles,
]


def same(found, expected, tolerance=0.0):
    assert found.is_cuda and found.shape == expected.shape and found.dtype == expected.dtype
    jtorch.testing.assert_close(found.detach().cpu(), expected.detach().cpu(), rtol=tolerance, atol=tolerance)


def plans(step):
    return [plan for some in step.plans.values() for plan in some]


class Perceptron(nn.Module):
    shape = (5, 8)

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)


class Convolutions(nn.Module):
    shape = (3, 1, 8, 8)

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.head = nn.Linear(36, 4)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


class Attention(nn.Module):
    shape = (2, 4, 8)

    def __init__(self):
        super().__init__()
        self.qkv, self.norm, self.head = nn.Linear(8, 24, bias=False), nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        return self.head(F.scaled_dot_product_attention(q, k, v) + x).mean(1)


class Cells(nn.Module):
    shape = (3, 4, 8)

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = jtorch.zeros(x.shape[0], 8, device=x.device)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.head(h)


OPTIMIZERS = {
    "SGD": lambda p: jtorch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: jtorch.optim.Adam(p, lr=0.01),
}


def trained(network, optimizer, device, wrap, steps=4):
    jtorch.manual_seed(0)
    model = network().to(device)
    opt = OPTIMIZERS[optimizer](model.parameters())

    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    step, losses, draws = wrap(step), [], jtorch.Generator().manual_seed(3)
    for _ in range(steps):
        x = jtorch.randn(*network.shape, generator=draws).to(device)
        y = jtorch.randint(0, 4, (network.shape[0],), generator=draws).to(device)
        losses.append(step(x, y).item())
    state = [*model.parameters(), *model.buffers(), *(p.grad for p in model.parameters())]
    assert all(t.device.type == device for t in state)
    return losses, [t.detach().cpu() for t in state], step


@pytest.mark.slow
@each("network", (Perceptron, Convolutions, Attention, Cells), ids=lambda network: network.__name__)
@each("optimizer", OPTIMIZERS)
def test_a_training_step(network, optimizer):
    losses, state, step = trained(network, optimizer, "cuda", lambda f: jtorch.compile(f, fullgraph=True))
    expected_losses, expected, _ = trained(network, optimizer, "cpu", jtorch.compile)
    (plan,) = plans(step)
    assert plan.program.target.name == "cuda"
    jtorch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-6)
    for a, b in zip(state, expected, strict=True):
        jtorch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_state_is_not_copied_where_nothing_can_fail(cuda):
    model = nn.Linear(64, 64).cuda()

    @jtorch.compile(fullgraph=True)
    def step(x):
        with jtorch.no_grad():
            for p in model.parameters():
                p.mul_(0.5)
        return model(x).sum().detach()

    x = jtorch.ones(2, 64).cuda()
    before = [p.detach().cpu().clone() for p in model.parameters()]
    for k in range(1, 4):
        copied = cuda.fake.calls.count("cuMemcpyDtoDAsync_v2")
        step(x)
        assert cuda.fake.calls.count("cuMemcpyDtoDAsync_v2") - copied == 2  # the argument, the result
        for p, b in zip(model.parameters(), before, strict=True):
            same(p, b * 0.5**k)


FUNCTIONS = {
    "arithmetic": (lambda x, y: (x * 2 + y).sin(), 0.0),
    "a product": (lambda x, y: x @ y.t(), 1e-5),
    "several results": (lambda x, y: (x.sum(0), {"a": [y.amax(1), x > y]}), 1e-5),
    "a view": (lambda x, y: (x * 2).t(), 0.0),
    "views of one memory": (lambda x, y: (lambda z: (z[0], z[1:], z))(x + y), 0.0),
    "its argument": (lambda x, y: (x, y + 1), 0.0),
    "its argument's view": (lambda x, y: x[1:], 0.0),
    "a number": (lambda x, y: (x + y, x.shape[0]), 0.0),
    "new tensors there": (lambda x, y: x + jtorch.ones(4, device=x.device) + jtorch.zeros_like(x), 0.0),
    "new tensors on the host": (lambda x, y: (x * jtorch.tensor(2.0), x + 1), 0.0),
    "indices": (lambda x, y: x[jtorch.tensor([2, 0])] + y[:2], 0.0),
    "gather": (lambda x, y: x.gather(1, (y > 0).long()), 0.0),
    "a mask": (lambda x, y: jtorch.where(x > y, x, 0.0), 0.0),
    "softmax": (lambda x, y: (x + y).softmax(1), 1e-6),
    "cat": (lambda x, y: jtorch.cat([x, y], 1), 0.0),
    "integers": (lambda x, y: (x * 4).long() // 3 + 1, 0.0),
    "doubles": (lambda x, y: (x.double() / y.double()).exp().sum(), 1e-12),
}


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in leaves(part)]
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


@pytest.mark.slow
@each("name", FUNCTIONS)
def test_a_function_gives_what_it_gives_on_the_host(name):
    function, tolerance = FUNCTIONS[name]
    on_host, compiled = jtorch.compile(function), jtorch.compile(function, fullgraph=True)
    for seed in range(3):
        jtorch.manual_seed(seed)
        x, y = jtorch.randn(3, 4), jtorch.randn(3, 4)
        for found, expected in zip(leaves(compiled(x.cuda(), y.cuda())), leaves(on_host(x, y)), strict=True):
            if isinstance(expected, jtorch.Tensor):
                same(found, expected, tolerance)
            else:
                assert found == expected


def test_calls_on_the_host_and_there_have_plans_of_their_own():
    step = jtorch.compile(lambda x: x * 3 - 1, fullgraph=True)
    for _ in range(3):
        x = jtorch.randn(4)
        assert not step(x).is_cuda
        same(step(x.cuda()), step(x))
    assert len(plans(step)) == 2


@pytest.mark.slow
def test_arguments_are_written_in_place():
    @jtorch.compile(fullgraph=True)
    def step(x, row):
        x[1:].mul_(2.0)
        x[0] = row
        return x.sum()

    for seed in range(3):
        jtorch.manual_seed(seed)
        x, row = jtorch.randn(3, 4), jtorch.randn(4)
        there, version = x.cuda(), 0
        version = there._version
        step(there, row.cuda())
        assert there._version > version
        x[1:].mul_(2.0)
        x[0] = row
        same(there, x)


def test_gradients_that_were_taken_stay_what_they_were():
    w = jtorch.ones(3).cuda().requires_grad_()

    @jtorch.compile(fullgraph=True)
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    kept = []
    for k in range(1, 5):
        step(jtorch.full((3,), float(k)).cuda())
        kept.append(w.grad)
    assert [g.tolist() for g in kept] == [[float(k)] * 3 for k in range(1, 5)]
    assert all(g.is_cuda for g in kept)


def test_gradients_are_added_up():
    w = jtorch.ones(3).cuda().requires_grad_()

    @jtorch.compile(fullgraph=True)
    def step(x):
        (w * x).sum().backward()

    for k in range(1, 5):
        step(jtorch.full((3,), float(k)).cuda())
        assert w.grad.tolist() == [sum(range(1, k + 1))] * 3
    w.grad.zero_()
    step(jtorch.ones(3).cuda())
    assert w.grad.tolist() == [1.0] * 3


@pytest.mark.slow
def test_an_error_of_a_kernel_leaves_all_as_it_was():
    table = nn.Embedding(4, 2).cuda()
    optimizer = jtorch.optim.SGD(table.parameters(), lr=0.1)

    @jtorch.compile(fullgraph=True)
    def step(rows):
        optimizer.zero_grad()
        loss = table(rows).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(jtorch.tensor([0, 3]).cuda())
    before = table.weight.tolist()
    with pytest.raises(IndexError, match="out of range"):
        step(jtorch.tensor([0, 4]).cuda())
    assert table.weight.tolist() == before
    step(jtorch.tensor([1, 2]).cuda())
    assert table.weight.tolist() != before


def test_numbers_of_the_call_and_rates_that_move():
    w = jtorch.ones(2).cuda().requires_grad_()
    optimizer = jtorch.optim.SGD([w], lr=1.0)

    @jtorch.compile(fullgraph=True)
    def step(x, scale):
        optimizer.zero_grad()
        (w * x).sum().mul(scale).backward()
        optimizer.step()

    expected = 1.0
    for rate, scale in ((1.0, 0.5), (0.5, 2.0), (0.25, 3.0)):
        optimizer.param_groups[0]["lr"] = rate
        step(jtorch.ones(2).cuda(), scale)
        expected -= rate * scale
        assert w.tolist() == [expected] * 2
    assert len(plans(step)) == 1


def test_numbers_that_are_taken_out():
    losses = []

    @jtorch.compile(fullgraph=True)
    def step(x):
        total = x.sum()
        losses.append(total.item())
        return total * 2

    for k in range(1, 4):
        assert step(jtorch.ones(3).cuda() * k).item() == 6 * k
    assert losses == [3.0, 6.0, 9.0]


EAGERLY = {
    "a graph for later": lambda x, w: (x * w).sum(),
    "to the host": lambda x, w: (x * 2).cpu(),
}


@pytest.mark.slow
@each("name", EAGERLY)
def test_what_no_plan_there_does_runs_eagerly(name, monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    function = EAGERLY[name]
    w = jtorch.ones(4).cuda().requires_grad_()
    step = jtorch.compile(lambda x: function(x, w))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for seed in range(4):
            jtorch.manual_seed(seed)
            x = jtorch.randn(3, 4).cuda()
            found, expected = step(x), function(x, w)
            assert found.device == expected.device
            jtorch.testing.assert_close(found.detach().cpu(), expected.detach().cpu())
            if found.requires_grad:
                w.grad = None
                found.backward()
                jtorch.testing.assert_close(w.grad.cpu(), x.sum(0).cpu())
    assert any(issubclass(one.category, EagerWarning) for one in told)


@pytest.mark.slow
def test_branches_on_elements():
    step = jtorch.compile(lambda x: x * 2 if x.sum() > 0 else x - 1, fullgraph=True)
    for sign in (1, -1, 1, -1):
        x = jtorch.full((3,), float(sign))
        same(step(x.cuda()), x * 2 if sign > 0 else x - 1)
    assert len(plans(step)) == 2


def test_what_was_compiled_can_be_asked(tmp_path):
    w = jtorch.ones(3).cuda()
    step = jtorch.compile(lambda x: (x * w).exp().sum(), fullgraph=True)
    x = jtorch.ones(3).cuda()
    step(x)
    assert "mul" in str(step.graph()) and "exp" in str(step.explain())
    assert "exp" in str(step.plan()) and "exp" in step.source()
    assert step.stats().calls == 1 and len(step.profile().steps) == 1
    script = step.save_repro(tmp_path)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip().endswith("the same"), done.stdout + done.stderr


def test_devices_do_not_mix():
    step = jtorch.compile(lambda x, y: x + y, fullgraph=True)
    there, here = jtorch.ones(3).cuda(), jtorch.ones(3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            step(there, here)
        same(step(there, jtorch.tensor(2.0)), here + 2)
    same(step(there, there), here * 2)


def test_a_module_that_moves_is_recorded_again():
    model = nn.Linear(3, 2)
    step = jtorch.compile(lambda x: model(x).detach(), fullgraph=True)
    x = jtorch.randn(4, 3)
    expected = step(x)
    model.cuda()
    same(step(x.cuda()), expected, 1e-6)
    with pytest.raises((RuntimeError, CompileError), match="device"):
        step(x)
    model.cpu()
    jtorch.testing.assert_close(step(x), expected)
