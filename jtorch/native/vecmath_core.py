"""What the families of `vecmath` share: the decorator, polynomials, powers of two."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.native.intrinsics import Symbolic, fma

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep NumPy's floating-point warnings out of the twin: a select computes the side it drops,
    too."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        if isinstance(args[0], Symbolic):
            return function(*args)
        with np.errstate(all="ignore"):
            return function(*args)

    return wrapper


def typed(dtype: type, *values: float | str) -> tuple[Any, ...]:
    """Literals of one dtype; a string is hexadecimal floating point."""
    return tuple(dtype(float.fromhex(v) if isinstance(v, str) else v) for v in values)


def polynomial(x: Any, coefficients: Sequence[Any]) -> Any:
    """Horner's scheme with FMA; the highest power comes first."""
    result = fma(coefficients[0], x, coefficients[1])
    for coefficient in coefficients[2:]:
        result = fma(result, x, coefficient)
    return result
