"""What goes by kernels of the tests' device, and by no copy to the host: what public programs do."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.core.op import CONTEXT
from jtorch.nn import functional as F
from tests.cuda.marks import compiles
from tests.each import each

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    compiles,
]


@pytest.fixture
def on_device(caplog):
    """A function that fails where an op was computed on the host since the last time."""
    computing = CONTEXT.get().evaluator.on_device
    caplog.set_level(logging.INFO, "jtorch.device")

    def check():
        told = [r.message for r in caplog.records if "is computed on the host" in r.message]
        caplog.clear()
        computing._told.clear()
        assert not told, told

    computing._told.clear()
    return check


def bits(tensor):
    return np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes()


def same(found, expected, tolerance=0.0):
    assert found.is_cuda and found.shape == expected.shape and found.dtype is expected.dtype
    if tolerance:
        jtorch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        assert bits(found) == bits(expected), (found, expected)


def lines(kind):
    """Lines of 5 with equal elements, NaN and both zeros."""
    if kind.startswith("float"):
        x = [[3.0, -0.0, np.nan, 0.0, 3.0], [np.inf, 1.0, -1.0, np.nan, -np.inf], [0.5, 0.5, 0.5, 2.0, 0.5]]
    else:
        x = [[1, 0, 1, 0, 1], [1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]
    return jtorch.tensor(x, dtype=getattr(jtorch, kind))


@each("kind", ["float32", "float64", "int64", "uint8", "bool"])
def test_order_is_that_of_the_host(on_device, kind):
    for x in (lines(kind), lines(kind).t()):
        there = x.cuda()
        for dim in (0, 1):
            for descending in (False, True):
                found, expected = (t.sort(dim, descending, stable=True) for t in (there, x))
                same(found.values, expected.values)
                same(found.indices, expected.indices)
                same(there.argsort(dim, descending), x.argsort(dim, descending))
            for largest in (False, True):
                found, expected = (t.topk(2, dim, largest) for t in (there, x))
                same(found.values, expected.values)
                same(found.indices, expected.indices)
    on_device()


def test_order_of_long_and_short_lines(on_device):
    for n in (1, 2, 7, 300):
        x = jtorch.randint(0, 50, (2, n)).float()
        same(x.cuda().sort(1).indices, x.sort(1).indices)
    assert jtorch.zeros(0, device="cuda").sort().values.shape == (0,)
    assert jtorch.zeros(3, 0, device="cuda").argsort(1).shape == (3, 0)
    on_device()


def test_gradients_of_order(on_device):
    x = jtorch.randn(3, 4)
    for function in (lambda t: t.sort(1).values, lambda t: t.topk(2, 0).values):
        both = [t.requires_grad_() for t in (x.clone(), x.clone().cuda())]
        for t in both:
            (function(t) ** 2).sum().backward()
        same(both[1].grad, both[0].grad)
    on_device()


@each("kind", ["float32", "float64", "int32", "int64", "uint8", "bool"])
def test_running_sums_are_those_of_the_host(on_device, kind):
    dtype = getattr(jtorch, kind)
    for shape in ((3, 5), (2, 3, 4), (4,), (0, 2), (2, 200)):
        x = (
            (jtorch.randn(*shape) * 3).to(dtype)
            if dtype.is_floating_point
            else jtorch.randint(0, 2, shape).to(dtype)
        )
        for dim in range(x.ndim):
            same(
                x.cuda().cumsum(dim),
                x.cumsum(dim),
                1e-12 if kind == "float64" else 1e-6 * (kind == "float32"),
            )
    on_device()


def test_running_sums_of_what_is_not_finite():
    x = jtorch.zeros(2, 300)
    x[0, 10], x[0, 200], x[1, 290] = np.inf, -np.inf, np.nan
    same(x.cuda().cumsum(1), x.cumsum(1))


def test_gradients_of_running_sums(on_device):
    x = jtorch.randn(3, 4)
    both = [t.requires_grad_() for t in (x.clone(), x.clone().cuda())]
    for t in both:
        (t.cumsum(1) * t).sum().backward()
    same(both[1].grad, both[0].grad, 1e-6)
    on_device()


@each("kind", ["float32", "int64"])
def test_places_in_sorted_sequences(on_device, kind):
    dtype = getattr(jtorch, kind)
    sequence = jtorch.tensor([[0, 1, 1, 3], [2, 2, 5, 6]], dtype=dtype)
    wanted = jtorch.tensor([[1, 0, 7], [2, 6, -1]], dtype=dtype)
    if dtype.is_floating_point:
        sequence[1, 3], wanted[0, 2], wanted[1, 0] = np.nan, np.nan, np.inf
    for right in (False, True):
        for rows in (sequence, sequence[0]):
            expected = jtorch.searchsorted(rows, wanted, right=right)
            same(jtorch.searchsorted(rows.cuda(), wanted.cuda(), right=right), expected)
        same(jtorch.bucketize(wanted.cuda(), sequence[0].cuda()), jtorch.bucketize(wanted, sequence[0]))
    none = jtorch.zeros(0, dtype=dtype)
    same(jtorch.searchsorted(none.cuda(), wanted.cuda()), jtorch.searchsorted(none, wanted))
    on_device()


def put(x, indices, value, **options):
    return x.clone().index_put_(indices, value, **options)


WRITES = {
    "one place each": lambda x, i: put(x, (i, i), x[0, :3] * 2),
    "a number": lambda x, i: put(x, (i,), x.new_tensor(7.0)),
    "the last of several stays": lambda x, i: put(x, (i * 0 + 1,), x[:3] * 3),
    "along the second axis": lambda x, i: put(x.t(), (i, i * 0), x[0, :3]),
    "of several dims": lambda x, i: put(x.reshape(2, 2, 5), (i.reshape(3, 1) % 2, i % 2), x[0]),
    "added up": lambda x, i: put(x, (i * 0,), x[:3], accumulate=True),
    "scatter": lambda x, i: x.scatter(1, i.reshape(3, 1), x[:3, 2:3]),
    "scatter of a number": lambda x, i: x.scatter(0, i.reshape(1, 3), 4.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i.reshape(1, 3) * 0, x[:1, :3]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:3] * 5),
    "index_fill": lambda x, i: x.index_fill(1, i, 3.0),
    "masked_fill": lambda x, i: x.masked_fill(x > 0, 2.0),
}


@each("name", WRITES)
def test_writes_are_those_of_the_host(on_device, name):
    jtorch.manual_seed(1)
    x, i = jtorch.randn(4, 5), jtorch.tensor([2, 0, 3])
    both = [t.requires_grad_() for t in (x.clone(), x.clone().cuda())]
    expected, found = WRITES[name](both[0], i), WRITES[name](both[1], i.cuda())
    same(found, expected)
    for out in (expected, found):
        (out * out).sum().backward()
    same(both[1].grad, both[0].grad, 1e-6)
    on_device()


def test_writes_by_index_and_by_mask(on_device):
    def written(x, i):
        x = x.clone()
        x[i, i] = 1.0
        x[x < 0] = 0.0
        x[:, i] += 2.0
        x[0] = 5.0
        return x

    x, i = jtorch.randn(4, 5), jtorch.tensor([2, 0])
    same(written(x.cuda(), i.cuda()), written(x, i))
    bytes_ = jtorch.arange(6, dtype=jtorch.uint8)
    same(put(bytes_.cuda(), (i.cuda(),), bytes_[:2].cuda()), put(bytes_, (i,), bytes_[:2]))
    on_device()


def test_a_write_out_of_range_is_the_error_of_the_host():
    for place in ("cpu", "cuda"):
        x, i = jtorch.zeros(3, device=place), jtorch.tensor([0, 3], device=place)
        with pytest.raises(IndexError, match="out of"):
            x[i] = x[:2] + 1
        assert x.tolist() == [0.0] * 3


DRAWS = {
    "dropout": lambda x: F.dropout(x, 0.4),
    "bernoulli": lambda x: x.bernoulli(),
    "multinomial": lambda x: x.multinomial(2),
    "multinomial again": lambda x: x.multinomial(7, replacement=True),
}


@each("name", DRAWS)
def test_draws_are_those_of_the_host(name):
    x, found = jtorch.rand(3, 4), []
    for t in (x, x.cuda()):
        jtorch.manual_seed(4)
        found.append(DRAWS[name](t))
    same(found[1], found[0])


MADE = {
    "rand": lambda place: jtorch.rand(3, 4, device=place),
    "randn": lambda place: jtorch.randn(5, device=place, dtype=jtorch.float64),
    "randn of halves": lambda place: jtorch.randn(5, device=place, dtype=jtorch.float16),
    "randint": lambda place: jtorch.randint(3, 9, (7,), device=place),
    "randn_like": lambda place: jtorch.randn_like(jtorch.zeros(3, device=place)),
    "normal_": lambda place: jtorch.zeros(6, device=place).normal_(1.0, 2.0),
    "uniform_": lambda place: jtorch.zeros(2, 3, device=place).uniform_(-1.0, 1.0),
    "exponential_": lambda place: jtorch.zeros(6, device=place).exponential_(),
    "bernoulli": lambda place: jtorch.full((9,), 0.3, device=place).bernoulli(),
    "normal": lambda place: jtorch.normal(jtorch.arange(4.0, device=place), 1.0),
}


@each("name", MADE)
def test_draws_are_made_there(on_device, name):
    found = []
    for place in ("cpu", "cuda"):
        jtorch.manual_seed(9)
        found.append([MADE[name](place) for _ in range(2)])
    for expected, there in zip(*found, strict=True):
        same(there, expected, 1e-6 if name == "exponential_" else 0.0)
    on_device()


def test_each_draw_is_by_the_same_kernels(cuda):
    for dtype in (jtorch.float32, jtorch.float64):
        x = jtorch.ones(9, dtype=dtype, device="cuda")
        F.dropout(x, 0.5)
        before = cuda.fake.calls.count("cuModuleLoadDataEx")
        assert len({tuple(F.dropout(x, 0.5).tolist()) for _ in range(4)}) > 1
        assert cuda.fake.calls.count("cuModuleLoadDataEx") == before


def test_draws_from_what_is_no_probability():
    for place in ("cpu", "cuda"):
        with pytest.raises(RuntimeError, match="p_in"):
            jtorch.full((2,), 2.0, device=place).bernoulli()
        with pytest.raises(RuntimeError, match="inf"):
            jtorch.tensor([1.0, np.nan], device=place).multinomial(1)


def net():
    model = nn.Sequential(
        nn.Embedding(7, 8),
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True),
        nn.LayerNorm(8),
        nn.Linear(8, 7),
    )
    return model.cuda()


def classified():
    x, target = jtorch.randint(0, 7, (2, 3)).cuda(), jtorch.randint(0, 7, (2, 3)).cuda()
    model = net()
    optimizer = jtorch.optim.AdamW(model.parameters(), lr=0.01)
    logits = model(x).flatten(0, 1)
    F.cross_entropy(logits, target.flatten(), label_smoothing=0.1).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return (logits.argmax(1) == target.flatten()).float().mean().item()


def image_net():
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3),
    ).cuda()  # fmt: skip
    F.cross_entropy(model(jtorch.randn(2, 1, 4, 4).cuda()), jtorch.tensor([0, 2]).cuda()).backward()


def averaged():
    slow, fast = jtorch.ones(3).cuda(), jtorch.zeros(3).cuda()
    slow.lerp_(fast, 0.1)
    return F.normalize(slow.requires_grad_(), dim=0).norm().backward()


def sampled():
    logits = jtorch.randn(2, 6).cuda()
    kept = logits.topk(3).values[:, -1:]
    logits = logits.masked_fill(logits < kept, -jtorch.inf)
    probabilities, order = logits.softmax(-1).sort(descending=True)
    probabilities[probabilities.cumsum(-1) - probabilities > 0.9] = 0.0
    return order.gather(1, probabilities.multinomial(1))


PROGRAMS = {"a transformer": classified, "images": image_net, "averages": averaged, "sampling": sampled}


@pytest.mark.slow
@each("name", PROGRAMS)
def test_programs_stay_on_the_device(on_device, name):
    PROGRAMS[name]()
    on_device()


@pytest.mark.slow
def test_a_formula_of_ever_new_numbers_goes_by_the_host_in_the_end(on_device, caplog):
    x = jtorch.ones(3, device="cuda")
    with caplog.at_level(logging.INFO, "jtorch.device"):
        for k in range(20):
            assert x.lerp(x * 3.0, k / 40).tolist() == pytest.approx([1.0 + k / 20] * 3)
            assert bool(caplog.records) == (k >= 16), "each of the first has kernels of its own"
    assert "lerp is computed on the host" in caplog.text


RECURRENT = {
    "LSTM": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    "GRU": lambda: nn.GRU(3, 4),
    "RNN": lambda: nn.RNN(3, 4),
}


@pytest.mark.slow
@each("name", RECURRENT)
def test_recurrent_layers(on_device, name):
    jtorch.manual_seed(0)
    sequences, layer, found = [jtorch.randn(n, 3) for n in (4, 2)], RECURRENT[name](), []
    for place in ("cpu", "cuda"):
        layer = layer.to(place)
        layer.zero_grad()
        whole = jtorch.stack([sequences[0].to(place)] * 2, 1).requires_grad_()
        packed = nn.utils.rnn.pack_sequence([s.to(place) for s in sequences])
        out, of_packed = layer(whole)[0], layer(packed)[0].data
        ((out**2).sum() + of_packed.sum()).backward()
        found.append([out, of_packed, whole.grad, *(p.grad for p in layer.parameters())])
    for expected, there in zip(*found, strict=True):
        same(there, expected.cpu(), 1e-5)
    on_device()


def test_a_scaler_leaves_out_what_is_not_finite(on_device):
    w = jtorch.ones(2, device="cuda", requires_grad=True)
    optimizer, scaler = jtorch.optim.SGD([w], lr=1.0), jtorch.amp.GradScaler("cuda", init_scale=8.0)
    for factor, expected, scale in ((1.0, [0.0, 0.0], 8.0), (jtorch.inf, [0.0, 0.0], 4.0)):
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert w.tolist() == expected and scaler.get_scale() == scale
    on_device()


@pytest.mark.slow
def test_counts_of_steps_do_not_have_kernels_each(cuda, on_device):
    def averaged(place):
        average = jtorch.zeros(3, device=place)
        for k in range(24):
            average = average + (jtorch.full((3,), float(k), device=place) - average) / (k + 1)
        return average

    same(averaged("cuda"), averaged("cpu"))
    before = cuda.fake.calls.count("cuModuleLoadDataEx")
    x = jtorch.ones(3, device="cuda")
    for k in range(100, 140):
        x / k
    assert cuda.fake.calls.count("cuModuleLoadDataEx") - before <= 1
    on_device()
