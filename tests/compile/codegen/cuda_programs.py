"""The programs of the CUDA link: each a function without arguments that raises where something is wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from tests.compile.chain import Machine, arguments_of, trace
from tests.compile.codegen.cuda_chain import SPLIT, exactly_on_machine, on_machine, plan_of
from tests.cuda.plans import on_ptx_machine

Program = Callable[[], object]


def tensor(*shape: int, seed: int = 0, dtype: Any = np.float32, grad: bool = False) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return jtorch.from_numpy(values).requires_grad_(grad)


def integers(high: int, *shape: int, low: int = 0, seed: int = 0) -> Any:
    return jtorch.from_numpy(np.random.default_rng(seed).integers(low, high, shape))


X, Y, ROW, COLUMN = tensor(5, 7), tensor(5, 7, seed=1), tensor(7, seed=2), tensor(5, 1, seed=3)
CUBE, WIDE = tensor(2, 3, 4, seed=4), tensor(2, 19, seed=5)
CLASSES, IDS = integers(7, 5), integers(9, 4, 3)
ODD = jtorch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-42, -1e-42, 3.5, -2.5])
NAN_ROWS = jtorch.tensor([[1.0, float("nan"), 5.0, float("nan")], [-float("inf")] * 4, [2.0, 7.0, 7.0, 1.0]])


def gradients(function: Callable) -> Callable:
    """``function`` and the gradients of its sum with respect to its float arguments."""

    def program(*leaves: Any) -> list[Any]:
        wanted = [t for t in leaves if t.requires_grad]
        out = function(*leaves)
        loss = (out * jtorch.cos(jtorch.arange(out.numel(), dtype=out.dtype)).reshape(out.shape)).sum()
        return [out, *(g.clone() for g in jtorch.autograd.grad([loss], wanted))]

    return program


def _centred(x: Any) -> Any:
    return x - x.mean(1, keepdim=True)


MAPS: dict[str, tuple[Callable, list[Any]]] = {
    "broadcasting": (lambda x, r, c: [(x + r) * c - 0.5, r * c], [X, ROW, COLUMN]),
    "broadcasting over three loops": (lambda c, r: [c * r + 1.0], [CUBE, tensor(2, 1, 4)]),
    "where, cast, bool": (
        lambda x, y: [
            jtorch.where((x > y) & (x > 0), x, -y),
            (x > y).long(),
            (x > 0).float() * y,
            x.double(),
        ],
        [X, Y],
    ),
    "special values": (
        lambda x: [x.exp(), x.tanh(), x.sigmoid(), x.relu(), x.log1p(), x.clamp(-1.0, 1.0), x.abs(), x / x],
        [ODD],
    ),
    "float64": (lambda x: [x.exp().sin() / (x * x + 1.0).sqrt()], [tensor(11, dtype=np.float64)]),
    "views": (
        lambda c: [c.permute(2, 0, 1) + 1.0, c[:, 1:3, ::2] * 2.0, c.flip(1) + c, c.transpose(0, 2).clone()],
        [CUBE],
    ),
    "cat": (lambda x, y: [jtorch.cat([x, y, x], 1) * 2.0], [X, Y]),
    "gather": (lambda x, i: [x[i] + 1.0], [tensor(9, 4), IDS]),
    "integers": (lambda a, b: [a // b, a % b, a * b - a], [integers(9, 12, low=-9), integers(5, 12, low=1)]),
    "one element": (lambda x: [x * 2.0 + 1.0], [tensor()]),
    "empty": (lambda x: [x + 1.0], [tensor(0, 3)]),
    "embedding backward": (
        lambda w, i, g: [jtorch.autograd.grad([F.embedding(i, w)], [w], [g])[0].clone()],
        [tensor(9, 6, grad=True), IDS, tensor(4, 3, 6)],
    ),
}
REDUCTIONS: dict[str, tuple[Callable, list[Any]]] = {
    "sums": (lambda c: [c.sum(), c.sum(-1), c.sum(0), c.sum((0, 2)), c.sum((0, 1))], [CUBE]),
    "narrow columns": (lambda x: [x.sum(0), x.amax(0), (x > 0).any(0)], [tensor(9, 2)]),
    "means": (lambda x: [x.mean(), x.mean(0), x.mean(1, keepdim=True)], [X]),
    "extremes": (lambda x: [x.amax(), x.amax(0), x.amin(1), x.max(1)[0]], [X]),
    "nan": (lambda x: [x.amax(1), x.amin(1), x.sum(1), x.argmax(1), x.argmin(1), x.argmax()], [NAN_ROWS]),
    "var": (lambda x: [x.var(), x.var(1), x.std(0)], [X]),
    "argmax": (lambda x, i: [x.argmax(), x.argmax(0), x.argmin(1), i.argmax(0)], [WIDE, integers(3, 4, 9)]),
    "any, all": (lambda x: [(x > 0).any(1), (x > -9).all(), (x > 1).any(0), (x > -9).all(1)], [X]),
    "integer sums": (lambda i: [i.sum(), i.sum(0), i.amax(1), i.prod()], [integers(9, 4, 5, low=1)]),
    "of nothing": (lambda x: [x.sum(), x.sum(1), x.sum(0), (x > 0).all()], [tensor(0, 3)]),
    "softmax": (lambda x, w: [x.softmax(-1), w.softmax(1), x.reshape(-1).softmax(0)], [X, WIDE]),
    "log_softmax": (lambda x: [x.log_softmax(1), x.flatten().log_softmax(0)], [X]),
    "softmax backward": (gradients(lambda x: x.softmax(-1)), [tensor(5, 7, grad=True)]),
    "cross_entropy": (gradients(lambda x, t: F.cross_entropy(x, t)), [tensor(5, 7, grad=True), CLASSES]),
    "layer_norm": (
        gradients(lambda x, w, b: F.layer_norm(x, (7,), w, b)),
        [tensor(5, 7, grad=True), tensor(7, seed=1, grad=True), tensor(7, seed=2, grad=True)],
    ),
    "rows over what they read": (
        lambda x, w, r: [_centred(x @ w + x @ -w.T) @ w, (_centred(x @ w + x @ -w.T) * r + r) @ w],
        [X, tensor(7, 7, seed=6), ROW],
    ),
    "dropout": (gradients(lambda x: F.dropout(x, 0.4)), [tensor(6, 9, grad=True)]),
    "pool": (gradients(lambda x: F.max_pool2d(x, 2)), [tensor(2, 1, 4, 6, grad=True)]),
    "convolution": (
        gradients(lambda x, w: F.conv2d(x, w, padding=1)),
        [tensor(2, 2, 5, 5, grad=True), tensor(3, 2, 3, 3, seed=1, grad=True)],
    ),
}

SPLITTABLE = {
    "sums",
    "narrow columns",
    "nan",
    "var",
    "argmax",
    "any, all",
    "of nothing",
    "softmax",
    "cross_entropy",
}


def random_bits() -> None:
    """Draws are those of eager mode, bit for bit, through kernels of their own."""
    jtorch.manual_seed(3)
    on_machine(lambda: [jtorch.rand(3, 5), jtorch.randn(17), jtorch.randint(2, 9, (11,))], [])


def training_step() -> None:
    """A whole step of an MLP: Adam's update of five parameters is one launch."""
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4, bias=False))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step(tensor(3, 6), integers(4, 3))  # makes the optimizer's state
    machine = on_machine(step, [tensor(3, 6, seed=1), integers(4, 3, seed=1)])
    updates = [
        count for entry, count in machine.runner.launched if entry.startswith("map_") and "sub" in entry
    ]
    assert 5 in updates, machine.runner.launched


