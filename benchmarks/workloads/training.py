"""A training step with Adam: the part that the networks of this folder have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.data import load
from benchmarks.program import Program, jax_program, torch_program

LR, BETA1, BETA2, EPS = 1e-3, 0.9, 0.999, 1e-8


def torch_training(
    torch: Any, model: Any, values: dict[str, np.ndarray], arguments: Sequence[tuple]
) -> Program:
    """zero_grad, forward, cross-entropy, backward, Adam: as every PyTorch tutorial writes it."""
    named = load(torch, model, values)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, betas=(BETA1, BETA2), eps=EPS, fused=True)
    cross_entropy = torch.nn.functional.cross_entropy

    def forward(x: Any, y: Any) -> Any:
        return cross_entropy(model(x), y)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return loss

    return torch_program(torch, step, forward, arguments, named, optimizer)


def jax_cross_entropy(scores: Any, y: Any) -> Any:
    """Of scores (..., classes) and labels (...)."""
    import jax
    import jax.numpy as jnp

    logits = jax.nn.log_softmax(scores.reshape(-1, scores.shape[-1]))
    return -jnp.take_along_axis(logits, y.reshape(-1)[:, None], axis=1).mean()


def jax_classifier(
    model: Callable[[dict, Any], Any], values: dict[str, np.ndarray], arguments: Sequence[tuple]
) -> Program:
    """``jax_training`` of the cross-entropy of ``model(p, x)``, which gives scores."""
    return jax_training(lambda p, x, y: jax_cross_entropy(model(p, x), y), values, arguments)


def jax_training(
    loss: Callable[[dict, Any, Any], Any], values: dict[str, np.ndarray], arguments: Sequence[tuple]
) -> Program:
    """The same step as one jitted function of its state; ``loss(p, x, y)`` is the loss."""
    import jax
    import jax.numpy as jnp

    def adam(p: Any, g: Any, m: Any, v: Any, t: Any) -> tuple:
        m = BETA1 * m + (1 - BETA1) * g
        v = BETA2 * v + (1 - BETA2) * g * g
        size = LR / (1 - BETA1**t)
        return p - size * m / (jnp.sqrt(v) / jnp.sqrt(1 - BETA2**t) + EPS), m, v

    def step(state: tuple, x: Any, y: Any) -> tuple[tuple, Any]:
        p, m, v, t = state
        found, g = jax.value_and_grad(loss)(p, x, y)
        t = t + 1
        new = {name: adam(p[name], g[name], m[name], v[name], t) for name in p}
        p, m, v = ({name: row[k] for name, row in new.items()} for k in range(3))
        return (p, m, v, t), found

    def initial() -> tuple:
        p = {name: jnp.array(value) for name, value in values.items()}
        zeros = [{name: jnp.zeros_like(value) for name, value in p.items()} for _ in range(2)]
        return p, *zeros, jnp.float32(0)

    return jax_program(step, initial, arguments, lambda state: state[0])
