"""What reading and writing at places that a tensor of integers names share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.dtypes import int32, int64
from jtorch.core.number_ranges import element
from jtorch.eager.binding import APPLY
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor, wrap

_INT = np.dtype(np.int64)


def positions(shape: Any, axis: int) -> Tensor:
    """The position along ``axis``, in ``shape``."""
    return wrap(op_module.CONTEXT.get().xp.iota(shape=tuple(shape), axis=axis, dtype=_INT))


def as_long(
    index: Tensor, name: str, words: str = "Expected dtype int32/int64 for index", may_be_empty: bool = False
) -> Tensor:
    """``index`` as int64. Raises RuntimeError, with ``words``, for what is neither int32 nor int64, unless
    ``may_be_empty`` and there is no place in it: an empty tensor made without a dtype is one of floats."""
    if index.dtype is int64:
        return index
    if index.dtype is not int32 and not (may_be_empty and index.numel() == 0):
        raise RuntimeError(f"{name}(): {words}")
    return index.to(int64)


def counted_from_start(index: Tensor, n: int) -> Tensor:
    """Indices with the negative ones counted from the end."""
    return APPLY["where"](APPLY["lt"](index, 0), index + n, index)


def filled(shape: Any, value: Any, like: Tensor) -> Tensor:
    """A number, or tensor of one, throughout ``shape`` in the dtype of ``like``."""
    if isinstance(value, Tensor):
        return value.to(like.dtype).expand(*shape)
    value = element(value, like._data.dtype)
    xp = op_module.CONTEXT.get().evaluator.namespace(like._data)
    return wrap(xp.full(value, shape=tuple(shape), dtype=like._data.dtype))


def of_number(number: Any, dtype: np.dtype | None = None) -> Tensor:
    """A number as a tensor without dims, which a recording makes anew at each call; in NumPy's dtype for it
    where none is given."""
    dtype = dtype or np.asarray(getattr(number, "as_runtime_scalar", number)).dtype
    return wrap(op_module.CONTEXT.get().xp.full(number, shape=(), dtype=dtype))


def at_places(name: str, error: type[Exception], *arrays: Any, **statics: Any) -> Tensor:
    """The op ``name``, whose complaint about an index comes as ``error``."""
    try:
        return APPLY[name](*arrays, **statics)
    except IndexError as wrong:
        raise error(str(wrong)) from None


def lifted(function: Callable, shape_of_index: bool = False, source_too: bool = True) -> Callable:
    """``function(input, dim, index, ...)`` for tensors without dims, too: they count as having one.

    The result then has no dims where ``input`` had none, or ``index`` with ``shape_of_index``. Without
    ``source_too`` what follows ``index`` is left as it is: a number, not a row of them.
    """

    def raised(given: Any) -> Any:
        return given.reshape(1) if isinstance(given, Tensor) and not given.ndim else given

    def lifted(input: Tensor, dim: int, index: Tensor, *rest: Any, **options: Any) -> Tensor:
        if input._data.ndim and index._data.ndim:
            return function(input, dim, index, *rest, **options)
        if source_too:
            rest, options = tuple(map(raised, rest)), {k: raised(t) for k, t in options.items()}
        out = function(raised(input), dim, raised(index), *rest, **options)
        scalar = not (index if shape_of_index else input).ndim
        return out.reshape(()) if scalar else out

    lifted.__name__ = lifted.__qualname__ = function.__name__
    lifted.__doc__ = function.__doc__
    return lifted


def dtype_name(tensor: Tensor) -> str:
    """The name that PyTorch's error sentences use: "Float", "Long"."""
    return long_name(tensor._data.dtype)
