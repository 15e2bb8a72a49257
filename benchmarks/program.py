"""What a workload gives to be measured: a program in a known initial state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.agree import Tolerance


@dataclass
class Program:
    """A training step with its data and its state.

    step        what is timed: called with each element of ``arguments`` in turn
    forward     the part of it before ``backward()``, to measure what the tape costs
    reset       puts parameters and optimizer back to the initial state, in place, where that ``can_reset``
    clear       takes the gradients away, as ``zero_grad()`` does
    kept        the tensors that stay between steps, by what they are
    """

    step: Callable[..., Any]
    arguments: Sequence[tuple]
    reset: Callable[[], None]
    parameters: Callable[[], Mapping[str, np.ndarray]]
    gradients: Callable[[], Mapping[str, np.ndarray]] = dict
    forward: Callable[..., Any] | None = None
    to_numpy: Callable[[Any], np.ndarray] = np.asarray
    settle: Callable[[Any], Any] = lambda result: result
    can_reset: bool = True
    clear: Callable[[], None] = lambda: None
    kept: Callable[[], Mapping[str, Sequence[Any]]] = dict


@dataclass(frozen=True)
class Epoch:
    """How many steps go once through the data set that a workload is usually trained on."""

    data: str
    steps: int


@dataclass(frozen=True)
class Workload:
    """One row of the report.

    ``torch_like`` builds the program from a module with PyTorch's interface, ``jtorch`` or
    ``torch``: both run the very same text. ``jax`` builds it with JAX, where that is written.
    """

    name: str
    what: str
    torch_like: Callable[[Any], Program]
    jax: Callable[[], Program] | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    epoch: Epoch | None = None


def torch_program(
    torch: Any,
    step: Callable[..., Any],
    forward: Callable[..., Any],
    arguments: Sequence[tuple[np.ndarray, ...]],
    named: Mapping[str, Any],
    optimizer: Any = None,
) -> Program:
    """The Program of a step on PyTorch's interface, its state kept in ``named`` tensors."""
    if optimizer is not None:
        _create_state(torch, optimizer, named)
    tensors = [*named.values(), *_state_tensors(optimizer)]
    initial = [t.detach().clone() for t in tensors]

    def reset() -> None:
        with torch.no_grad():
            for tensor, value in zip(tensors, initial, strict=True):
                tensor.copy_(value)
        clear()

    def clear() -> None:
        for parameter in named.values():
            parameter.grad = None

    def kept() -> dict[str, list[Any]]:
        gradients = [p.grad for p in named.values() if p.grad is not None]
        return {
            "parameters": [*named.values()], "gradients": gradients,
            "optimizer state": _state_tensors(optimizer),
        }  # fmt: skip

    def arrays(of: Callable[[Any], Any]) -> dict[str, np.ndarray]:
        found = {name: of(t) for name, t in named.items()}
        return {name: np.array(v.detach().cpu().numpy()) for name, v in found.items() if v is not None}

    return Program(
        step=step,
        arguments=[tuple(torch.from_numpy(np.array(a)) for a in row) for row in arguments],
        reset=reset,
        parameters=lambda: arrays(lambda p: p),
        gradients=lambda: arrays(lambda p: p.grad),
        forward=forward,
        to_numpy=lambda result: result.detach().cpu().numpy(),
        clear=clear,
        kept=kept,
    )


def _create_state(torch: Any, optimizer: Any, named: Mapping[str, Any]) -> None:
    """Optimizers make their state on the first step: take one with zero gradients, then undo it."""
    before = [p.detach().clone() for p in named.values()]
    for p in named.values():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    with torch.no_grad():
        for p, value in zip(named.values(), before, strict=True):
            p.copy_(value)
            p.grad = None
        for tensor in _state_tensors(optimizer):
            tensor.zero_()


def _state_tensors(optimizer: Any) -> list[Any]:
    if optimizer is None:
        return []
    states = optimizer.state.values()
    return [v for state in states for v in state.values() if hasattr(v, "copy_")]


def jax_program(
    step: Callable[..., Any],
    initial: Callable[[], Any],
    arguments: Sequence[tuple[np.ndarray, ...]],
    parameters: Callable[[Any], Mapping[str, Any]],
    gradients: Callable[[Any], Mapping[str, Any]] = lambda state: {},
) -> Program:
    """The Program of a pure ``step(state, *arguments) -> (state, loss)``, jitted, state donated."""
    import jax

    jitted = jax.jit(step, donate_argnums=0)
    state = initial()

    def call(*given: Any) -> Any:
        nonlocal state
        state, loss = jitted(state, *given)
        return loss

    def reset() -> None:
        nonlocal state
        state = jax.block_until_ready(initial())

    return Program(
        step=call,
        arguments=[tuple(jax.numpy.asarray(a) for a in row) for row in arguments],
        reset=reset,
        parameters=lambda: {k: np.array(v) for k, v in parameters(state).items()},
        gradients=lambda: {k: np.array(v) for k, v in gradients(state).items()},
        settle=jax.block_until_ready,
    )
