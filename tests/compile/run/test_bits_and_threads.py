"""The number of threads changes no bit of what a compiled program computes."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import threading

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.compile.plan.pieces import pieces_of
from jtorch.core import threads

THREADS = (1, 2, 3, 7)


@pytest.fixture(autouse=True)
def _as_before():
    before = threads.count()
    yield
    threads.set_count(before)


def _network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 49, 64), nn.Dropout(0.3),
        nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10),
    )  # fmt: skip


def _transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
    return nn.Sequential(nn.Embedding(50, 64), layer, nn.Flatten(), nn.Linear(64 * 32, 10))


class _Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(32, 96, 2, batch_first=True), nn.Linear(96, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def _images(generator):
    return generator.standard_normal((32, 3, 32, 32)).astype(np.float32)


def _words(generator):
    return generator.integers(0, 50, (16, 32))


def _series(generator):
    return generator.standard_normal((32, 20, 32)).astype(np.float32)


def _trained(make, data, optimizer):
    """All that three steps leave: losses, parameters, buffers; and the compiled step."""
    jtorch.manual_seed(0)
    model = make()
    opt = optimizer(model.parameters())

    @jtorch.compile
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    generator = np.random.default_rng(0)
    x = jtorch.from_numpy(data(generator))
    y = jtorch.from_numpy(generator.integers(0, 10, len(x)))
    losses = [step(x, y).detach().numpy().copy() for _ in range(3)]
    return [*losses, *(v.detach().numpy().copy() for v in model.state_dict().values())], step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "data", "optimizer"),
    [
        (_network, _images, lambda p: jtorch.optim.Adam(p, 1e-3)),
        (_transformer, _words, lambda p: jtorch.optim.AdamW(p, 1e-3)),
        (_Recurrent, _series, lambda p: jtorch.optim.SGD(p, 1e-2, momentum=0.9)),
    ],
    ids=["convolutions", "transformer", "lstm"],
)
def test_training_gives_the_same_bits(make, data, optimizer):
    found = {}
    for n in THREADS:
        threads.set_count(n)
        found[n], step = _trained(make, data, optimizer)
    tasks = step._newest().program.plan.tasks
    assert any(t.nest is not None and len(pieces_of(t.nest)) > 1 for t in tasks), "nothing was cut"
    for n in THREADS[1:]:
        for a, b in zip(found[1], found[n], strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", [jtorch.float32, jtorch.float64, jtorch.int64])
def test_large_elementwise_ops_and_sums_give_the_same_bits(dtype):
    generator = np.random.default_rng(1)
    values = generator.integers(-9, 9, (700, 900)) if dtype == jtorch.int64 else generator.random((700, 900))
    x = jtorch.tensor(values, dtype=dtype)

    @jtorch.compile
    def program(x):
        shares = x.softmax(1) if x.is_floating_point() else x
        return (x * 3 - 1).abs(), x.sum(0), x.sum(1), x.t().cumsum(0), shares

    found = {}
    for n in THREADS:
        threads.set_count(n)
        found[n] = [t.numpy().tobytes() for t in program(x)]
    assert all(found[n] == found[1] for n in THREADS)


def test_an_error_in_a_large_step_is_the_same():
    """A step that can fail is not cut: of several errors the same one is told."""
    table, places = jtorch.ones(100, 64), jtorch.zeros(20_000, dtype=jtorch.int64)
    places[[5, 19_000]] = jtorch.tensor([100, 200])
    step = jtorch.compile(lambda t, p: t[p] * 2)
    for n in THREADS:
        threads.set_count(n)
        with pytest.raises(IndexError):
            step(table, places)


@pytest.mark.parametrize("sizes", [(257, 263, 509), (65, 65, 9000), (61, 777, 777)])
def test_a_large_eager_product_beside_it_changes_nothing(sizes):
    """BLAS has one number of threads for the process: eager mode raises it where no compiled step can run."""
    rows, columns, inner = sizes
    threads.set_count(2)
    generator = np.random.default_rng(0)
    x = jtorch.from_numpy(generator.standard_normal((rows, inner)).astype(np.float32))
    y = jtorch.from_numpy(generator.standard_normal((inner, columns)).astype(np.float32))
    large = jtorch.ones(900, 900)
    step = jtorch.compile(lambda x, y: x @ y)
    expected = step(x, y).numpy().tobytes()
    over = threading.Event()

    def multiply():
        while not over.is_set():
            large @ large

    other = threading.Thread(target=multiply)
    other.start()
    try:
        assert all(step(x, y).numpy().tobytes() == expected for _ in range(30))
    finally:
        over.set()
        other.join()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the constant of fesetround is that of x86-64")
def test_all_threads_round_as_the_caller_does():
    """How floats are rounded belongs to a thread, and may change after the pool's were made."""
    to_nearest, downward = 0, 0x400
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    x = jtorch.ones(1000, 1000)
    step = jtorch.compile(lambda x: x / 3)
    threads.set_count(2)
    for _ in range(20):
        usual = step(x)
    libm.fesetround(downward)
    try:
        results = [step(x).numpy() for _ in range(20)]
    finally:
        libm.fesetround(to_nearest)
    assert all(np.unique(r).size == 1 for r in results)
    assert results[0][0, 0] < usual.numpy()[0, 0]


@pytest.mark.parametrize("inner", [64, 257, 1000])
def test_a_linear_layer_rounds_alike_in_both_modes(inner):
    """The bias is added after the last block of products, as if it were an addition of its own."""
    jtorch.manual_seed(0)
    layer, x = jtorch.nn.Linear(inner, 250), jtorch.randn(300, inner)
    found = layer(x)
    assert jtorch.equal(found, jtorch.compile(layer)(x))
    assert jtorch.equal(found, x @ layer.weight.t() + layer.bias)
