"""Gradient clipping, and parameters as one vector. Nothing here leaves the tensor world, so it compiles.

Source: https://docs.pytorch.org/docs/stable/nn.html#utilities
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from jtorch.eager.creation import tensor
from jtorch.eager.functions.arithmetic import clamp
from jtorch.eager.functions.shape import stack
from jtorch.eager.grad_mode import no_grad
from jtorch.eager.methods import FUNCTIONS
from jtorch.eager.tensor import Tensor


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    many = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    found = (p.grad for p in many)
    return [g for g in found if g is not None]


def _norm(tensor: Tensor, norm_type: float) -> Tensor:
    x: Any = tensor.detach()
    if norm_type == math.inf:
        return x.abs().max()
    if norm_type == 2.0:
        return (x * x).sum().sqrt()
    return x.abs().pow(norm_type).sum().pow(1.0 / norm_type)


def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0) -> Tensor:
    """The norm of all tensors as one vector, a 0-d tensor; 0 for none."""
    norms = [_norm(t, float(norm_type)) for t in tensors]
    if not norms:
        return tensor(0.0)
    return _norm(stack(norms), float(norm_type))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their norm together is at most ``max_norm``; returns the norm before.

    Raises RuntimeError for an infinite or NaN norm where ``error_if_nonfinite``.
    """
    with no_grad():
        grads = _gradients(parameters)
        total: Any = get_total_norm(grads, norm_type)
        if error_if_nonfinite and not math.isfinite(total.item()):
            raise RuntimeError(
                f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, "
                "so it cannot be clipped. To disable this error and scale the gradients by the non-finite "
                "norm anyway, set `error_if_nonfinite=False`"
            )
        scale = clamp(max_norm / (total + 1e-6), max=1.0)
        for g in grads:
            g.mul_(scale)
    return total


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limit every element of every gradient to [-clip_value, clip_value]."""
    with no_grad():
        for g in _gradients(parameters):
            g.copy_(clamp(g, -clip_value, clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters one after the other, as one vector."""
    return FUNCTIONS["cat"]([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the pieces of ``vec`` into the parameters."""
    with no_grad():
        for p, piece in _pieces(vec, parameters):
            p.copy_(piece.reshape(p.shape))


def _pieces(vec: Any, parameters: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    start = 0
    for p in parameters:
        yield p, vec[start : start + p.numel()]
        start += p.numel()
