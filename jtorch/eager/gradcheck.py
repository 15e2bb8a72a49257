"""``gradcheck`` and ``gradgradcheck``: analytical gradients against finite differences.

The Jacobian of every differentiable input is computed twice: row by row through ``backward``, and column
by column from central differences. Inputs should be float64: float32 has too few digits for the latter.
Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.eager import duals
from jtorch.eager.differentiation import grad
from jtorch.eager.function import Function
from jtorch.eager.tensor import Tensor, leaf, wrap


class GradcheckError(RuntimeError):
    """A gradient that differs from finite differences."""


_PRECISE = ("float64", "complex128")


def gradcheck(
    func: Callable,
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of ``func(*inputs)`` equal finite differences within the tolerances.

    Checks every output against every input that requires grad, complex ones by their real and imaginary
    parts, and that backward multiplies by its ``grad_output``; with ``check_forward_ad`` tangents as well.
    Every element is checked, with ``fast_mode``, too. Raises GradcheckError where they differ (or returns
    False with ``raise_exception=False``), ValueError where no input requires grad, and NotImplementedError
    for checks of batched gradients.

    >>> import jtorch
    >>> x = jtorch.tensor([1.0, 2.0], dtype=jtorch.float64, requires_grad=True)
    >>> jtorch.autograd.gradcheck(lambda x: x**3, (x,))
    True
    """
    if check_batched_forward_grad or check_batched_grad:
        raise NotImplementedError("gradcheck: batched gradients can't be checked")
    if not (check_backward_ad or check_forward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = _wanted(arguments)
    try:
        for place, output in enumerate(_outputs(func, arguments)):
            if check_forward_ad:
                _check_forward(func, arguments, wanted, place, output, eps, atol, rtol)
            if output._requires_grad and check_backward_ad:
                _check_output(func, arguments, wanted, place, output, eps, atol, rtol, nondet_tol)
                _check_scaling(output, wanted)
                if check_undefined_grad:
                    _check_undefined(output, wanted)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _wanted(arguments: Sequence[Any]) -> list[Tensor]:
    wanted = [a for a in arguments if isinstance(a, Tensor) and a._requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )
    for k, a in enumerate(arguments):
        if any(a is w for w in wanted) and a.dtype.name not in _PRECISE:
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or "
                "complex. ",
                stacklevel=3,
            )
    return wanted


def _outputs(func: Callable, arguments: Sequence[Any]) -> list[Tensor]:
    found = func(*arguments)
    several = found if isinstance(found, (tuple, list)) else (found,)
    return [t for t in several if isinstance(t, Tensor) and t._data.dtype.kind in "fcV"]


def _check_output(
    func: Callable, arguments: Sequence[Any], wanted: list[Tensor], place: int, output: Tensor,
    eps: float, atol: float, rtol: float, nondet_tol: float,
) -> None:  # fmt: skip
    analytical = _analytical(output, wanted)
    again = _analytical(output, wanted)
    for k, tensor in enumerate(wanted):
        numerical = _numerical(func, arguments, tensor, place, analytical[k].shape[1], eps)
        if not np.allclose(numerical, analytical[k], rtol=rtol, atol=atol):
            raise GradcheckError(
                f"Jacobian mismatch for output {place} with respect to input {k},\n"
                f"numerical:{numerical}\nanalytical:{analytical[k]}\n"
            )
        if np.abs(again[k] - analytical[k]).max(initial=0.0) > nondet_tol:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                "times gives different values, although analytical gradient matches numerical gradient."
                f"The tolerance for nondeterminism was {nondet_tol}."
            )


def _check_forward(
    func: Callable, arguments: Sequence[Any], wanted: list[Tensor], place: int, output: Tensor,
    eps: float, atol: float, rtol: float,
) -> None:  # fmt: skip
    count = _parts(output._data).size
    for k, tensor in enumerate(wanted):
        numerical = _numerical(func, arguments, tensor, place, count, eps)
        forward = _by_tangents(func, arguments, tensor, place, numerical)
        if not np.allclose(numerical, forward, rtol=rtol, atol=atol):
            raise GradcheckError(
                f"Jacobian computed with forward mode mismatch for output {place} with respect to input "
                f"{k},\n"
                f"numerical:{numerical}\nanalytical:{forward}\n"
            )


