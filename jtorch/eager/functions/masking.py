"""Functions that go by a tensor of bools, or make one of membership: masks, ``where``, ``nonzero``, ``isin``.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.core.dtypes import bool_
from jtorch.core.number_ranges import (
    PLAIN,
    check_beside,
    check_number,
    check_scalar,
    is_operand,
    number_type,
    require_number,
)
from jtorch.core.op import BY_NAME
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.places import dtype_name, of_number
from jtorch.eager.index_items import places_of
from jtorch.eager.inplace import in_place_function
from jtorch.eager.messages import bad_argument
from jtorch.eager.tensor import Tensor, wrap


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``input`` with ``value`` where ``mask`` (bool, broadcast) holds."""
    if mask.dtype is not bool_:
        name = {"int32": "int", "uint8": "unsigned char", "int64": "long int", "float32": "float"}.get(
            mask.dtype.name, mask.dtype.name
        )
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {name}")
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} "
                "dimension(s)."
            )
        value = value.to(input.dtype)
    else:
        value = value.item() if isinstance(value, np.generic) else value
        require_number(value, "masked_fill(): argument 'value'")
        check_number(value, input._data.dtype)
        if input._data.dtype.kind == "b":
            value = bool(value)
        elif input._data.dtype.kind in "iu" and issubclass(number_type(value), float):
            value = int(value)
    return APPLY["where"](mask, value, input)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` holds, as a vector; both are broadcast."""
    if mask.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return input.expand(*shape)[mask.expand(*shape)]


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``input`` with the elements of ``source``, in order, where ``mask`` (bool, broadcast) holds."""
    if mask.dtype is not bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {dtype_name(mask)}"
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            "masked_scatter_: expected self and source to have same dtypes but got "
            f"{dtype_name(input)} and {dtype_name(source)}"
        )
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    (places,) = places_of(mask.expand(*shape).reshape(-1))
    count = places.shape[0]
    if count > source.numel():
        raise RuntimeError("Number of elements of source < number of ones in mask")
    flat = input.expand(*shape).reshape(-1)
    return APPLY["index_copy"](flat, places, source.reshape(-1)[:count], axis=0).reshape(shape)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of elements that are not 0: (count, ndim) of int64, or one vector a dim."""
    found = places_of(input if input.ndim else input.reshape(1))
    if as_tuple:
        return tuple(found)
    columns = [places.reshape(-1, 1) for places in found]
    if len(columns) > 1:
        return APPLY["cat"](*columns, axis=1)
    return columns[0] if input.ndim else columns[0][:, :0]


def argwhere(input: Tensor) -> Tensor:
    """The positions of elements that are not 0, as (count, ndim) of int64."""
    return nonzero(input)


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` holds, else ``other``; with ``condition`` alone its ``nonzero``."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if condition._data.dtype.kind != "b":
        if condition._data.dtype != np.uint8:
            raise RuntimeError(
                "where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{dtype_name(condition)}"
            )
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a "
            "future version of PyTorch. Use a boolean condition instead.",
            UserWarning,
            stacklevel=2,
        )
        condition = condition.to(bool_)
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        input, other = (v.item() if isinstance(v, np.generic) else v for v in (input, other))
        if not (is_operand(input) and is_operand(other)):
            raise TypeError(bad_argument(BY_NAME["where"], (condition, input, other)))
        beside, number = (input, other) if isinstance(input, Tensor) else (other, input)
        alone = not isinstance(beside, Tensor)
        if alone or not (number.__class__ in PLAIN and (-128 <= number <= 127 or _holds(beside, number))):
            _check_choice(input, other)
        if alone:  # two numbers are not weak
            input = of_number(
                input, dt.promote((), [getattr(n, "as_runtime_scalar", n) for n in (input, other)])
            )
    return APPLY["where"](condition, input, other)


_TRUE = wrap(np.ones((), np.bool_))  # a number beside it has the dtype of one alone


def _holds(beside: Tensor, number: Any) -> bool:
    """Whether ``beside`` is of floats that hold ``number``, which most masks are filled with: -1e9, -inf."""
    return beside._data.dtype in _WIDE and not _LARGEST < abs(number) < math.inf


_WIDE = (np.dtype(np.float32), np.dtype(np.float64))
_LARGEST = float(np.finfo(np.float32).max)


def _check_choice(*choices: Any) -> None:
    """Raise for a number that the dtype of the result cannot hold."""
    (beside,) = [t for t in choices if isinstance(t, Tensor)] or [_TRUE]
    if beside.is_floating_point():
        for number in choices:
            check_scalar(number, beside._data.dtype)
    else:
        check_beside(beside, *choices)


def _either(elements: Any, element: Any) -> Any:
    """PyTorch's overloads name one number and several differently."""
    if (elements is None) == (element is None):
        raise TypeError("isin() takes either elements or one element, and the same of test_elements")
    return element if elements is None else elements


def isin(
    elements: Any = None, test_elements: Any = None, *, assume_unique: bool = False, invert: bool = False,
    element: Any = None, test_element: Any = None,
) -> Tensor:  # fmt: skip
    """Whether each of ``elements`` is among ``test_elements``; either may be one number, and is called
    ``element`` and ``test_element`` then.
    """
    elements, test_elements = _either(elements, element), _either(test_elements, test_element)
    if not isinstance(elements, Tensor):
        elements = of_number(elements)
    if not isinstance(test_elements, Tensor):
        test_elements = of_number(test_elements)
    common = _compared_in(elements, test_elements)
    found = APPLY["isin"](elements.to(common), test_elements.to(common))
    return APPLY["logical_not"](found) if invert else found


def _compared_in(one: Tensor, many: Tensor) -> dt.dtype:
    """The dtype that both have in common. From ten on PyTorch sorts them together: one without dims counts in
    full then."""
    in_full = one.dtype is not many.dtype and not one.ndim and many.numel() >= 10
    return dt.of(dt.promote([(one._data.dtype, in_full or one.ndim), (many._data.dtype, many.ndim)]))


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where ``condition`` holds, else ``other``."""
    return where(condition, self, other)


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f for f in (masked_fill, masked_select, masked_scatter, nonzero, argwhere, where, isin)
}
METHODS: dict[str, Any] = {k: f for k, f in FUNCTIONS.items() if k != "isin"} | {"where": _where_method}
METHODS |= {f"{f.__name__}_": in_place_function(f) for f in (masked_fill, masked_scatter)}
