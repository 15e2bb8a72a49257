"""conv2d forward and backward, both gradients, on shapes from LeNet's to a small residual network's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.program import Program, Workload, torch_program

SHAPES = (
    ((64, 1, 28, 28), (6, 1, 5, 5)),
    ((64, 6, 12, 12), (16, 6, 5, 5)),
    ((32, 16, 32, 32), (32, 16, 3, 3)),
    ((32, 64, 16, 16), (64, 64, 3, 3)),
)


def _program(torch: Any, image: tuple[int, ...], kernel: tuple[int, ...]) -> Program:
    generator = np.random.default_rng(0)
    out = (image[0], kernel[0], image[2] - kernel[2] + 1, image[3] - kernel[3] + 1)
    arrays = [generator.standard_normal(shape, dtype=np.float32) for shape in (image, kernel, out)]
    x, w, g = (torch.from_numpy(a) for a in arrays)
    x.requires_grad_()
    w.requires_grad_()
    conv2d = torch.nn.functional.conv2d

    def forward() -> Any:
        return conv2d(x, w)

    def step() -> Any:
        x.grad = w.grad = None
        y = forward()
        y.backward(g)
        return y

    return torch_program(torch, step, forward, [()], {"x": x, "w": w})


def _workload(image: tuple[int, ...], kernel: tuple[int, ...]) -> Workload:
    size, window = ("x".join(map(str, shape)) for shape in (image, kernel))
    build = partial(_program, image=image, kernel=kernel)
    return Workload(f"conv-{size}", f"conv2d {size} by {window}, forward and backward", build)


WORKLOADS = tuple(_workload(image, kernel) for image, kernel in SHAPES)
