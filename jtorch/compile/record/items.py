"""What ``.item()`` gives while a function is recorded: a number that only a replay knows.

It may leave the function (as a result, each call's own Python number), be added up, scaled and compared, and
meet tensors, which costs no recording per value. Sums and products are equations in float64 or int64, as
Python computes; a comparison is a data-dependent branch, as ``if tensor:`` is. What needs the digits now
(``float()``, ``int()``, ``print``, f-strings, sizes) is an error.

So is a number outside that the function counts on. Where the digits of such a one are needed the function is
recorded once more, with that number as a plain one, which is guarded (``Digits``).
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.observe.scalar import NAMES, Digits, Scalar, within
from jtorch.compile.observe.texts import refused_text
from jtorch.compile.record.inputs import LeafPlace
from jtorch.compile.record.numpy_arrays import UFUNCS, NumpyArray
from jtorch.core.dim import Dim, as_float, is_symbolic
from jtorch.core.dtypes import is_float
from jtorch.core.errors import CompileError, user_source
from jtorch.core.number_ranges import largest
from jtorch.core.op import BY_NAME, Kind, Op

_CAST, _EQ, _LE, _MUL, _DIV, _SUM = (BY_NAME[n] for n in ("cast", "eq", "le", "mul", "div", "sum"))
_FLOOR, _REST, _POW = (BY_NAME[name] for name in ("floor_divide", "remainder", "pow"))
_ARITHMETIC = (BY_NAME["add"], BY_NAME["sub"], BY_NAME["neg"], _MUL, _DIV)
_FLOAT, _INT, _BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)

_REFUSAL = (
    "{source}: {wanted_by} needs the number that .item() gives, which is not known while a function is "
    "compiled. Keep it a tensor (jtorch.where for a choice), or return it and print, round or use it as a "
    "size outside; it may also be returned, added up, scaled and compared here."
)


class Item(Scalar):
    """The element of a traced tensor as a number: ``var`` has no axes and is float64, int64 or bool.

    It is the variable of when ``.item()`` was called: what is written into the tensor later does not show.
    """

    __slots__ = ("bound", "decides", "largest", "places")

    def __init__(self, tracer: Any, var: Any, bound: int = 2**63, places: tuple[Any, ...] = ()) -> None:
        super().__init__(tracer, var, float("nan"), ())
        self.bound = bound  # of the magnitude of an integer, as far as it is known
        self.largest = math.inf  # of the magnitudes of a finite float, as far as it is known
        self.decides = True  # about branches: not where there are many like it
        self.places = places  # of the numbers outside that it was computed from, if from nothing else

    @property
    def as_runtime_scalar(self) -> Any:
        return {"f": 1.0, "i": 1, "b": True}[self.var.dtype.kind]

    @property
    def sym(self) -> Any:
        """The same as a traced array."""
        return self.tracer.fresh(self.var)

    def refuse(self, wanted_by: str) -> BaseException:
        self.tracer.check_open(self)
        if self.places:
            return Digits(self.places)
        return CompileError(_REFUSAL.format(source=user_source(), wanted_by=wanted_by))

    def _refuse_text(self) -> BaseException:
        self.tracer.check_open(self)
        if self.places:
            return Digits(self.places)
        return refused_text(_REFUSAL.format(source=user_source(), wanted_by="a text"), sys._getframe(1))

    def __float__(self) -> float:
        raise self.refuse("float()")

    def __int__(self) -> int:
        raise self.refuse("int()")

    def __index__(self) -> int:
        raise self.refuse("a size or an index")

    def __iter__(self) -> Any:
        """Where a size or a tuple of sizes is taken, what is no ``int`` is opened."""
        raise self.refuse("a size or an index")

    def __round__(self, digits: int | None = None) -> Any:
        raise self.refuse("round()")

    def __format__(self, spec: str) -> str:
        raise self._refuse_text()

    def __repr__(self) -> str:
        raise self._refuse_text()

    __str__ = __repr__

    def __hash__(self) -> int:
        raise self.refuse("a key")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self.refuse("NumPy")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        """NumPy's functions of Python's numbers give one of its own: ``np.exp(-step / 10)``."""
        name, of_pythons = UFUNCS.get(ufunc), all(type(v) in (Item, int, float) for v in operands)
        if method != "__call__" or options or name is None or not of_pythons or self.var.dtype == _BOOL:
            return super().__array_ufunc__(ufunc, method, *operands, **options)
        values = (NumpyArray(v.sym, is_number=True) if type(v) is Item else v for v in operands)
        return NumpyArray(self.sym, is_number=True)._computed(name, *values)

    def __abs__(self) -> Any:
        scalar: Any = self
        if self.var.dtype == _BOOL:
            return scalar + 0
        return scalar if scalar > 0 else 0 - scalar  # -0.0, too

    def __pos__(self) -> Any:
        scalar: Any = self
        return scalar + 0 if self.var.dtype == _BOOL else scalar

    def _bits(self, *_: Any) -> Any:
        """``n << 1``, ``n & 1``, ``~n``"""
        if self.var.dtype == _FLOAT:
            return NotImplemented
        raise self.refuse("arithmetic of bits")

    __lshift__ = __rshift__ = __and__ = __or__ = __xor__ = _bits
    __rlshift__ = __rrshift__ = __rand__ = __ror__ = __rxor__ = _bits

    def __invert__(self) -> Any:
        if self._bits() is NotImplemented:
            raise TypeError("bad operand type for unary ~: 'float'")

    def function(self, callee: Any) -> Callable[[Item], Item] | None:
        """What does the same as a function of ``math`` with such a number."""
        return _FUNCTIONS.get(callee)

    def _check_decides(self) -> None:
        """Of an integer among those of a container, of which there are many, a comparison is no branch."""
        if not self.decides or any(isinstance(p, LeafPlace) and not p.decides for p in self.places):
            raise self.refuse("a comparison")

    def select(self, holds: Any, fails: Any) -> Any:
        """``holds if self else fails`` of two floats, or two integers, as one number. None where that is a
        branch, as it may be of one among few."""
        many = not self.decides or any(isinstance(p, LeafPlace) and not p.decides for p in self.places)
        alike = type(holds) is type(fails) and type(holds) in (int, float)
        if self.var.dtype != _BOOL or not many or not alike:
            return None
        made = self.tracer.record(BY_NAME["where"], self.sym, float(holds), float(fails))
        if type(holds) is float:
            return Item(self.tracer, self.tracer.read(made), places=self.places)
        bound = max(abs(holds), abs(fails))
        if bound > _EXACT:
            return None
        made = self.tracer.record(_CAST, made, dtype=_INT)
        return Item(self.tracer, self.tracer.read(made), bound, self.places)

    def __bool__(self) -> bool:
        self._check_decides()
        return self.tracer.branches.decide(self.sym)

    def _compare(self, test: Callable, other: Any) -> Any:
        if not isinstance(other, (int, float, np.integer, np.floating, np.bool_, Scalar)):
            return bool(test(float(self), other))  # which is refused
        self._check_decides()
        mine, others = _alike(self.tracer, (self, other), exact=True)
        outcome = self.tracer.branches.decide(self.tracer.record(BY_NAME[NAMES[test]], mine, others))
        return np.bool_(outcome) if isinstance(other, np.generic) else outcome

    def in_range(self, least: float, most: float, or_infinite: bool) -> bool:
        """As of other numbers; what is known of the tensor that it is of is not looked at."""
        if self.var.dtype == _FLOAT:
            if or_infinite and self.largest <= most and -self.largest >= least:
                return True
        elif self.bound <= most and -self.bound >= least:
            return True
        if self.tracer.callees:
            raise self.refuse("what a dtype can hold, after a call that is disabled for compiling,")
        inside = self.tracer.branches.decide(self._within(least, most, or_infinite))
        if inside and or_infinite:
            self.largest = min(self.largest, most)
        if inside and self.var.dtype != _FLOAT:
            self.bound = min(self.bound, int(max(-least, most)))
        return inside

    def _within(self, least: float, most: float, or_infinite: bool) -> Any:
        if self.var.dtype == _FLOAT:
            return within(self.tracer, self.sym, least, most, or_infinite)
        number = _operand(self.tracer, self, False)
        above = self.tracer.record(BY_NAME["ge"], number, math.ceil(least))
        return self.tracer.record(BY_NAME["logical_and"], above, self.tracer.record(_LE, number, int(most)))


def item_of(sym: Any) -> Item:
    """``sym``, which has one element, as a number: float64, int64 or bool, as Python's are."""
    tracer = sym.tracer
    tracer.check_open(sym)
    if sym.dtype == np.uint64:
        raise CompileError(f"{user_source()}: item() of uint64 may be more than int64 holds: cast it first.")
    dtype = _FLOAT if is_float(sym.dtype) else _BOOL if sym.dtype == _BOOL else _INT
    flat = tracer.record(BY_NAME["reshape"], sym, shape=())
    bound = _bound(tracer, tracer.read(sym)) if dtype != _FLOAT else 0
    var = tracer.read(flat if dtype == sym.dtype else tracer.record(_CAST, flat, dtype=dtype))
    item = Item(tracer, var, bound)
    if is_float(sym.dtype):
        item.largest = largest(sym.dtype)
    return item


