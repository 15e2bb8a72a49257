"""What the programs are made of: small tensors, one small model, its training step."""

from __future__ import annotations

from typing import Any


def numbers(lib: Any, *values: float) -> Any:
    return lib.tensor([float(v) for v in values])


def grid(lib: Any, *shape: int) -> Any:
    """Distinct numbers of a moderate size."""
    n = 1
    for k in shape:
        n *= k
    return (lib.arange(n).float().reshape(shape) * 0.37).sin()


def model_of(lib: Any) -> Any:
    """A small model with the same weights each time."""
    lib.manual_seed(0)
    return lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 2))


def training(lib: Any, model: Any, optimizer: Any) -> Any:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step


def weights(model: Any) -> list[Any]:
    return [p.detach().clone() for p in model.parameters()]
