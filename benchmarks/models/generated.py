"""Programs that are made to a size: their names say all of it, so that a new process can build them.

``stack-1000`` is a stack of layers whose training step has about 1,000 equations; ``mlp-64x2-b32`` a
perceptron of two hidden layers of 64, trained on batches of 32.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np

from benchmarks.models.rows import TOLERANCE
from benchmarks.models.small import perceptron
from benchmarks.program import Program, Workload, torch_program

INPUTS, CLASSES = 64, 10  # of each perceptron
PER_LAYER, OUTSIDE = 11, 6  # equations that a layer of the stack records, and those of the loss
_NAME = re.compile(r"stack-(?P<equations>\d+)|mlp-(?P<width>\d+)x(?P<depth>\d+)-b(?P<batch>\d+)")


def stack_name(equations: int) -> str:
    return f"stack-{equations}"


def perceptron_name(width: int, batch: int, depth: int) -> str:
    return f"mlp-{width}x{depth}-b{batch}"


def is_one(name: str) -> bool:
    """Whether it names a program of this file."""
    return _NAME.fullmatch(name) is not None


def workload(name: str) -> Workload:
    """The program of that name."""
    match = _NAME.fullmatch(name)
    assert match is not None
    if match["equations"]:
        layers = max(1, (int(match["equations"]) - OUTSIDE) // PER_LAYER)
        return Workload(name, f"stack of {layers:,} layers", partial(_stack, layers=layers))
    width, depth, batch = (int(match[key]) for key in ("width", "depth", "batch"))
    sizes = (INPUTS, *[width] * depth, CLASSES)
    what = f"MLP {'-'.join(map(str, sizes))}, b{batch}"
    return Workload(name, what, lambda torch: perceptron(torch, batch, *sizes), tolerance=TOLERANCE)


def _stack(torch: Any, layers: int) -> Program:
    """x = tanh(x w) + x for each layer, with a weight of its own; gradients of all, and no optimizer.

    Layers are alike, so that there are five kernels whatever the number of layers.
    """
    generator = np.random.default_rng(0)
    bound = 1 / layers**0.5  # or numbers would grow with the layers
    drawn = generator.uniform(-bound, bound, (layers, 16, 16)).astype(np.float32)
    named = {f"w{k}": torch.from_numpy(w.copy()).requires_grad_() for k, w in enumerate(drawn)}
    weights = [*named.values()]

    def forward(x: Any) -> Any:
        for w in weights:
            x = torch.tanh(x @ w) + x
        return (x * x).mean()

    def step(x: Any) -> Any:
        for w in weights:
            w.grad = None
        loss = forward(x)
        loss.backward()
        return loss

    return torch_program(torch, step, forward, [(generator.random((8, 16), np.float32),)], named)
