"""Limiting gradients. Nothing here leaves the tensor world, so it compiles.

Source: https://docs.pytorch.org/docs/stable/nn.html#utilities
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from jtorch.eager.public import Tensor, functions, no_grad, tensor, widened, zeros


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    many = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    found = (p.grad for p in many)
    return [g for g in found if g is not None]


def _norm(tensor: Tensor, norm_type: float) -> Tensor:
    """Of 16 bits in float32: the square of 300 is infinite in float16."""
    x: Any = widened(tensor.detach())
    if norm_type == math.inf:
        return x.abs().max()
    if norm_type == -math.inf:
        return x.abs().min()
    if norm_type == 2.0:
        return (x * x).sum().sqrt()
    if norm_type == 0.0:
        return (x != 0).sum().to(x.dtype)
    return x.abs().pow(norm_type).sum().pow(1.0 / norm_type)


def _over_processes(parts: list[Any], norm_type: float) -> Tensor:
    """The norm of tensors that the same processes share, each of which has its rows of them."""
    if norm_type == 0.0:
        raise NotImplementedError("the norm of order 0 of sharded gradients")
    sharding, dtype = parts[0].sharding, widened(zeros((), dtype=parts[0].dtype)).dtype
    norms = [_norm(part.to_local(), norm_type) for part in parts if part.numel()]
    if abs(norm_type) == math.inf:
        nothing = 0.0 if norm_type > 0 else math.inf
        own: Any = functions.stack(norms) if norms else tensor([nothing], dtype=dtype)
        own = _norm(own, norm_type)
        return sharding.over_all(own, "MAX" if norm_type > 0 else "MIN")
    own = functions.stack(norms).pow(norm_type).sum() if norms else tensor(0.0, dtype=dtype)
    return sharding.over_all(own).pow(1.0 / norm_type)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as one vector, a 0-d tensor; 0 for none.

    Of sharded ones, such as the gradients that ``fully_shard`` leaves, the norm of the whole: all processes
    call this. Raises RuntimeError for an infinite or NaN norm where ``error_if_nonfinite``.

    >>> import jtorch
    >>> jtorch.nn.utils.get_total_norm([jtorch.tensor([3.0]), jtorch.tensor([4.0])])
    tensor(5.)
    """
    many = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _in_their_dtype(_total_norm(many, float(norm_type), error_if_nonfinite), many)


def _in_their_dtype(total: Tensor, tensors: list[Tensor]) -> Tensor:
    dtypes = {t.dtype for t in tensors}
    return total.to(*dtypes) if len(dtypes) == 1 else total


def _total_norm(many: list[Tensor], norm_type: float, error_if_nonfinite: bool) -> Tensor:
    """In float32 at least: the norm of gradients of 16 bits may be infinite in theirs."""
    sharded: dict[int, list[Any]] = {}  # by the processes that share them
    for t in many:
        if (sharding := getattr(t, "sharding", None)) is not None:
            sharded.setdefault(id(sharding.group), []).append(t)
    norms = [_norm(t, norm_type) for t in many if getattr(t, "sharding", None) is None]
    norms += [_over_processes(parts, norm_type) for parts in sharded.values()]
    if not norms:
        return tensor(0.0)
    total = _norm(functions.stack(norms), norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the non-finite "
            "norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale all gradients by max_norm / total_norm, where that is below 1.

    >>> import jtorch
    >>> w = jtorch.zeros(2, requires_grad=True)
    >>> w.grad = jtorch.tensor([3.0, 4.0])
    >>> jtorch.nn.utils.clip_grads_with_norm_([w], max_norm=2.5, total_norm=jtorch.tensor(5.0))
    >>> [round(g, 3) for g in w.grad.tolist()]
    [1.5, 2.0]
    """
    # a number that may change from call to call stays one
    limit: Any = max_norm if hasattr(max_norm, "as_runtime_scalar") else float(max_norm)
    with no_grad():
        scale = functions.clamp(limit / (total_norm + 1e-6), max=1.0)
        for g in _gradients(parameters):
            g.mul_(scale)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their norm together is at most ``max_norm``; returns the norm before.

    Of sharded parameters (``fully_shard``) the norm is that of the whole gradients: all processes call this.
    Raises RuntimeError for an infinite or NaN norm where ``error_if_nonfinite``.

    >>> import jtorch
    >>> w = jtorch.zeros(2, requires_grad=True)
    >>> w.grad = jtorch.tensor([3.0, 4.0])
    >>> jtorch.nn.utils.clip_grad_norm_([w], max_norm=1.0).item()
    5.0
    >>> w.grad.norm().item() <= 1.0
    True
    """
    many = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    with no_grad():
        gradients = _gradients(many)
        total = _total_norm(gradients, float(norm_type), error_if_nonfinite)
    clip_grads_with_norm_(many, max_norm, total, foreach)
    return _in_their_dtype(total, gradients)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limit every element of every gradient to [-clip_value, clip_value].

    >>> import jtorch
    >>> w = jtorch.zeros(3, requires_grad=True)
    >>> w.grad = jtorch.tensor([-5.0, 0.5, 5.0])
    >>> jtorch.nn.utils.clip_grad_value_([w], clip_value=1.0)
    >>> w.grad
    tensor([-1.0000,  0.5000,  1.0000])
    """
    with no_grad():
        for g in _gradients(parameters):
            g.copy_(functions.clamp(g, -clip_value, clip_value))
