"""Five neurons, four weights: the smallest network that has a fork and a join."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.program import Program, Workload, jax_program, torch_program

WEIGHTS = {f"w{k}": np.array(0.3 * k, np.float32) for k in range(1, 5)}
A = np.array(2.0, np.float32)


def torch_like(torch: Any) -> Program:
    named = {name: torch.from_numpy(value.copy()).requires_grad_() for name, value in WEIGHTS.items()}
    w1, w2, w3, w4 = weights = list(named.values())

    def forward(a: Any) -> Any:
        b = w1 * a
        c = w2 * a
        d = w3 * b + w4 * c
        return 10 - d

    def step(a: Any) -> Any:
        for w in weights:
            w.grad = None
        loss = forward(a)
        loss.backward()
        return loss

    return torch_program(torch, step, forward, [(A,)], named)


def jax() -> Program:
    import jax
    import jax.numpy as jnp

    def forward(w: dict, a: Any) -> Any:
        b = w["w1"] * a
        c = w["w2"] * a
        d = w["w3"] * b + w["w4"] * c
        return 10 - d

    def step(state: tuple, a: Any) -> tuple[tuple, Any]:
        weights, _ = state
        loss, gradients = jax.value_and_grad(forward)(weights, a)
        return (weights, gradients), loss

    def initial() -> tuple:
        weights = {name: jnp.array(value) for name, value in WEIGHTS.items()}
        return weights, {name: jnp.zeros_like(value) for name, value in WEIGHTS.items()}

    return jax_program(step, initial, [(A,)], lambda s: s[0], lambda s: s[1])


WORKLOAD = Workload("toy", "5 neurons, forward and backward", torch_like, jax)
