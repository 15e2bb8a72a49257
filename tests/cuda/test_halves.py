"""float16 and bfloat16 on the tests' device: the bits of the host, and no copy to it."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn import functional as F
from tests.cuda.test_by_kernels import on_device, pytestmark, same  # noqa: F401 - a fixture, and marks
from tests.each import each

HALVES = ("float16", "bfloat16")


@each("name", HALVES)
def test_every_number_of_16_bits_is_widened(name):
    dtype = getattr(jtorch, name)
    x = jtorch.from_numpy(np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy))
    same(x.cuda().float(), x.float())


def hard_to_round():
    """float32 by their bits: any, around the subnormal numbers of float16, in the middle between two."""
    draws = np.random.default_rng(0)
    parts = [
        draws.integers(0, 1 << 32, 20000, dtype=np.uint64),
        draws.integers(0x32800000, 0x48000000, 20000, dtype=np.uint64),
        (draws.integers(0, 1 << 19, 10000, dtype=np.uint64) << 13) + 0x1000,
        (draws.integers(0, 1 << 16, 10000, dtype=np.uint64) << 16) + 0x8000,
        (draws.integers(0, 1 << 19, 10000, dtype=np.uint64) << 13) + 0x0FFF,
        np.array(
            [0, 1 << 31, 0x7F800000, 0xFF800000, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001]
        ),
    ]
    numbers = np.concatenate(parts).astype(np.uint32).view(np.float32)
    return jtorch.from_numpy(numbers[~np.isnan(numbers)])


@each("name", HALVES)
def test_rounding_is_that_of_the_host(name):
    x, dtype = hard_to_round(), getattr(jtorch, name)
    with np.errstate(all="ignore"):
        expected = x.to(dtype)
    same(x.cuda().to(dtype), expected)
    wide = jtorch.cat([x.double() * (1 + e) for e in (0.0, 1e-9, -1e-9)])
    with np.errstate(all="ignore"):
        expected = wide.to(dtype)
    same(wide.cuda().to(dtype), expected)
    assert jtorch.tensor([np.nan], device="cuda").to(dtype).isnan().all()


FUNCTIONS = {
    "arithmetic": lambda x: (x * 2 + 1) / (x * x + 0.1) - x,
    "comparison": lambda x: (x > 0.5) | (x == x.abs()),
    "choice": lambda x: jtorch.where(x > 0, x, 0.3),
    "movement": lambda x: jtorch.cat([x[:, 1:], x.flip(0)[:, :1]], 1),
    "views": lambda x: x.t()[1:].reshape(-1),
    "indexing": lambda x: x[:, [2, 0]],
    "relu": lambda x: F.relu(x).clamp(max=1.0),
    "to ints": lambda x: (x * 3).int(),
    "from ints": lambda x: x + jtorch.arange(4, dtype=jtorch.uint8, device=x.device).to(x.dtype),
    "from bools": lambda x: (x > 0).to(x.dtype),
    "wider": lambda x: x.double() + 1,
    "fill": lambda x: x.clone().fill_(0.1),
}
ROUNDED = {  # each by sums or functions that have roundings of their own
    "sum": lambda x: x.sum(1),
    "softmax": lambda x: x.softmax(1),
    "product": lambda x: x @ x.t(),
    "gelu": F.gelu,
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "exp": lambda x: x.exp(),
}


@each("dtype", HALVES)
@each("name", FUNCTIONS | ROUNDED)
def test_functions_and_gradients_are_those_of_the_host(on_device, name, dtype):  # noqa: F811 - the fixture
    jtorch.manual_seed(0)
    x, exact = jtorch.randn(3, 4).to(getattr(jtorch, dtype)), name in FUNCTIONS
    function = (FUNCTIONS | ROUNDED)[name]
    both = [t.requires_grad_() for t in (x.clone(), x.cuda())]
    expected, found = map(function, both)
    same(found, expected, 0.0 if exact else 2e-2)
    if expected.requires_grad:
        for out in (expected, found):
            (out.float() ** 2).sum().backward()
        same(both[1].grad, both[0].grad, 0.0 if exact else 5e-2)
    on_device()


@pytest.mark.slow
@each("dtype", HALVES)
def test_a_step_of_a_net(on_device, dtype):  # noqa: F811 - the fixture
    found = []
    for place in ("cpu", "cuda"):
        jtorch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
        model = model.to(place, getattr(jtorch, dtype))
        x = jtorch.randn(5, 4).to(place, getattr(jtorch, dtype))
        optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)
        F.cross_entropy(model(x), jtorch.tensor([0, 1, 2, 0, 1]).to(place)).backward()
        optimizer.step()
        found.append([p.detach().cpu().float() for p in model.parameters()])
    for expected, there in zip(*found, strict=True):
        jtorch.testing.assert_close(there, expected, rtol=2e-2, atol=2e-2)
    on_device()
