"""Floats of 16 bits in compiled functions on the tests' device: each is widened where it is read, and rounded
where it is stored, as the CPU's kernels do."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import nn
from tests.compile.codegen.cuda_programs import tensor
from tests.cuda.marks import compiles
from tests.cuda.test_compiled import leaves, plans, trained
from tests.each import each

F = nn.functional
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("cuda"),
    compiles,
]
KINDS = {"float16": jtorch.float16, "bfloat16": jtorch.bfloat16}

FUNCTIONS = {  # what gives the CPU's bits, and what may be off by a unit in the last place
    "arithmetic": (lambda x, y: (x * y + x).relu() - 0.3, 0),
    "functions": (lambda x, y: x.exp() + y.tanh() / (y.abs() + 1).sqrt(), 0),
    "wide and narrow": (lambda x, y: (x.float() * y, x + y.float().to(x.dtype)), 0),
    "limits": (lambda x, y: (x * 3e4 * y, x / 0, (x * 1e-7).to(x.dtype), x > y), 0),
    "parts": (lambda x, y: jtorch.cat([x[1:], y.flip(0)]).t(), 0),
    "sums": (lambda x, y: ((x * y).sum(1), x.mean(), y.amax(0)), 1),
    "softmax": (lambda x, y: (x.softmax(1), F.layer_norm(y, (4,))), 1),
    "products": (lambda x, y: (x @ y.t(), F.linear(x, y, x[:, 0])), 1),
    "windows": (lambda x, y: F.conv1d(x[None], y[:, :3, None]), 1),
    "running sums": (lambda x, y: (x * 2).cumsum(1) + y, 0),
}


@each("name", FUNCTIONS)
@each("kind", KINDS)
def test_a_function_gives_what_it_gives_on_the_host(name, kind):
    compared(name, kind)


def compared(name, kind):
    """One of FUNCTIONS gives on the device what it gives on the host."""
    (function, units), dtype = FUNCTIONS[name], KINDS[kind]
    on_host, compiled = jtorch.compile(function, fullgraph=True), jtorch.compile(function, fullgraph=True)
    for seed in range(3):
        x, y = (tensor(3, 4, seed=2 * seed + k).to(dtype) for k in range(2))
        for a, b in zip(leaves(compiled(x.cuda(), y.cuda())), leaves(on_host(x, y)), strict=True):
            assert a.is_cuda and a.dtype == b.dtype
            tolerance = units * jtorch.finfo(dtype).eps
            jtorch.testing.assert_close(a.cpu(), b, rtol=tolerance, atol=tolerance, equal_nan=True)
    (plan,) = plans(compiled)
    assert plan.program.target.name == "cuda"


class Narrow(nn.Module):
    """All of it in 16 bits."""

    shape = (5, 8)

    def __init__(self):
        super().__init__()
        layers = nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)
        self.layers = nn.Sequential(*layers).bfloat16()

    def forward(self, x):
        return self.layers(x.bfloat16()).float()


class Mixed(nn.Module):
    """Products of 16 bits, the rest and all parameters of 32."""

    shape = (5, 8)

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        for layer in (self.first, self.second):
            narrow = (t.bfloat16() for t in (x, layer.weight, layer.bias))
            x = F.linear(*narrow).float().tanh()
        return x


class OverTime(nn.Module):
    shape = (3, 14, 8)

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(8, 6, batch_first=True).bfloat16(), nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.layer(x.bfloat16())[0][:, -1].float())


@each("network", (Narrow, Mixed, OverTime), ids=lambda network: network.__name__)
@each("optimizer", ("SGD", "Adam"))
def test_a_training_step(network, optimizer):
    learned(network, optimizer)


def learned(network, optimizer):
    """A network learns on the device as on the host.

    Sums in another order may be rounded to the neighbour of a number of 16 bits: 2^-8 of it."""
    losses, state, step = trained(network, optimizer, "cuda", lambda f: jtorch.compile(f, fullgraph=True))
    expected_losses, expected, _ = trained(network, optimizer, "cpu", jtorch.compile)
    (plan,) = plans(step)
    assert plan.program.target.name == "cuda"
    jtorch.testing.assert_close(losses, expected_losses, rtol=4e-3, atol=4e-3)
    for a, b in zip(state, expected, strict=True):
        jtorch.testing.assert_close(a, b, rtol=4e-3, atol=4e-3)
