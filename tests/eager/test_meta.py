"""The device "meta": shapes and dtypes of what the host computes, and no elements."""

from __future__ import annotations

import copy

import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn

VALUES = {"a": (3, 4), "b": (4,), "c": (4, 7), "d": (2, 3, 8, 8), "w": (4, 3, 3, 3)}
OPS = {
    "sum with a row": lambda t, v: v["a"] + v["b"],
    "beside a number": lambda t, v: 2.5 * v["a"] - 1,
    "beside a number of the host": lambda t, v: v["a"] * t.tensor(2.0),
    "dtypes": lambda t, v: (v["a"].double() + v["b"], v["a"].half() * 2, v["a"] > 0, v["a"].int() / 2),
    "product": lambda t, v: v["a"] @ v["c"],
    "einsum": lambda t, v: t.einsum("ij,kj->ik", v["a"], v["a"]),
    "reductions": lambda t, v: (v["a"].sum(0), v["a"].mean(), v["a"].amax(1, keepdim=True), v["a"].argmax()),
    "softmax": lambda t, v: v["a"].softmax(1),
    "views": lambda t, v: (v["a"].view(2, 6).t(), v["a"][1:, None, ::2], v["a"].expand(5, 3, 4)),
    "cat": lambda t, v: (t.cat([v["a"], v["a"]], 1), t.stack([v["b"], v["b"]])),
    "sort": lambda t, v: (*v["a"].sort(), *v["a"].topk(2)),
    "index": lambda t, v: v["a"][t.tensor([0, 1, 1])],
    "where": lambda t, v: t.where(v["a"] > 0, v["a"], 0.0),
    "factors": lambda t, v: (t.linalg.inv(v["q"]), *t.linalg.svd(v["a"]), *t.linalg.qr(v["a"])),
    "convolution": lambda t, v: t.nn.functional.conv2d(v["d"], v["w"], padding=1),
    "pooling": lambda t, v: t.nn.functional.max_pool2d(v["d"], 2),
    "dropout": lambda t, v: t.nn.functional.dropout(v["a"], 0.5),
    "like": lambda t, v: (t.zeros_like(v["a"]), t.randn_like(v["a"]), v["a"].new_ones(2)),
    "in place": lambda t, v: v["a"].clone().mul_(2).add_(v["b"]).uniform_(0, 1).zero_(),
}


def facts(found):
    parts = found if isinstance(found, (tuple, list)) else (found,)
    return [(tuple(t.shape), str(t.dtype).split(".")[1], t.stride(), str(t.device)) for t in parts]


def values(library, device):
    made = {name: library.ones(shape, device=device) for name, shape in VALUES.items()}
    return made | {"q": library.eye(3, device=device)}


@pytest.mark.parametrize("name", OPS)
def test_what_an_op_gives_has_the_shape_and_dtype_of_the_hosts(name):
    found = facts(OPS[name](jtorch, values(jtorch, "meta")))
    assert {place for *_, place in found} == {"meta"}
    on_host = facts(OPS[name](jtorch, values(jtorch, "cpu")))
    assert [fact[:2] for fact in found] == [fact[:2] for fact in on_host]
    torch = pytest.importorskip("torch")
    assert [fact[:2] for fact in found] == [
        fact[:2] for fact in facts(OPS[name](torch, values(torch, "meta")))
    ]


FACTORIES = {
    "empty": lambda t: t.empty(3, 4, device="meta"),
    "zeros": lambda t: t.zeros(3, dtype=t.int32, device="meta"),
    "full": lambda t: t.full((2, 3), 1.5, device="meta"), "tensor": lambda t: t.tensor([1, 2], device="meta"),
    "arange": lambda t: t.arange(5, device="meta"), "linspace": lambda t: t.linspace(0, 1, 7, device="meta"),
    "eye": lambda t: t.eye(3, device="meta"), "randn": lambda t: t.randn(3, device="meta"),
    "randint": lambda t: t.randint(0, 5, (3,), device="meta"), "to": lambda t: t.ones(3, 2).t().to("meta"),
    "randperm": lambda t: t.randperm(4, device="meta"),
    "from another": lambda t: t.zeros_like(t.ones(2), device="meta"),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name):
    made = FACTORIES[name](jtorch)
    assert made.is_meta and not made.is_cpu and not made.is_cuda
    torch = pytest.importorskip("torch")
    assert [f[:2] for f in facts(made)] == [f[:2] for f in facts(FACTORIES[name](torch))]


def test_what_no_memory_would_hold():
    """And no random number is drawn for it."""
    jtorch.manual_seed(0)
    before = jtorch.get_rng_state()
    layer = nn.Linear(10**6, 10**6, device="meta")
    assert layer.weight.numel() == 10**12 and layer.weight.requires_grad
    assert layer(jtorch.empty(3, 10**6, device="meta")).shape == (3, 10**6)
    assert nn.Embedding(10**9, 1000, device="meta").weight.detach().fill_(1.0).shape == (10**9, 1000)
    assert jtorch.equal(jtorch.get_rng_state(), before)


