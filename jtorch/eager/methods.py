"""The Tensor's operators and methods, installed from the op table; and in-place forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core.op import BY_NAME, TABLE
from jtorch.eager import (
    construction,
    drawing,
    drawing_in_place,
    exchange,
    functions,
    indexing,
    inplace,
    inspection,
    placement,
    selection,
    setting,
    storage,
)
from jtorch.eager.binding import APPLY, accepting, public_function
from jtorch.eager.functions import products
from jtorch.eager.signatures import integers_of, leading_tensors, numbers_of, spelling
from jtorch.eager.tensor import Tensor

FUNCTIONS: dict[str, Callable] = {op.public: public_function(op) for op in TABLE if op.public}
FUNCTIONS.update({name: accepting(f) for name, f in functions.FUNCTIONS.items()})
FUNCTIONS.update(exchange.FUNCTIONS)
FUNCTIONS.update(inspection.FUNCTIONS)

_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_COMMUTATIVE = ("add", "mul")  # 2 * t is t * 2: the tensor comes first in next_functions, too
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _reflected(function: Callable) -> Callable:
    def operator(self: Tensor, other: Any) -> Tensor:
        return function(other, self)

    return operator


def _reciprocal_times(self: Tensor, other: Any) -> Tensor:
    """``other / self`` as PyTorch computes it: what its gradient needs is the reciprocal, not ``self``."""
    if getattr(other, "as_runtime_scalar", other).__class__ in (int, float):
        inverse = APPLY["reciprocal"](self)
        one = other.__class__ in (int, float) and other == 1
        return inverse if one else APPLY["mul"](inverse, other)
    return APPLY["div"](other, self)


_NUMBERS = (Tensor, bool, int, float, complex, np.generic)


def _accepting(function: Callable) -> Callable:
    """An operator that answers NotImplemented to what is no number or tensor."""

    def operator(self: Tensor, other: Any) -> Any:
        if isinstance(other, _NUMBERS) or hasattr(other, "as_runtime_scalar"):
            return function(self, other)
        return NotImplemented

    return operator


def _install_operators() -> None:
    for symbol, name in _OPERATORS.items():
        function = APPLY[name]
        setattr(Tensor, f"__{symbol}__", function)
        setattr(Tensor, f"__r{symbol}__", function if symbol in _COMMUTATIVE else _reflected(function))
    for name in _COMPARISONS:
        setattr(Tensor, f"__{name}__", _accepting(APPLY[name]))
    for symbol in ("neg", "abs"):
        setattr(Tensor, f"__{symbol}__", APPLY[symbol])
    others: dict[str, Any] = {
        "matmul": products.matmul, "rmatmul": _reflected(products.matmul), "rtruediv": _reciprocal_times,
    }  # fmt: skip
    others |= {"div": APPLY["div"], "rdiv": _reciprocal_times}  # Python 2's names, which PyTorch has
    for symbol, function in others.items():
        setattr(Tensor, f"__{symbol}__", function)


def _is_plain(function: Any) -> bool:
    """Whether a method needs no ``accepting``: it has no integers, and no tensors beside its own."""
    code = getattr(spelling(function), "__code__", None)
    if code is None:
        return True
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    counted = "dim" in names or numbers_of(function) is not None or bool(integers_of(function))
    return not counted and len(leading_tensors(function)) < 2


def _install_methods() -> None:
    for op in TABLE:
        if op.public is None:
            continue
        function = FUNCTIONS[op.public]
        for name in op.methods:
            setattr(Tensor, name, function)
        if op.in_place:
            setattr(Tensor, f"{op.public}_", inplace.in_place(op, function))
    for module in (
        functions, exchange, storage, setting, placement, drawing, drawing_in_place, construction, inspection,
    ):  # fmt: skip
        for name, function in module.METHODS.items():
            setattr(Tensor, name, function if _is_plain(function) else accepting(function, out=False))
    for symbol, name in _OPERATORS.items():
        setattr(Tensor, f"__i{symbol}__", inplace.in_place(BY_NAME[name], APPLY[name]))
    Tensor.__idiv__ = Tensor.__itruediv__  # type: ignore[attr-defined]
    setattr(Tensor, "__getitem__", indexing.getitem)  # noqa: B010 - a plain assignment is a type error
    setattr(Tensor, "__setitem__", indexing.setitem)  # noqa: B010
    for name in ("copy_", "zero_", "fill_"):
        setattr(Tensor, name, getattr(inplace, name))


_install_operators()
_install_methods()
selection.install()
FUNCTIONS.update({f"{op.public}_": getattr(Tensor, f"{op.public}_") for op in TABLE if op.in_place})