def in_place() -> None:
    x, total = tensor(5, 7), tensor(7)

    def step(y: Any) -> Any:
        x.mul_(2.0).add_(y)
        total.copy_(total * 0.9 + y.sum(0))
        return x.sum()

    on_machine(step, [tensor(5, 7, seed=1)])


def _failing(sentence: str, function: Callable, leaves: list[Any]) -> None:
    made = trace(function, leaves)
    machine = Machine(plan_of(made), on_ptx_machine(), arguments_of(made))
    status = machine.run()
    assert status and machine.runner.failure(status).sentence == sentence, status


def index_out_of_range() -> None:
    _failing("index out of range in self", lambda x, i: [x[i] * 2.0], [X, jtorch.tensor([0, 4, 5])])


def integer_division_by_zero() -> None:
    _failing("integer division by zero", lambda a, b: [a // b], [integers(9, 3), jtorch.tensor([1, 0, 2])])


PROGRAMS: dict[str, Program] = {
    f.__name__: f
    for f in (random_bits, training_step, in_place, index_out_of_range, integer_division_by_zero)
}
for _name, (_function, _leaves) in MAPS.items():
    PROGRAMS[f"map: {_name}"] = functools.partial(exactly_on_machine, _function, _leaves)
for _name, (_function, _leaves) in REDUCTIONS.items():
    PROGRAMS[f"reduction: {_name}"] = functools.partial(on_machine, _function, _leaves)
    if _name in SPLITTABLE:
        PROGRAMS[f"split: {_name}"] = functools.partial(on_machine, _function, _leaves, SPLIT)
