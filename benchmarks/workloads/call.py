"""One op on four numbers: what a call costs when there is next to nothing to compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.program import Program, Workload, jax_program, torch_program

X = np.arange(4, dtype=np.float32)


def torch_like(torch: Any) -> Program:
    def step(x: Any) -> Any:
        return x + 1

    def forward(x: Any) -> Any:
        return weight + x

    weight = torch.from_numpy(X.copy()).requires_grad_()
    return torch_program(torch, step, forward, [(X,)], {})


def jax() -> Program:
    def step(state: tuple, x: Any) -> tuple[tuple, Any]:
        return state, x + 1

    return jax_program(step, lambda: (), [(X,)], lambda state: {})


WORKLOAD = Workload("call", "x + 1 on 4 elements", torch_like, jax)
