"""What ``.item()`` gives while a function is recorded: a number that only a replay knows.

It may leave the function (as a result, each call's own Python number), be added up, scaled and compared, and
meet tensors, which costs no recording per value. Sums and products are equations in float64 or int64, as
Python computes; a comparison is a data-dependent branch, as ``if tensor:`` is. What needs the digits now
(``float()``, ``int()``, ``print``, f-strings, sizes) is an error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.scalar import Scalar
from jtorch.errors import CompileError, user_source
from jtorch.op import BY_NAME, Op

_CAST, _EQ, _MUL, _DIV = (BY_NAME[name] for name in ("cast", "eq", "mul", "div"))
_ARITHMETIC = (BY_NAME["add"], BY_NAME["sub"], BY_NAME["neg"], _MUL, _DIV)
_FLOAT, _INT, _BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)


class Item(Scalar):
    """The element of a traced tensor as a number: ``var`` has no axes and is float64, int64 or bool.

    It is the variable of when ``.item()`` was called: what is written into the tensor later does not show.
    """

    __slots__ = ()

    def __init__(self, tracer: Any, var: Any) -> None:
        super().__init__(tracer, var, float("nan"), ())

    @property
    def as_runtime_scalar(self) -> Any:
        return {"f": 1.0, "i": 1, "b": True}[self.var.dtype.kind]

    @property
    def sym(self) -> Any:
        """The same as a traced array."""
        return self.tracer.fresh(self.var)

    def refuse(self, wanted_by: str) -> CompileError:
        self.tracer.check_open(self)
        return CompileError(
            f"{user_source()}: {wanted_by} needs the number that .item() gives, which is not known while a "
            "function is compiled. Keep it a tensor (jtorch.where for a choice), or return it and print, "
            "round or use it as a size outside; it may also be returned, added up, scaled and compared here."
        )

    def __float__(self) -> float:
        raise self.refuse("float()")

    def __int__(self) -> int:
        raise self.refuse("int()")

    def __index__(self) -> int:
        raise self.refuse("a size or an index")

    def __round__(self, digits: int | None = None) -> Any:
        raise self.refuse("round()")

    def __format__(self, spec: str) -> str:
        raise self.refuse("a text")

    def __repr__(self) -> str:
        raise self.refuse("a text")

    def __hash__(self) -> int:
        raise self.refuse("a key")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self.refuse("NumPy")

    def __abs__(self) -> Any:
        scalar: Any = self
        return scalar if scalar > 0 else -scalar

    def __bool__(self) -> bool:
        return self.tracer.branches.decide(self.sym)

    def _compare(self, test: Callable, other: Any) -> bool:
        mine, others = _alike(self.tracer, (self, other))
        return self.tracer.branches.decide(self.tracer.record(BY_NAME[_TESTS[test]], mine, others))


_TESTS = {
    operator.eq: "eq", operator.ne: "ne", operator.lt: "lt", operator.le: "le", operator.gt: "gt",
    operator.ge: "ge",
}  # fmt: skip


def item_of(sym: Any) -> Item:
    """``sym``, which has one element, as a number: float64, int64 or bool, as Python's are."""
    tracer = sym.tracer
    tracer.check_open(sym)
    if sym.dtype == np.uint64:
        raise CompileError(f"{user_source()}: item() of uint64 may be more than int64 holds: cast it first.")
    dtype = _FLOAT if sym.dtype.kind == "f" else _BOOL if sym.dtype == _BOOL else _INT
    flat = tracer.record(BY_NAME["reshape"], sym, shape=())
    return Item(tracer, tracer.read(flat if dtype == sym.dtype else tracer.record(_CAST, flat, dtype=dtype)))


def arithmetic(tracer: Any, op: Op, values: tuple) -> Item:
    """An op among numbers, at least one of which is an ``Item``: again one."""
    item = next(v for v in values if isinstance(v, Item))
    if op not in _ARITHMETIC:
        raise item.refuse(f"'{op.name}' of numbers")
    operands = _alike(tracer, values)
    if op is _MUL and not any(_is_float(v) for v in operands):
        raise item.refuse("a product of integers, which has no bound in Python,")
    if op is _DIV:
        operands = _alike(tracer, (*operands, 1.0))[:-1]
        by = operands[1]
        if by == 0.0 if isinstance(by, float) else tracer.branches.decide(tracer.record(_EQ, by, 0.0)):
            raise ZeroDivisionError("division by zero")
    return Item(tracer, tracer.read(tracer.record(op, *operands)))




def _alike(tracer: Any, values: tuple) -> list[Any]:
    """Numbers of one Python type: traced arrays for those that change from call to call."""
    floats = any(_is_float(v.sym if isinstance(v, Item) else v) for v in values)
    return [_operand(tracer, v, floats) for v in values]


def _is_float(value: Any) -> bool:
    return value.dtype == _FLOAT if hasattr(value, "dtype") else isinstance(value, (float, Scalar))


def _operand(tracer: Any, value: Any, floats: bool) -> Any:
    dtype = _FLOAT if floats else _INT
    if isinstance(value, Item):
        value = value.sym
    elif isinstance(value, Scalar):
        return tracer.fresh(value.var)
    if hasattr(value, "dtype"):
        return value if value.dtype == dtype else tracer.record(_CAST, value, dtype=dtype)
    return float(value) if floats else int(value)
