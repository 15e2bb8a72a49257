"""Convolutional networks: a small one with batch norm, LeNet's kin, MobileNetV2 and ResNet18.

Sources: https://github.com/pytorch/examples/tree/main/mnist (without its dropout: two libraries draw
different masks); Sandler et al. 2018 (MobileNetV2); He et al. 2015 (ResNet), in the form for small images.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.models.training import training
from benchmarks.program import Program


def _pictures(batch: int, channels: int, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(1)
    shape = (batch, channels, size, size)
    return [
        (generator.standard_normal(shape, np.float32), generator.integers(0, 10, batch)) for _ in range(2)
    ]


def lenet(torch: Any, batch: int = 64) -> Program:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    return training(torch, model, _pictures(batch, 1, 28))


def cnn(torch: Any, batch: int = 32, size: int = 32, width: int = 16) -> Program:
    nn = torch.nn

    def block(n: int, m: int) -> list[Any]:
        return [nn.Conv2d(n, m, 3, padding=1, bias=False), nn.BatchNorm2d(m), nn.ReLU()]

    model = nn.Sequential(
        *block(3, width), *block(width, width), nn.MaxPool2d(2),
        *block(width, 2 * width), *block(2 * width, 2 * width), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * width * (size // 4) ** 2, 10),
    )  # fmt: skip
    return training(torch, model, _pictures(batch, 3, size))


def mnist_net(torch: Any, batch: int = 64, size: int = 28, width: int = 32) -> Program:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, width, 3), nn.ReLU(), nn.Conv2d(width, 2 * width, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * width * (size // 2 - 2) ** 2, 4 * width), nn.ReLU(),
        nn.Linear(4 * width, 10),
    )  # fmt: skip
    return training(torch, model, _pictures(batch, 1, size))


def mobilenet(torch: Any, batch: int = 16, size: int = 32, share: int = 1) -> Program:
    """``share``: of how many of its channels it has one."""
    nn = torch.nn

    def convolution(n: int, m: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        made = nn.Conv2d(n, m, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [made, nn.BatchNorm2d(m)]

    class Inverted(nn.Module):  # type: ignore[name-defined] # jtorch's or torch's
        def __init__(self, n: int, m: int, stride: int, expand: int) -> None:
            super().__init__()
            wide = n * expand
            first = [*convolution(n, wide, 1), nn.ReLU6()] if expand > 1 else []
            middle = [*convolution(wide, wide, 3, stride, wide), nn.ReLU6()]
            self.layers = nn.Sequential(*first, *middle, *convolution(wide, m, 1))
            self.shortcut = stride == 1 and n == m

        def forward(self, x: Any) -> Any:
            return x + self.layers(x) if self.shortcut else self.layers(x)

    n = 32 // share
    layers = [*convolution(3, n, 3), nn.ReLU6()]
    plan = (
        (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip
    for expand, m, times, stride in plan:
        for k in range(times):
            layers.append(Inverted(n, m // share, stride if k == 0 else 1, expand))
            n = m // share
    last = 1280 // share
    layers += [*convolution(n, last, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return training(torch, nn.Sequential(*layers, nn.Linear(last, 10)), _pictures(batch, 3, size))


def resnet(torch: Any, batch: int = 16, size: int = 32, width: int = 64) -> Program:
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self, n: int, m: int, stride: int) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m), nn.ReLU(),
                nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m),
            )  # fmt: skip
            self.shortcut = nn.Sequential()
            if stride != 1 or n != m:
                self.shortcut = nn.Sequential(nn.Conv2d(n, m, 1, stride, bias=False), nn.BatchNorm2d(m))
            self.relu = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.relu(self.layers(x) + self.shortcut(x))

    layers: list[Any] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    n = width
    for m, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
        layers += [Block(n, m, stride), Block(m, m, 1)]
        n = m
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, 10))
    return training(torch, model, _pictures(batch, 3, size))
