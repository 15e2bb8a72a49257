"""Running sums, differences and integrals along a dim.

Source: https://docs.pytorch.org/docs/stable/torch.html#other-operations
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core.dtypes import bool_
from jtorch.core.return_types import ALL as RESULTS
from jtorch.eager.binding import APPLY
from jtorch.eager.inplace import in_place_function
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax


def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The sums of the elements up to each position of ``dim``; integers are summed as int64."""
    return _of_dtype("cumsum", input, dim, dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The products of the elements up to each position of ``dim``."""
    return _of_dtype("cumprod", input, dim, dtype)


def _of_dtype(name: str, input: Tensor, dim: int, dtype: Any) -> Tensor:
    """Sums are int64 for narrow integers: modulo 2^n they are what narrow ones would have come to."""
    if dtype is None:
        return _running(name, input, dim)
    if dtype is bool_:
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
    return _running(name, input.to(dtype), dim).to(dtype)


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log(cumsum(exp(input))) without overflow."""
    return _running("logcumsumexp", input, dim)


def _running(name: str, input: Tensor, dim: int) -> Tensor:
    axis = ax.one(dim, input.ndim)
    if not input.ndim:
        return _running(name, input.reshape(1), 0).reshape(())
    return APPLY[name](input, axis=axis)


def cummax(input: Tensor, dim: int) -> Any:
    """(the largest elements up to each position of ``dim``, where they are)"""
    return _extreme("cummax", input, dim)


def cummin(input: Tensor, dim: int) -> Any:
    """(the smallest elements up to each position of ``dim``, where they are)"""
    return _extreme("cummin", input, dim)


def _extreme(name: str, input: Tensor, dim: int) -> Any:
    axis = ax.one(dim, input.ndim)
    if not input.ndim:
        return RESULTS[name](*(t.reshape(()) for t in _extreme(name, input.reshape(1), 0)))
    return RESULTS[name](*APPLY[name](input, axis=axis))


def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours along ``dim``, ``n`` times; of bools whether they differ."""
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    axis = ax.one(dim, input.ndim)
    if not n:
        return APPLY["clone"](input)
    parts = [t for t in (prepend, input, append) if t is not None]
    if len(parts) > 1:
        input = APPLY["cat"](*parts, axis=axis)
    for _ in range(min(n, input.shape[axis])):
        last = max(input.shape[axis] - 1, 0)
        after, before = input.narrow(axis, input.shape[axis] - last, last), input.narrow(axis, 0, last)
        input = APPLY["logical_xor" if input._data.dtype.kind == "b" else "sub"](after, before)
    return input


def trapezoid(y: Tensor, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral along ``dim`` by trapezoids, at points ``x`` or ``dx`` apart."""
    areas = _areas(y, x, dx, dim)
    return areas.sum(ax.one(dim, y.ndim))


def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral by trapezoids up to each position of ``dim`` but the first."""
    return cumsum(_areas(y, x, dx, dim), ax.one(dim, y.ndim))


def _areas(y: Tensor, x: Any, dx: Any, dim: int) -> Tensor:
    axis = ax.one(dim, y.ndim)
    n = y.shape[axis]
    width: Any = dx
    if x is not None:
        if x.ndim == 1:
            if x.shape[0] != n:
                raise RuntimeError("There must be one `x` value for each sample point")
            x = x.reshape([-1 if k == axis else 1 for k in range(y.ndim)])
        width = diff(x, dim=ax.one(dim, y.ndim) - y.ndim)
    steps = max(n - 1, 0)
    return (y.narrow(axis, n - steps, steps) + y.narrow(axis, 0, steps)) * width / 2.0


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        cumsum, cumprod, logcumsumexp, cummax, cummin, diff, trapezoid, cumulative_trapezoid,
    )
} | {"trapz": trapezoid}  # fmt: skip
METHODS: dict[str, Callable] = {
    name: FUNCTIONS[name] for name in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "diff")
}
METHODS |= {f"{f.__name__}_": in_place_function(f) for f in (cumsum, cumprod)}
