"""LeNet on images of MNIST's shape, batch 64, Adam: convolutions, where arithmetic dominates."""

from __future__ import annotations

from typing import Any

from benchmarks.data import enlarged, uniform
from benchmarks.program import Epoch, Program, Workload
from benchmarks.workloads.training import jax_classifier, torch_training

BATCH = 64
VALUES = uniform(
    0,
    {
        "0.weight": (6, 1, 5, 5),
        "0.bias": (6,),
        "3.weight": (16, 6, 5, 5),
        "3.bias": (16,),
        "7.weight": (120, 256),
        "7.bias": (120,),
        "9.weight": (84, 120),
        "9.bias": (84,),
        "11.weight": (10, 84),
        "11.bias": (10,),
    },
)


def torch_like(torch: Any) -> Program:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5),  # (64, 6, 24, 24)
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),  # (64, 16, 8, 8)
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )
    return torch_training(torch, model, VALUES, enlarged(BATCH))


def jax() -> Program:
    from benchmarks.models import in_jax

    return jax_classifier(in_jax.lenet, VALUES, enlarged(BATCH))


EPOCH = Epoch("MNIST", 938)  # 60,000 images in batches of 64
WORKLOAD = Workload("lenet", "LeNet 28x28, batch 64, Adam", torch_like, jax, epoch=EPOCH)
