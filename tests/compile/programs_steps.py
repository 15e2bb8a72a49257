"""Random training steps: a small model, a loss, an optimizer and what happens between calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import jtorch
from jtorch import nn, optim
from jtorch.compile.record.tree import flatten
from jtorch.nn import functional as F

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.05),
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
    "adadelta": lambda p: optim.Adadelta(p, lr=0.5),
}
LAYERS: dict[str, Callable[[int], Any]] = {
    "tanh": lambda n: nn.Tanh(),
    "gelu": lambda n: nn.GELU(),
    "silu": lambda n: nn.SiLU(),
    "sigmoid": lambda n: nn.Sigmoid(),
    "softplus": lambda n: nn.Softplus(),
    "layer_norm": lambda n: nn.LayerNorm(n),
    # not straight after a bias: what is the same in a whole batch has no gradient but roundings, of which
    # Adam would make whole steps
    "batch_norm": lambda n: nn.Sequential(nn.Tanh(), nn.BatchNorm1d(n)),
    "dropout": lambda n: nn.Dropout(0.3),
    "linear": lambda n: nn.Linear(n, n),
    "gru": lambda n: _Recurrent(n),
}
EVENTS = ("nothing", "lr", "rows", "freeze", "eval", "keep grad")
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "mse": lambda out, y: F.mse_loss(out, y),
    "smooth_l1": lambda out, y: F.smooth_l1_loss(out, y),
    "cross_entropy": lambda out, y: F.cross_entropy(out, y.abs().sum(1).long() % out.shape[1]),
    "log_softmax": lambda out, y: -(F.log_softmax(out, 1) * F.softmax(y, 1)).sum(1).mean(),
    "norm": lambda out, y: ((out - y) ** 2).sum().add(1.0).sqrt(),
}


class _Recurrent(nn.Module):
    """Two steps of a GRU cell from nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x: Any) -> Any:
        return self.cell(x * 0.5, self.cell(x))


@dataclass(frozen=True)
class Step:
    """A training step by number: the same model, batches and events each time it is made."""

    seed: int

    @property
    def draws(self) -> random.Random:
        return random.Random(self.seed)

    def run(self, compiled: Callable[[Callable], Callable]) -> list[dict[str, np.ndarray]]:
        """What each of four calls returned and left behind, by name."""
        rng = self.draws
        jtorch.manual_seed(self.seed)
        width = rng.choice((3, 4))
        names = [rng.choice(sorted(LAYERS)) for _ in range(rng.randint(1, 3))]
        # norms of a few rows magnify roundings: in float32 eager mode itself is 2% off what float64 gives
        double = rng.random() < 0.3 or any("norm" in n for n in names)
        layers = [LAYERS[n](width) for n in names]
        model = nn.Sequential(nn.Linear(width, width), *layers, nn.Linear(width, 3))
        if double:
            model.double()
        optimizer = OPTIMIZERS[rng.choice(sorted(OPTIMIZERS))](model.parameters())
        step = compiled(_step(model, optimizer, rng))
        found, rows = [], 5
        data = np.random.default_rng(self.seed)
        for event in ["nothing", *(rng.choice(EVENTS) for _ in range(3))]:
            rows = 4 if event == "rows" else rows
            held = _happens(event, model, optimizer)
            x, y = (data.normal(size=(rows, n)) for n in (width, 3))
            dtype = np.float64 if double else np.float32
            batch = [jtorch.from_numpy(a.astype(dtype)) for a in (x, y)]
            outs = [t.detach().numpy().copy() for t in flatten(step(*batch))[0]]
            state = _state(model, optimizer) | {f"result {k}": v for k, v in enumerate(outs)}
            found.append(state | {f"held {k}": np.array(g) for k, g in enumerate(held)})
        found[-1]["next draw"] = jtorch.rand(1).numpy()
        return found

    def __repr__(self) -> str:
        return f"Step({self.seed})"


def _step(model: Any, optimizer: Any, rng: random.Random) -> Callable:
    loss_of = LOSSES[rng.choice(sorted(LOSSES))]
    clip, branch, twice, decay = (rng.random() < 0.3 for _ in range(4))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        if branch and loss > 1.0:
            loss = loss * 0.5
        if decay:
            loss = loss + 0.01 * sum((p * p).sum() for p in model.parameters())
        loss.backward()
        if twice:
            (model(x * 0.5) ** 2).mean().backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    return step


def _happens(event: str, model: Any, optimizer: Any) -> list[np.ndarray]:
    """Something between two calls; the gradients that somebody keeps, as arrays."""
    if event == "lr":
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
    if event == "freeze":
        first = next(iter(model.parameters()))
        first.requires_grad_(not first.requires_grad)
    if event == "eval":
        model.train(not model.training)
    if event == "keep grad":
        return [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    return []


def _state(model: Any, optimizer: Any) -> dict[str, np.ndarray]:
    found: dict[str, Any] = dict(model.named_parameters()) | dict(model.named_buffers())
    found |= {f"{n}.grad": p.grad for n, p in model.named_parameters()}
    for k, facts in optimizer.state_dict()["state"].items():
        found |= {f"state.{k}.{n}": v for n, v in facts.items() if isinstance(v, jtorch.Tensor)}
    return {n: v.detach().numpy().copy() for n, v in found.items() if v is not None}
