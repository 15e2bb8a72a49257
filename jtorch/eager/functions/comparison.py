"""Whether tensors are equal, or nearly so.

Source: https://docs.pytorch.org/docs/stable/torch.html#comparison-ops
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import Tensor, _concrete


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether |input - other| <= atol + rtol |other|, element by element."""
    near = APPLY["le"]((input - other).abs(), rtol * other.abs() + atol)
    finite = APPLY["isfinite"](other)
    close = APPLY["logical_or"](APPLY["logical_and"](near, finite), APPLY["eq"](input, other))
    if not equal_nan:
        return close
    return APPLY["logical_or"](close, APPLY["logical_and"](APPLY["isnan"](input), APPLY["isnan"](other)))


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, see ``isclose``."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and the same elements."""
    return np.array_equal(_concrete(input, "equal()"), _concrete(other, "equal()"))


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        isclose, allclose, equal,
    )
}  # fmt: skip
METHODS = FUNCTIONS
