"""Formulas over elementwise ops that have names of their own in PyTorch.

Source: https://docs.pytorch.org/docs/stable/torch.html#math-operations
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import Tensor


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Elements limited to [min, max]; either bound may be a number, a tensor or None."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if min is not None:
        input = APPLY["clamp_min"](input, min)
    return input if max is None else APPLY["clamp_max"](input, max)


def square(input: Tensor) -> Tensor:
    return input * input


def _logical(name: str, *tensors: Tensor) -> Tensor:
    for t in tensors:
        if isinstance(t, Tensor) and t._data.dtype.kind != "b":
            raise NotImplementedError(f"{name} of {t.dtype} is not there yet: only bool tensors")
    return APPLY[f"logical_{name}"](*tensors)


def bitwise_not(self: Tensor) -> Tensor:
    return _logical("not", self)


def bitwise_and(self: Tensor, other: Tensor) -> Tensor:
    return _logical("and", self, other)


def bitwise_or(self: Tensor, other: Tensor) -> Tensor:
    return _logical("or", self, other)


def isinf(input: Tensor) -> Tensor:
    """Whether elements are inf or -inf."""
    return input.abs() == math.inf if input.is_floating_point() else APPLY["ne"](input, input)


def reciprocal(input: Tensor) -> Tensor:
    """1 / input"""
    return APPLY["div"](1.0, input)


def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2."""
    return input.log() * (1.0 / math.log(2.0))


def log10(input: Tensor) -> Tensor:
    """The logarithm to base 10."""
    return input.log() * (1.0 / math.log(10.0))


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight (end - input)"""
    return input + weight * (end - input)


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """input + value tensor1 tensor2"""
    return input + value * tensor1 * tensor2


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """input + value tensor1 / tensor2"""
    return input + value * tensor1 / tensor2


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        clamp, square, isinf, reciprocal, log2, log10, lerp, addcmul, addcdiv,
    )
}  # fmt: skip
METHODS = FUNCTIONS
