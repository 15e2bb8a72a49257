"""Complex tensors: making them, and their parts.

Source: https://docs.pytorch.org/docs/stable/complex_numbers.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor


def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """real + i imag, of two float32 or two float64 tensors that broadcast."""
    if real._data.dtype is not imag._data.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {long_name(real._data.dtype)} but got scalar type "
            f"{long_name(imag._data.dtype)} for second argument"
        )
    if real.dtype not in (dt.float32, dt.float64):
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{long_name(real._data.dtype)} and {long_name(imag._data.dtype)}"
        )
    if real.shape != imag.shape:
        shape = np.broadcast_shapes(tuple(real.shape), tuple(imag.shape))
        real, imag = real.expand(shape), imag.expand(shape)
    return APPLY["make_complex"](real, imag)


@autocasts(cpu="float32")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs (cos angle + i sin angle)"""
    return complex_(abs * angle.cos(), abs * angle.sin())


def real(input: Tensor) -> Tensor:
    """The real part, as a view; a real tensor itself."""
    return APPLY["real_part"](input) if input.is_complex() else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part, as a view. Raises RuntimeError for a real tensor."""
    if not input.is_complex():
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return APPLY["imag_part"](input)


def conj(input: Tensor) -> Tensor:
    """The complex conjugate, in new memory; a real tensor itself."""
    return APPLY["conj"](input) if input.is_complex() else input


def conj_physical_(input: Tensor) -> Tensor:
    """``conj`` in place."""
    return input.copy_(conj(input)) if input.is_complex() else input


def resolve(input: Tensor) -> Tensor:
    """The tensor itself: jtorch conjugates and negates at once, it keeps no lazy bits."""
    return input


def angle(input: Tensor) -> Tensor:
    """The angle in radians; for reals 0 or pi, NaN for NaN."""
    if input.is_complex():
        return APPLY["phase"](input)
    if not input.is_floating_point():
        input = input.to(dt.get_default_dtype())
    zero = APPLY["where"](APPLY["isnan"](input), input * 0.0, 0.0)  # not the NaN of infinity times 0
    return APPLY["where"](APPLY["lt"](input, 0), zero + 3.141592653589793, zero)


def view_as_real(input: Tensor) -> Tensor:
    """(..., 2): real and imaginary parts along a new last dim."""
    if not input.is_complex():
        raise RuntimeError("view_as_real is only supported for complex tensors")
    from jtorch.eager.functions.joining import stack

    return stack([real(input), imag(input)], -1)


@autocasts(cpu="float32")
def view_as_complex(input: Tensor) -> Tensor:
    """Complex numbers of the pairs along the last dim."""
    if not input.is_floating_point():
        raise RuntimeError("view_as_complex is only supported for floating point tensors")
    if not input.ndim or input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    return complex_(input[..., 0], input[..., 1])


def is_conj(input: Tensor) -> bool:
    """Whether conjugation waits to be done: never, jtorch does it at once."""
    return False


FUNCTIONS: dict[str, Callable] = {
    "complex": complex_, "polar": polar, "real": real, "imag": imag, "conj": conj, "angle": angle,
    "view_as_real": view_as_real, "view_as_complex": view_as_complex, "resolve_conj": resolve,
    "resolve_neg": resolve, "conj_physical": conj, "conj_physical_": conj_physical_,
}  # fmt: skip
METHODS: dict[str, Any] = {
    "real": property(real), "imag": property(imag), "conj": conj, "angle": angle, "resolve_conj": resolve,
    "resolve_neg": resolve, "conj_physical": conj, "is_conj": is_conj,
    "conj_physical_": conj_physical_,
}  # fmt: skip