def _bound(tracer: Any, var: Any) -> int:
    """A bound of the magnitude of integers, from their dtype and what they were counted from."""
    factor = 1
    made_by = {out: eqn for eqn in tracer.eqns[-_NEAR:] for out in eqn.outputs}
    while var.dtype.itemsize == 8 and var in made_by:
        eqn = made_by[var]
        if eqn.op is _SUM:
            factor *= max(1, eqn.inputs[0].type.size // max(1, var.type.size))
        elif eqn.op is not _CAST and eqn.op.kind is not Kind.VIEW:
            break
        var = eqn.inputs[0]
    if is_float(var.dtype):
        return 2**63
    return factor if var.dtype == _BOOL else factor * (np.iinfo(var.dtype).max + 1)


_NEAR = 16  # equations that are looked at


def arithmetic(tracer: Any, op: Op, values: tuple) -> Item:
    """An op among numbers, at least one of which is an ``Item``: again one."""
    found = [v for v in values if isinstance(v, Item)]
    item = next((v for v in found if not v.places), found[0])
    places = tuple(p for v in found for p in v.places) if item.places else ()
    floats = any(map(_is_float, values))
    if op in (_FLOOR, _REST) and not floats and type(values[1]) is int and values[1]:
        _within(tracer, values[1], _ROOM)
        bound = _within(tracer, values[0], _ROOM) if op is _FLOOR else abs(values[1])
        made = tracer.record(op, _operand(tracer, values[0], False), values[1])
        return Item(tracer, tracer.read(made), bound, places)
    if op is _POW:
        return _power(tracer, item, values[0], values[1], places)
    if op not in _ARITHMETIC:
        raise item.refuse(f"'{op.name}' of numbers")
    if op is _MUL and not floats:
        return _product(tracer, item, values, places)
    if op is _DIV:
        operands = [_operand(tracer, v, True, exact=not floats) for v in values]
        by = operands[1]
        if by == 0.0 if isinstance(by, float) else tracer.branches.decide(tracer.record(_EQ, by, 0.0)):
            operator.truediv(*((1.0, 0.0) if floats else (1, 0)))  # raises, in the words of this Python
        return Item(tracer, tracer.read(tracer.record(op, *operands)), places=places)
    bound = 0 if floats else sum(_within(tracer, v, _ROOM) for v in values)
    operands = [_operand(tracer, v, floats) for v in values]
    return Item(tracer, tracer.read(tracer.record(op, *operands)), bound, places)


def _power(tracer: Any, item: Item, base: Any, exponent: Any, places: tuple) -> Item:
    """A positive float to the power of what changes, ``0.9 ** step``, ``0.1 ** (step / 100)``; and what
    changes to the power of a number, ``step ** -0.5``: as floats, but integers to one of at least 0."""
    if type(base) is int and _is_float(exponent) and 0 < base <= _EXACT:
        base = float(base)
    if type(base) is float and base > 0.0:
        made = tracer.record(_POW, base, _operand(tracer, exponent, True, exact=True))
    elif base is not item or type(exponent) not in (int, float) or not abs(exponent) < _MOST_EXPONENT:
        raise item.refuse("'pow' of numbers")
    elif type(exponent) is int and exponent >= 0 and not _is_float(base):
        found: Any = base if exponent else 1
        for _ in range(exponent - 1):
            found = _product(tracer, found, (found, base), places)
        return found
    else:
        number = _operand(tracer, base, True, exact=True)
        if exponent % 1 or exponent <= 0:  # Python raises, or leaves the real numbers, of others
            _expect(tracer, item, BY_NAME["gt"], number, "a power of what is not positive")
        made = _as_python_rounds(tracer, number, float(exponent))
    _expect(tracer, item, BY_NAME["isfinite"], made, "a power that overflows")
    return Item(tracer, tracer.read(made), places=places)


def _as_python_rounds(tracer: Any, number: Any, exponent: float) -> Any:
    """A power; the kernels' ``pow`` is a last bit off in one of sixty, what is one op hardly ever."""
    if exponent == 2.0:
        return tracer.record(_MUL, number, number)
    if exponent == 0.5:
        return tracer.record(BY_NAME["sqrt"], number)
    if exponent == -1.0:
        return tracer.record(_DIV, 1.0, number)
    return tracer.record(_POW, number, tracer.new(np.asarray(exponent)))


_MOST_EXPONENT = 64  # of integers, each factor of which is an equation


def _expect(tracer: Any, item: Item, op: Op, number: Any, otherwise: str) -> None:
    """Have what Python raises an error for be another recording: ``op`` is of one number, or of it and 0."""
    test = tracer.record(op, number, *[0.0] * (len(op.arrays) - 1))
    if not tracer.branches.decide(test):
        raise item.refuse(otherwise)


def _function_of(name: str) -> Callable[[Item], Item]:
    """The function of Python's ``math`` that is called so, of what changes: as float64."""
    op, test, of_result = _OF_MATH[name]

    def function(item: Item) -> Item:
        tracer = item.tracer
        number = _operand(tracer, item, True, exact=True)
        made = tracer.record(BY_NAME[op], number)
        _expect(tracer, item, BY_NAME[test], made if of_result else number, f"math.{name}() of this number")
        return Item(tracer, tracer.read(made), places=item.places)

    return function


# math's name -> (the op, what must hold, whether of the result): else Python raises an error, or may
_OF_MATH = {
    "sqrt": ("sqrt", "ge", False), "log": ("log", "gt", False), "log2": ("log2", "gt", False),
    "log10": ("log10", "gt", False), "exp": ("exp", "isfinite", True), "sin": ("sin", "isfinite", False),
    "cos": ("cos", "isfinite", False), "tanh": ("tanh", "isfinite", False),
}  # fmt: skip
_FUNCTIONS = {getattr(math, name): _function_of(name) for name in _OF_MATH}


def _product(tracer: Any, item: Item, values: tuple, places: tuple) -> Item:
    """A product of integers, of which Python's have no bound: their sizes are looked at.

    Raises CompileError where they are not known to fit.
    """
    values = tuple(_settled(v, _ROOT) for v in values)
    known = [_ROOT if is_symbolic(v) else abs(int(v)) for v in values if not isinstance(v, Item)]
    limit = _ROOM // max(1, known[0]) if known else _ROOT
    if not item.places and any(isinstance(v, Item) and v.bound > limit for v in values):
        raise item.refuse("a product of integers, which has no bound in Python,")
    if limit < _ROOT:
        raise item.refuse("a product with a large integer")
    bounds = [_within(tracer, v, limit) for v in values]
    operands = [_operand(tracer, v, False) for v in values]
    return Item(tracer, tracer.read(tracer.record(_MUL, *operands)), bounds[0] * bounds[1], places)


def _within(tracer: Any, value: Any, limit: int) -> int:
    """A bound of an integer, which is looked at where it may be more than ``limit``: Python's have no bound.

    Raises CompileError where it is more.
    """
    value = _settled(value, min(limit, _EXACT))
    if is_symbolic(value):
        return min(limit, _EXACT)
    if not isinstance(value, Item):
        if abs(value) > limit:
            raise CompileError(
                f"{user_source()}: {value} is too large for arithmetic with .item() in a compiled function: "
                "do that with what it returns."
            )
        return abs(value)
    if value.bound <= limit:
        return value.bound
    if tracer.callees:
        raise value.refuse("arithmetic of large integers after a call that is disabled for compiling")
    size = tracer.record(BY_NAME["abs"], value.sym)
    for number, test in ((limit, "le"), (0, "ge")):  # abs() of the least int64 is negative
        if not tracer.branches.decide(tracer.record(BY_NAME[test], size, number)):
            raise value.refuse(f"an integer of more than {limit}")
    value.bound = limit
    return limit


_ROOT = 2**30  # two of them multiplied are in this room
_ROOM = 2**61  # two of them added, and negated, are still int64
_EXACT = 2**53  # integers up to here are floats


def _settled(value: Any, limit: int) -> Any:
    """``value``, a size as the number that it is where it may be more than ``limit``."""
    return value if type(value) is not Dim or abs(value) <= limit else int(value)


def _alike(tracer: Any, values: tuple, exact: bool = False) -> list[Any]:
    """Numbers of one Python type: traced arrays for those that change from call to call."""
    floats = any(map(_is_float, values))
    return [_operand(tracer, v, floats, exact) for v in values]


def _is_float(value: Any) -> bool:
    if isinstance(value, Item):
        return value.var.dtype == _FLOAT
    return isinstance(value, (float, np.floating, Scalar))


def _operand(tracer: Any, value: Any, floats: bool, exact: bool = False) -> Any:
    """One operand, as a float or an int; ``exact`` where Python compares or divides integers as they are."""
    dtype = _FLOAT if floats else _INT
    if isinstance(value, Item):
        if floats and exact and value.var.dtype == _INT:
            _within(tracer, value, _EXACT)
        return value.sym if value.var.dtype == dtype else tracer.record(_CAST, value.sym, dtype=dtype)
    if isinstance(value, Scalar):
        return tracer.fresh(value.var)
    value = _settled(value, _EXACT)
    if is_symbolic(value):
        return as_float(value) if floats and type(value) is Dim else value
    if isinstance(value, (int, np.integer, np.bool_)):
        value = int(value)
        if not floats:
            _within(tracer, value, 2**63 - 1)
        elif exact and int(float(value)) != value:
            _within(tracer, value, _EXACT)
    return float(value) if floats else value
