"""``gradcheck`` and ``gradgradcheck``: analytical gradients against finite differences.

The Jacobian of every differentiable input is computed twice: row by row through ``backward``, and column
by column from central differences. Inputs should be float64: float32 has too few digits for the latter.
Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.eager.engine import grad
from jtorch.eager.tensor import Tensor, leaf, wrap


class GradcheckError(RuntimeError):
    """A gradient that differs from finite differences."""


def gradcheck(
    func: Callable,
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """Whether the gradients of ``func(*inputs)`` equal finite differences within the tolerances.

    Checks every output against every input that requires grad. Raises GradcheckError where they differ
    (or returns False with ``raise_exception=False``) and ValueError where no input requires grad.
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = [a for a in arguments if isinstance(a, Tensor) and a._requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    try:
        for place, output in enumerate(_outputs(func, arguments)):
            _check_output(func, arguments, wanted, place, output, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _outputs(func: Callable, arguments: Sequence[Any]) -> list[Tensor]:
    found = func(*arguments)
    several = found if isinstance(found, (tuple, list)) else (found,)
    return [t for t in several if isinstance(t, Tensor) and t.is_floating_point()]


def _check_output(
    func: Callable, arguments: Sequence[Any], wanted: list[Tensor], place: int, output: Tensor,
    eps: float, atol: float, rtol: float, nondet_tol: float,
) -> None:  # fmt: skip
    if not output._requires_grad:
        return
    analytical = _analytical(output, wanted)
    again = _analytical(output, wanted)
    for k, tensor in enumerate(wanted):
        if np.abs(again[k] - analytical[k]).max(initial=0.0) > nondet_tol:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output "
                f"multiple times gives different values (output {place}, input {k})."
            )
        numerical = _numerical(func, arguments, tensor, place, output.numel(), eps)
        if not np.allclose(numerical, analytical[k], rtol=rtol, atol=atol):
            raise GradcheckError(
                f"Jacobian mismatch for output {place} with respect to input {k},\n"
                f"numerical:{numerical}\nanalytical:{analytical[k]}\n"
            )


def _analytical(output: Tensor, wanted: list[Tensor]) -> list[np.ndarray]:
    """One Jacobian (elements of the input, elements of the output) per input, a backward per column."""
    jacobians = [np.zeros((t.numel(), output.numel())) for t in wanted]
    for k in range(output.numel()):
        seed = np.zeros(output._data.size, output._data.dtype)
        seed[k] = 1.0
        found = grad(
            output,
            wanted,
            wrap(seed.reshape(output._data.shape)),
            retain_graph=True,
            allow_unused=True,
        )
        for jacobian, g in zip(jacobians, found, strict=True):
            if g is not None:
                jacobian[:, k] = g._data.ravel()
    return jacobians


def _numerical(
    func: Callable, arguments: Sequence[Any], tensor: Tensor, place: int, count: int, eps: float
) -> np.ndarray:
    """The Jacobian with respect to ``tensor`` by central differences; its elements are moved and put back."""
    jacobian = np.zeros((tensor.numel(), count))
    data = tensor._data
    for row, at in enumerate(np.ndindex(data.shape)):
        before = data[at]
        ends = []
        for step in (eps, -eps):
            data[at] = before + step
            ends.append(np.array(_outputs(func, arguments)[place]._data, dtype=np.float64).ravel())
        data[at] = before
        jacobian[row] = (ends[0] - ends[1]) / (2 * eps)
    return jacobian


def gradgradcheck(
    func: Callable,
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """The same for the gradients of ``func`` themselves: checks what ``create_graph=True`` gives.

    ``grad_outputs`` are the directions, drawn at random where they are left out.
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = [t for t in _outputs(func, arguments) if t._requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        grad_outputs = [_random_like(t, rng) for t in outputs]
    directions = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    count = len(arguments)

    def gradients(*given: Any) -> tuple[Tensor, ...]:
        wanted = [a for a in given[:count] if isinstance(a, Tensor) and a._requires_grad]
        outs = [t for t in _outputs(func, given[:count]) if t._requires_grad]
        found = grad(outs, wanted, given[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*arguments, *directions),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
    )


def _random_like(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    values = rng.uniform(0.5, 1.5, tensor._data.shape).astype(tensor._data.dtype)
    return leaf(np.asarray(values))
