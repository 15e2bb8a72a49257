"""Small training programs, written as users write them. Each maker gives (model, optimizer, step, batch):
``step(*batch(rows, rng))`` trains on a batch of ``rows`` and returns tensors to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jtorch
import jtorch.nn as nn
import jtorch.nn.functional as F

WORKLOADS: dict[str, Callable[[], tuple[Any, Any, Callable, Callable]]] = {}


def workload(make: Callable) -> Callable:
    WORKLOADS[make.__name__] = make
    return make


def _floats(rng: np.random.Generator, *shape: int) -> jtorch.Tensor:
    return jtorch.from_numpy(rng.normal(size=shape).astype(np.float32))


def _ints(rng: np.random.Generator, high: int, *shape: int) -> jtorch.Tensor:
    return jtorch.from_numpy(rng.integers(0, high, shape))


def training(model: Any, optimizer: Any, loss_of: Callable) -> Callable:
    """A step: the loss of a batch, backward, the optimizer."""

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        return loss

    return step


@workload
def mlp_adam():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)
    step = training(model, optimizer, lambda x, y: F.cross_entropy(model(x), y))
    return model, optimizer, step, lambda rows, rng: (_floats(rng, rows, 6), _ints(rng, 4, rows))


@workload
def regression_momentum():
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)
    step = training(model, optimizer, lambda x, y: F.mse_loss(model(x), y))
    return model, optimizer, step, lambda rows, rng: (_floats(rng, rows, 5), _floats(rng, rows, 1))


@workload
def lenet():
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4 * 2 * 2, 5),
    )  # fmt: skip
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = training(model, optimizer, lambda x, y: F.cross_entropy(model(x), y))
    return model, optimizer, step, lambda rows, rng: (_floats(rng, rows, 1, 12, 12), _ints(rng, 5, rows))


@workload
def normed_adamw():
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.SiLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    optimizer = jtorch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    step = training(model, optimizer, lambda x, y: F.nll_loss(F.log_softmax(model(x), dim=-1), y))
    return model, optimizer, step, lambda rows, rng: (_floats(rng, rows, 6), _ints(rng, 3, rows))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def _split(self, x: jtorch.Tensor) -> jtorch.Tensor:
        n, t, w = x.shape
        return x.reshape(n, t, self.heads, w // self.heads).permute(0, 2, 1, 3)

    def forward(self, x: jtorch.Tensor) -> jtorch.Tensor:
        n, t, w = x.shape
        q, k, v = (self._split(f(x)) for f in (self.queries, self.keys, self.values))
        scores = q @ k.transpose(-1, -2) * (w // self.heads) ** -0.5
        mask = jtorch.arange(t).unsqueeze(1) >= jtorch.arange(t)
        weights = F.softmax(jtorch.where(mask, scores, -1e9), dim=-1)
        mixed = (weights @ v).permute(0, 2, 1, 3).reshape(n, t, w)
        return self.norm(x + self.out(mixed))


@workload
def transformer():
    tokens, attention, head = nn.Embedding(7, 8), _Attention(8, 2), nn.Linear(8, 7)
    model = nn.ModuleList([tokens, attention, head])
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

    def loss_of(x: jtorch.Tensor, y: jtorch.Tensor) -> jtorch.Tensor:
        scores = head(attention(tokens(x)))
        return F.cross_entropy(scores.reshape(-1, 7), y.reshape(-1))

    return model, optimizer, training(model, optimizer, loss_of), lambda rows, rng: (
        _ints(rng, 7, rows, 5), _ints(rng, 7, rows, 5),
    )  # fmt: skip


@workload
def rnn():
    inner, outer, head = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)
    model = nn.ModuleList([inner, outer, head])
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    def loss_of(x: jtorch.Tensor, y: jtorch.Tensor) -> jtorch.Tensor:
        h = jtorch.zeros(x.shape[0], 6)
        seen = []
        for t in range(x.shape[1]):
            h = jtorch.tanh(inner(x[:, t]) + outer(h))
            seen.append(h)
        return F.cross_entropy(head(jtorch.stack(seen, 1).mean(1)), y)

    return model, optimizer, training(model, optimizer, loss_of), lambda rows, rng: (
        _floats(rng, rows, 5, 4), _ints(rng, 3, rows),
    )  # fmt: skip


@workload
def autoencoder():
    model = nn.Sequential(nn.Linear(6, 3), nn.Softplus(), nn.Linear(3, 6), nn.Sigmoid())
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.05)

    def loss_of(x: jtorch.Tensor) -> jtorch.Tensor:
        target = jtorch.sigmoid(x)
        out = model(x)
        penalty = sum((p * p).sum() for p in model.parameters())
        return F.binary_cross_entropy(out, target) + 1e-3 * penalty + (out - target).abs().mean()

    return model, optimizer, training(model, optimizer, loss_of), lambda rows, rng: (_floats(rng, rows, 6),)


@workload
def contrastive():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)

    def loss_of(x: jtorch.Tensor, y: jtorch.Tensor) -> jtorch.Tensor:
        a, b = (F.normalize(model(t), dim=-1) for t in (x, y))
        distance = ((a.unsqueeze(1) - b.unsqueeze(0)) ** 2).sum(-1)
        return F.cross_entropy(-distance, jtorch.arange(x.shape[0]))

    return model, optimizer, training(model, optimizer, loss_of), lambda rows, rng: (
        _floats(rng, rows, 5), _floats(rng, rows, 5),
    )  # fmt: skip


@workload
def statistics_in_place():
    """Running statistics written in place, slices written through, a parameter used after its update."""
    model = nn.Linear(4, 4)
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)
    mean, history = jtorch.zeros(4), jtorch.zeros(3, 4)

    def step(x: jtorch.Tensor) -> Any:
        optimizer.zero_grad()
        centred = x - mean
        loss = (model(centred) ** 2).mean()
        loss.backward()
        optimizer.step()
        with jtorch.no_grad():
            mean.mul_(0.9).add_(x.mean(0) * 0.1)
            history[1:] = history[:-1].clone()
            history[0] = mean
            return loss, model(x).clamp(-1.0, 1.0), mean.clone(), history.clone()

    model.register_buffer("mean", mean)
    model.register_buffer("history", history)
    return model, optimizer, step, lambda rows, rng: (_floats(rng, rows, 4),)


@workload
def two_optimizers():
    """Two models that train each other: each step reads what the other has just updated."""
    first, second = nn.Linear(3, 4), nn.Linear(4, 3)
    optimizers = [jtorch.optim.Adam(m.parameters(), lr=0.02) for m in (first, second)]
    model = nn.ModuleList([first, second])

    def step(x: jtorch.Tensor) -> Any:
        losses = []
        for optimizer in optimizers:
            for o in optimizers:
                o.zero_grad()
            loss = F.smooth_l1_loss(second(jtorch.tanh(first(x))), x)
            loss.backward()
            optimizer.step()
            losses.append(loss)
        return losses

    return model, optimizers[0], step, lambda rows, rng: (_floats(rng, rows, 3),)
