"""Perceptrons, and the variational autoencoder of https://github.com/pytorch/examples/tree/main/vae.

The autoencoder takes its noise as an argument: two libraries draw different numbers.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.models.training import training
from benchmarks.program import Program


def _rows(batch: int, width: int) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(1)
    return [
        (generator.random((batch, width), np.float32), generator.integers(0, 10, batch)) for _ in range(2)
    ]


def perceptron(torch: Any, batch: int, *sizes: int) -> Program:
    nn = torch.nn
    layers: list[Any] = []
    for n, m in itertools.pairwise(sizes):
        layers += [nn.Linear(n, m), nn.ReLU()]
    return training(torch, nn.Sequential(*layers[:-1]), _rows(batch, sizes[0]))


def mlp_64(torch: Any) -> Program:
    return perceptron(torch, 32, 64, 64, 10)


def mlp_128(torch: Any) -> Program:
    return perceptron(torch, 64, 784, 128, 10)


def mlp_512(torch: Any) -> Program:
    return perceptron(torch, 128, 784, 512, 512, 10)


def autoencoder(torch: Any, batch: int = 128, sizes: tuple[int, int, int] = (784, 400, 20)) -> Program:
    """``sizes``: of an image, a hidden layer and the code."""
    nn, F = torch.nn, torch.nn.functional
    size, wide, code = sizes

    class Net(nn.Module):  # type: ignore[name-defined] # jtorch's or torch's
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.mean = nn.Linear(size, wide), nn.Linear(wide, code)
            self.spread, self.fc3, self.fc4 = (
                nn.Linear(wide, code),
                nn.Linear(code, wide),
                nn.Linear(wide, size),
            )

        def forward(self, x: Any, noise: Any) -> Any:
            h = F.relu(self.fc1(x))
            mean, logvar = self.mean(h), self.spread(h)
            z = mean + noise * torch.exp(0.5 * logvar)
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mean, logvar

    def loss(model: Any, x: Any, noise: Any) -> Any:
        image, mean, logvar = model(x, noise)
        error = F.binary_cross_entropy(image, x, reduction="sum")
        return error - 0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())

    generator = np.random.default_rng(2)
    data = [(x, generator.standard_normal((batch, code), np.float32)) for x, _ in _rows(batch, size)]
    return training(torch, Net(), data, loss)
