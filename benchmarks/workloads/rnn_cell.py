"""One step of a recurrent cell and its backward: the example PyTorch's first README drew."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.data import uniform
from benchmarks.program import Program, Workload, jax_program, torch_program

WEIGHTS = uniform(0, {"W_x": (20, 10), "W_h": (20, 20)})
_GENERATOR = np.random.default_rng(1)
X = _GENERATOR.standard_normal((1, 10)).astype(np.float32)
H = _GENERATOR.standard_normal((1, 20)).astype(np.float32)


def torch_like(torch: Any) -> Program:
    named = {name: torch.from_numpy(value.copy()).requires_grad_() for name, value in WEIGHTS.items()}
    W_x, W_h = named["W_x"], named["W_h"]

    def forward(x: Any, prev_h: Any) -> Any:
        i2h = torch.mm(W_x, x.t())  # (20, 1)
        h2h = torch.mm(W_h, prev_h.t())  # (20, 1)
        next_h = (i2h + h2h).tanh()
        return next_h.sum()

    def step(x: Any, prev_h: Any) -> Any:
        W_x.grad = W_h.grad = None
        loss = forward(x, prev_h)
        loss.backward()
        return loss

    return torch_program(torch, step, forward, [(X, H)], named)


def jax() -> Program:
    import jax
    import jax.numpy as jnp

    def forward(w: dict, x: Any, prev_h: Any) -> Any:
        i2h = w["W_x"] @ x.T
        h2h = w["W_h"] @ prev_h.T
        return jnp.tanh(i2h + h2h).sum()

    def step(state: tuple, x: Any, prev_h: Any) -> tuple[tuple, Any]:
        weights, _ = state
        loss, gradients = jax.value_and_grad(forward)(weights, x, prev_h)
        return (weights, gradients), loss

    def initial() -> tuple:
        weights = {name: jnp.array(value) for name, value in WEIGHTS.items()}
        return weights, {name: jnp.zeros_like(value) for name, value in WEIGHTS.items()}

    return jax_program(step, initial, [(X, H)], lambda s: s[0], lambda s: s[1])


WORKLOAD = Workload("rnn_cell", "tanh cell 10-20, forward and backward", torch_like, jax)
