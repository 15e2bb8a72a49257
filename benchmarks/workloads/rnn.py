"""A tanh recurrent network over 32 steps, Adam: a long chain of small ops.

Each digit is read two pixels at a time; the class comes from the last hidden state.
"""

from __future__ import annotations

from typing import Any

from benchmarks.data import batches, uniform
from benchmarks.program import Program, Workload
from benchmarks.workloads.training import jax_classifier, torch_training

BATCH, STEPS, HIDDEN = 32, 32, 64
VALUES = uniform(
    0,
    {
        "i2h.weight": (HIDDEN, 2),
        "i2h.bias": (HIDDEN,),
        "h2h.weight": (HIDDEN, HIDDEN),
        "h2h.bias": (HIDDEN,),
        "out.weight": (10, HIDDEN),
        "out.bias": (10,),
    },
)


def torch_like(torch: Any) -> Program:
    nn = torch.nn

    class RNN(nn.Module):  # type: ignore[name-defined] # jtorch's or torch's
        def __init__(self) -> None:
            super().__init__()
            self.i2h = nn.Linear(2, HIDDEN)
            self.h2h = nn.Linear(HIDDEN, HIDDEN)
            self.out = nn.Linear(HIDDEN, 10)

        def forward(self, x: Any) -> Any:  # (batch, steps, 2)
            h = torch.zeros(x.shape[0], HIDDEN)
            for t in range(x.shape[1]):
                h = (self.i2h(x[:, t]) + self.h2h(h)).tanh()
            return self.out(h)

    return torch_training(torch, RNN(), VALUES, batches(BATCH, (STEPS, 2)))


def jax() -> Program:
    import jax
    import jax.numpy as jnp

    def model(p: dict, x: Any) -> Any:
        def cell(h: Any, x_t: Any) -> tuple[Any, None]:
            i2h = x_t @ p["i2h.weight"].T + p["i2h.bias"]
            return jnp.tanh(i2h + h @ p["h2h.weight"].T + p["h2h.bias"]), None

        h, _ = jax.lax.scan(cell, jnp.zeros((x.shape[0], HIDDEN)), x.swapaxes(0, 1), unroll=STEPS)
        return h @ p["out.weight"].T + p["out.bias"]

    return jax_classifier(model, VALUES, batches(BATCH, (STEPS, 2)))


WORKLOAD = Workload("rnn", "tanh RNN 2-64-10, 32 steps, batch 32, Adam", torch_like, jax)
