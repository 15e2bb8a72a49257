"""What NumPy's functions and methods give of an array whose elements only a replay knows, by recorded ops.

Dtypes are NumPy's: counts of bools are int64, means of what is no float are float64. What is not here, or not
with such arguments, ``numpy_arrays`` refuses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.compile.observe.scalar import Scalar
from jtorch.core.op import BY_NAME
from jtorch.eager.tensor import Tensor, wrap

BOOL = np.dtype(np.bool_)
_INT, _FLOAT = np.dtype(np.int64), np.dtype(np.float64)
_WHERE = BY_NAME["where"]
_ANY_DIMS = {"vstack": (2, 0), "hstack": (1, 1)}  # how many axes it needs, and which it joins


class Functions:
    """The part of a ``NumpyArray`` that is made of other ops."""

    __slots__ = ()

    memory: Any
    few: bool
    is_number: bool
    refuse: Any
    in_dtype: Any
    _computed: Any
    _reduced: Any

    @property
    def tracer(self) -> Any:
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype:
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        raise NotImplementedError

    def _made(self, tensor: Tensor, few: bool | None = None) -> Any:
        made: Any = type(self)
        return made(tensor._data, is_number=not tensor.ndim, few=self.few if few is None else few)

    def _as(self, dtype: np.dtype) -> Any:
        """This one cast to ``dtype``."""
        made: Any = type(self)
        return self if self.dtype == dtype else made(self.in_dtype(self, dtype), self.is_number, self.few)

    # -- reductions ------------------------------------------------------------------------------------------

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        return (self if self.dtype.kind == "f" else self._as(_INT))._reduced("sum", axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        return (self if self.dtype.kind == "f" else self._as(_FLOAT))._reduced("mean", axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._of_bools("any", axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._of_bools("all", axis, keepdims)

    def _of_bools(self, name: str, axis: Any, keepdims: bool) -> Any:
        """As the largest, or the least, of zeros and ones."""
        if self.dtype != BOOL:
            raise self.refuse(f"{name}() in {self.dtype}")
        found = self._as(_INT)._reduced("amax" if name == "any" else "amin", axis, keepdims)
        return found._as(BOOL)

    def argmax(self, axis: Any = None) -> Any:
        return self._place("argmax", axis)

    def argmin(self, axis: Any = None) -> Any:
        return self._place("argmin", axis)

    def _place(self, name: str, axis: Any) -> Any:
        if self.dtype == BOOL or not self.ndim or not (axis is None or type(axis) is int):
            raise self.refuse(f"{name}() of this")
        return self._made(getattr(wrap(self.memory), name)(dim=axis))

    def cumsum(self, axis: Any = None) -> Any:
        if self.dtype == BOOL or self.dtype == np.dtype(np.int32) or not self.ndim:
            raise self.refuse(f"cumsum() in {self.dtype}")
        given = wrap(self.memory)
        return self._made(given.reshape(-1).cumsum(0) if axis is None else given.cumsum(axis))

    def norm(self, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
        """``numpy.linalg.norm``, of all elements as one vector, or along an axis."""
        if ord is not None or self.dtype.kind != "f" or not (axis is None or type(axis) is int):
            raise self.refuse("this norm")
        squares = self._computed("mul", self, self)
        return squares._computed("sqrt", squares.sum(axis, keepdims))

    # -- element by element ----------------------------------------------------------------------------------

    def clip(self, min: Any = None, max: Any = None) -> Any:
        found = self._as(target_of(self, *(bound for bound in (min, max) if bound is not None)))
        found = found if min is None else found._computed("maximum", found, min)
        return found if max is None else found._computed("minimum", found, max)

    def round(self, decimals: Any = 0) -> Any:
        if decimals != 0 or self.dtype.kind != "f" or not self.ndim:
            raise self.refuse("round()")
        return self._computed("round", self)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """``numpy.where`` of three, this being one of them."""
        target = target_of(x, y)
        if getattr(condition, "dtype", None) != BOOL:
            raise self.refuse("where() without bools")
        parts = [v if getattr(v, "ndim", 0) else self._number(v, target) for v in (x, y)]
        memories = (self.in_dtype(condition, BOOL), *(self.in_dtype(part, target) for part in parts))
        return self._made(wrap(self.tracer.record(_WHERE, *memories)))

    def _number(self, value: Any, target: np.dtype) -> Any:
        """One of Python's or NumPy's as an array."""
        if type(value) is type(self):
            return value
        if not issubclass(type(value), (int, float, np.generic)):
            raise self.refuse(f"where() with a {type(value).__name__}")
        return np.asarray(value, target)

    def logical(self, name: str, *values: Any) -> Any:
        """``&``, ``|``, ``^`` and ``~`` of bools, which for these are the logical functions."""
        if not all(getattr(value, "dtype", None) == BOOL for value in values):
            raise self.refuse(f"'{name}' of what is no bool")
        return self._made(wrap(self.tracer.record(BY_NAME[name], *(self.in_dtype(v, BOOL) for v in values))))

    # -- products --------------------------------------------------------------------------------------------

    def dot(self, other: Any) -> Any:
        return self.product(self, other, 2)

    def product(self, x: Any, y: Any, most: int = 99) -> Any:
        """``x @ y``, of arrays with at most so many axes."""
        target = target_of(x, y)
        if (
            isinstance(x, Tensor)
            or isinstance(y, Tensor)
            or target.kind != "f"
            or not all(getattr(v, "ndim", 0) in range(1, most + 1) for v in (x, y))
        ):
            raise self.refuse("this product")
        return self._made(wrap(self.in_dtype(x, target)) @ wrap(self.in_dtype(y, target)), few=False)

    # -- shapes ----------------------------------------------------------------------------------------------

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        if type(repeats) is not int or repeats < 1 or not self.ndim:
            raise self.refuse("repeat()")
        return self._made(wrap(self.memory).repeat_interleave(repeats, dim=axis))

    def with_axes(self, name: str, arrays: Any) -> Any:
        """``numpy.vstack``, or ``hstack``."""
        least, axis = _ANY_DIMS[name]
        parts = [array if array.ndim >= least else array.reshape(*(1,) * (least - 1), -1) for array in arrays]
        at = 0 if name == "hstack" and parts[0].ndim == 1 else axis
        return self.tracer.numpy_arrays.joined("concatenate", parts, at)


def target_of(*values: Any) -> np.dtype:
    """The dtype in which NumPy computes with such operands."""
    return np.result_type(*map(_kind_of, values))


def _kind_of(value: Any) -> Any:
    """What ``numpy.result_type`` takes for ``value``: a dtype, or a weak number."""
    if issubclass(type(value), Scalar):
        return value.as_runtime_scalar
    return value.dtype if hasattr(value, "dtype") else value