def _by_tangents(
    func: Callable, arguments: Sequence[Any], tensor: Tensor, place: int, like: np.ndarray
) -> np.ndarray:
    """The Jacobian with respect to ``tensor`` by a call along each of its elements, a row each."""
    data = tensor._data
    units = [1.0, 1j] if data.dtype.kind == "c" else [1.0]
    jacobian = np.zeros_like(like)
    for row, (unit, at) in enumerate((unit, at) for unit in units for at in np.ndindex(data.shape)):
        direction = np.zeros(data.shape, data.dtype)
        direction[at] = unit
        level = duals.enter()
        try:
            dual = duals.made(tensor, wrap(direction))
            found = _outputs(func, [dual if a is tensor else a for a in arguments])[place]
            tangent = duals.tangent_of(found)
            if tangent is not None:
                jacobian[row] = _parts(tangent._data)
        finally:
            duals.leave(level)
    return jacobian


def _check_scaling(output: Tensor, wanted: list[Tensor]) -> None:
    """Backward of zeros must be zeros."""
    zeros = wrap(np.zeros(output._data.shape, output._data.dtype))
    for g in grad(output, wanted, zeros, retain_graph=True, allow_unused=True):
        # 0 * NaN is no evidence: the mean of nothing has such a gradient
        if g is not None and np.any(np.nan_to_num(g._data)):
            raise GradcheckError("backward not multiplied by grad_output")


class _Undefined(Function):
    """The identity, whose gradient is None."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        return None


def _check_undefined(output: Tensor, wanted: list[Tensor]) -> None:
    """Where no gradient arrives, none or zeros must come out."""
    out = _Undefined.apply(output)
    ones = wrap(np.ones(output._data.shape, output._data.dtype))
    for g in grad(out, wanted, ones, retain_graph=True, allow_unused=True):
        if g is not None and np.any(g._data):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or "
                "zero. "
                'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
            )


def _parts(array: np.ndarray) -> np.ndarray:
    """The elements as float64 in a row; of complex ones all real parts, then all imaginary ones."""
    flat = array.ravel()
    if flat.dtype.kind == "c":
        return np.concatenate([flat.real, flat.imag]).astype(np.float64)
    return flat.astype(np.float64)


def _analytical(output: Tensor, wanted: list[Tensor]) -> list[np.ndarray]:
    """One Jacobian (parts of the input, parts of the output) per input, a backward per column."""
    data, dtype = output._data, output._data.dtype
    units = [1.0, 1j] if dtype.kind == "c" else [1.0]
    seeds = [(k, unit) for unit in units for k in range(data.size)]
    jacobians = [np.zeros((_parts(t._data).size, len(seeds))) for t in wanted]
    for column, (k, unit) in enumerate(seeds):
        seed = np.zeros(data.size, dtype)
        seed[k] = unit
        found = grad(
            output, wanted, wrap(seed.reshape(data.shape)), retain_graph=True, allow_unused=True
        )  # fmt: skip
        for jacobian, g in zip(jacobians, found, strict=True):
            if g is not None:
                jacobian[:, column] = _parts(g._data)
    return jacobians


def _numerical(
    func: Callable, arguments: Sequence[Any], tensor: Tensor, place: int, count: int, eps: float
) -> np.ndarray:
    """The Jacobian with respect to ``tensor`` by central differences; its elements are moved and put back."""
    data = tensor._data
    units = [eps, eps * 1j] if data.dtype.kind == "c" else [eps]
    jacobian = np.zeros((len(units) * data.size, count))
    moves = [(at, unit) for unit in units for at in np.ndindex(data.shape)]
    for row, (at, unit) in enumerate(moves):
        before = data[at]
        ends = []
        for step in (unit, -unit):
            data[at] = before + step
            ends.append(_parts(np.array(_outputs(func, arguments)[place]._data)))
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
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """The same for the gradients of ``func`` themselves: checks what ``create_graph=True`` gives.

    ``grad_outputs`` are the directions, drawn at random where they are left out.

    >>> import jtorch
    >>> x = jtorch.tensor([1.0, 2.0], dtype=jtorch.float64, requires_grad=True)
    >>> jtorch.autograd.gradgradcheck(lambda x: x**3, (x,))
    True
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = [t for t in _outputs(func, arguments) if t._requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        grad_outputs = [_random_like(t, rng, gen_non_contig_grad_outputs) for t in outputs]
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
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


def _random_like(tensor: Tensor, rng: np.random.Generator, strided: bool) -> Tensor:
    """A leaf like ``tensor``; where ``strided`` its elements lie two apart."""
    shape = tensor._data.shape
    values = rng.uniform(0.5, 1.5, (*shape, 2)).astype(tensor._data.dtype)
    return leaf(values[..., 0] if strided else np.array(values[..., 0]))
