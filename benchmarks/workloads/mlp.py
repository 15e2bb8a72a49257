"""A perceptron with one hidden layer on the digits, 64-64-10, batch 32, Adam; and a larger one."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.data import batches, enlarged, uniform
from benchmarks.program import Epoch, Program, Workload
from benchmarks.workloads.training import jax_classifier, torch_training

BATCH = 32


def values(hidden: int) -> dict[str, np.ndarray]:
    shapes = {
        "0.weight": (hidden, 64),
        "0.bias": (hidden,),
        "2.weight": (10, hidden),
        "2.bias": (10,),
    }
    return uniform(0, shapes)


def torch_like(torch: Any, hidden: int = 64) -> Program:
    nn = torch.nn
    model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    return torch_training(torch, model, values(hidden), batches(BATCH, (64,)))


def jax(hidden: int = 64) -> Program:
    from benchmarks.models import in_jax

    return jax_classifier(in_jax.perceptron, values(hidden), batches(BATCH, (64,)))


def larger(torch: Any) -> Program:
    """Of MNIST's size: its products are large enough for several threads, its step is not."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    shapes: dict[str, tuple[int, ...]] = {
        "0.weight": (256, 784), "0.bias": (256,), "2.weight": (10, 256), "2.bias": (10,)
    }  # fmt: skip
    data = [(images.reshape(64, 784), labels) for images, labels in enlarged(64)]
    return torch_training(torch, model, uniform(0, shapes), data)


EPOCH = Epoch("the digits", 57)  # 1,797 images in batches of 32
WORKLOAD = Workload("mlp", "MLP 64-64-10, batch 32, Adam", torch_like, jax, epoch=EPOCH)
LARGER = Workload("mlp-784", "MLP 784-256-10, batch 64, Adam", larger)
