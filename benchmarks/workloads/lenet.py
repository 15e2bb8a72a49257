"""LeNet on images of MNIST's shape, batch 64, Adam: convolutions, where arithmetic dominates."""

from __future__ import annotations

from typing import Any

from benchmarks.data import enlarged, uniform
from benchmarks.program import Program, Workload
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
    import jax
    import jax.numpy as jnp
    from jax import lax

    def block(p: dict, layer: str, x: Any) -> Any:
        y = lax.conv_general_dilated(x, p[f"{layer}.weight"], (1, 1), "VALID")
        y = jax.nn.relu(y + p[f"{layer}.bias"][:, None, None])
        return lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def dense(p: dict, layer: str, x: Any) -> Any:
        return x @ p[f"{layer}.weight"].T + p[f"{layer}.bias"]

    def model(p: dict, x: Any) -> Any:
        x = block(p, "3", block(p, "0", x)).reshape(len(x), -1)
        x = jax.nn.relu(dense(p, "7", x))
        x = jax.nn.relu(dense(p, "9", x))
        return dense(p, "11", x)

    return jax_classifier(model, VALUES, enlarged(BATCH))


WORKLOAD = Workload("lenet", "LeNet 28x28, batch 64, Adam", torch_like, jax)
