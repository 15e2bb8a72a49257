"""Activations that are put together from ops, and the in-place forms that are functions of the module.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#non-linear-activation-functions
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jtorch.core import op as op_module
from jtorch.core.generator import default_generator
from jtorch.core.number_ranges import check_parameters
from jtorch.eager.binding import APPLY
from jtorch.eager.inplace import in_place_function
from jtorch.eager.tensor import Tensor


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where positive, else ``weight`` x; one weight for all, or one for each channel (dim 1).

    Raises RuntimeError where the number of weights is not the number of channels.
    """
    if weight.numel() != 1:  # before the number of dims, as PyTorch does
        _check_channels(input, weight.numel())
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.ndim and input.ndim != 1:
        weight = weight.reshape([-1 if k == 1 else 1 for k in range(input.ndim)])
    return APPLY["prelu_kernel"](input, weight)


def _check_channels(input: Tensor, count: int) -> None:
    if not input.ndim:
        raise RuntimeError("Not allow zero-dim input tensor.")
    channels = input.shape[1] if input.ndim > 1 else 1
    if channels != count:
        raise RuntimeError(
            f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and "
            f"channel size = {channels}."
        )


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Any = None,
) -> Tensor:
    """x where positive, else x times a random slope while training, the middle slope otherwise."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not -math.inf < bound < math.inf:
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound:g}")
    check_parameters(input, lower, upper)
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return APPLY["leaky_relu"](input, (lower + upper) / 2)
    seed, call = op_module.CONTEXT.get().evaluator.next_call(generator or default_generator)
    return APPLY["rrelu_with"](input, seed, call, lower, upper)


def _overwriting(name: str) -> Callable:
    """The function that calls the in-place method ``name``."""

    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(input, name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``Tensor.{name}`` as a function."
    return function


_IN_PLACE = ("relu_", "celu_", "selu_", "threshold_", "rrelu_", "sigmoid_", "tanh_")
FUNCTIONS: dict[str, Callable] = {name: _overwriting(name) for name in _IN_PLACE}
FUNCTIONS.update(prelu=prelu, rrelu=rrelu)
METHODS: dict[str, Callable] = {"prelu": prelu, "rrelu_": in_place_function(rrelu)}
