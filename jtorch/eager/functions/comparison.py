"""Whether tensors are equal, or nearly so.

Source: https://docs.pytorch.org/docs/stable/torch.html#comparison-ops
"""

from __future__ import annotations

from collections.abc import Callable

from jtorch.core.dtypes import get_default_dtype
from jtorch.eager.binding import APPLY
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether |input - other| <= atol + rtol |other|, element by element."""
    _same_dtype(input, other)
    if not (rtol >= 0 and atol >= 0):
        name, value = ("atol", atol) if rtol >= 0 else ("rtol", rtol)
        raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")
    close = APPLY["eq"](input, other)
    if equal_nan and input._data.dtype.kind not in "biu":
        both = APPLY["logical_and"](APPLY["isnan"](input), APPLY["isnan"](other))
        close = APPLY["logical_or"](close, both)
    if rtol == 0 and atol == 0:
        return close
    if input._data.dtype.kind in "biu":  # whose difference may wrap around
        input, other = input.to(get_default_dtype()), other.to(get_default_dtype())
    distance = (input - other).abs()
    near = APPLY["logical_and"](APPLY["isfinite"](distance), distance <= (other * rtol).abs() + atol)
    return APPLY["logical_or"](close, near)


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, see ``isclose``."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def _same_dtype(input: Tensor, other: Tensor) -> None:
    if input.dtype is not other.dtype:
        a, b = long_name(input._data.dtype), long_name(other._data.dtype)
        raise RuntimeError(f"{a} did not match {b}")


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and the same elements."""
    if input._data.shape != other._data.shape:
        return False
    return bool(APPLY["eq"](input, other).all())


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        isclose, allclose, equal,
    )
}  # fmt: skip
METHODS = FUNCTIONS