def test_a_training_step():
    with jtorch.device("meta"):
        model = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10),
            nn.LayerNorm(10), nn.Dropout(0.1),
        )  # fmt: skip
        x, y = jtorch.randn(2, 1, 8, 8), jtorch.randint(0, 10, (2,))
    optimizer = jtorch.optim.Adam(model.parameters())
    F.cross_entropy(model(x), y).backward()
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
    optimizer.step()
    assert all(p.is_meta for p in model.parameters())


def test_models():
    with jtorch.device("meta"):
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        models = (nn.TransformerEncoder(layer, 2), nn.LSTM(16, 4, 2), nn.GRU(16, 4, bidirectional=True))
        x = jtorch.empty(3, 5, 16)
    shapes = []
    for model in models:
        out = model(x)
        shapes.append(tuple((out[0] if isinstance(out, tuple) else out).shape))
    assert shapes == [(3, 5, 16), (3, 5, 4), (3, 5, 8)]


def test_a_compiled_function_runs_eagerly():
    x = jtorch.empty(2, 3, device="meta")
    function = jtorch.compile(lambda x: x.sum(0), fullgraph=False)
    with pytest.warns(jtorch.errors.EagerWarning, match="on the device meta has no elements"):
        assert function(x).is_meta
    assert function(jtorch.ones(2, 3)).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "asked, kind, sentence",
    [
        (lambda a: a.sum().item(), RuntimeError, "item\\(\\) cannot be called on meta tensors"),
        (lambda a: bool(a.sum()), RuntimeError, "item\\(\\) cannot be called on meta tensors"),
        (lambda a: a.cpu(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda a: jtorch.ones(3, 4).copy_(a), NotImplementedError, "Cannot copy out of meta tensor"),
        (lambda a: a.numpy(), TypeError, "can't convert meta device type tensor to numpy"),
        (lambda a: a[a > 0], NotImplementedError, "needs elements, and a tensor on the device meta has none"),
        (lambda a: a.tolist(), NotImplementedError, "needs elements"),
        (lambda a: a + jtorch.ones(3, 4), RuntimeError, "two devices, meta and cpu"),
        (lambda a: a @ jtorch.empty(5, 7, device="meta"), RuntimeError, "cannot be multiplied \\(3x4 and"),
        (lambda a: nn.Linear(2, 2, device="meta").to("cpu"), NotImplementedError, "to_empty\\(\\) instead"),
    ],
)  # fmt: skip
def test_elements_are_not_there(asked, kind, sentence):
    with pytest.raises(kind, match=sentence):
        asked(jtorch.empty(3, 4, device="meta"))


def test_texts():
    a = jtorch.empty(3, 4, dtype=jtorch.int64, device="meta")
    assert repr(a) == "tensor(..., device='meta', size=(3, 4), dtype=jtorch.int64)"
    b = jtorch.empty(2, device="meta", requires_grad=True)
    assert repr(b) == "tensor(..., device='meta', size=(2,), requires_grad=True)"
    assert "grad_fn=<MulBackward0>" in repr(b * 2)


def test_modules_get_elements():
    layer = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to("meta")
    weight = layer[0].weight
    assert layer.to_empty(device="cpu") is layer and layer[0].weight is weight
    assert weight.device == jtorch.device("cpu") and weight.requires_grad
    assert layer[1].running_mean.device == jtorch.device("cpu")
    nn.init.ones_(weight)
    assert weight.sum().item() == 12.0


def test_modules_take_what_is_loaded():
    source, target = nn.Linear(3, 4), nn.Linear(3, 4, device="meta")
    assert target.load_state_dict(source.state_dict()).missing_keys == []  # into nothing
    assert target.weight.is_meta
    target.load_state_dict(source.state_dict(), assign=True)
    x = jtorch.ones(2, 3)
    assert jtorch.equal(target(x), source(x))


def test_skip_init_makes_no_initial_values():
    jtorch.manual_seed(0)
    before = jtorch.get_rng_state()
    layer = nn.utils.skip_init(nn.Linear, 3, 4)
    assert layer.weight.device == jtorch.device("cpu") and layer.weight.shape == (4, 3)
    assert jtorch.equal(jtorch.get_rng_state(), before)


def test_copies_and_views():
    layer = nn.Linear(3, 4, device="meta")
    assert copy.deepcopy(layer).weight.is_meta
    a = jtorch.empty(3, 4, device="meta")
    row = a[0]
    version = a._version
    row.zero_()
    assert a._version == version + 1 and row._base is a
    a[1] = 2.0
    with pytest.raises(RuntimeError, match=r"expanded|broadcast"):
        a[1] = jtorch.empty(3, device="meta")
