"""A number that may change from call to call, while tracing: a float argument, a learning rate.

It is no subclass of float, because such a one would leak silently through ``math.exp`` and become a
constant. Arithmetic records float64 equations. Comparing it, or asking for its ``bool()`` or
``float()``, answers with the number of this run and guards it: a later call with another answer is
traced anew.
"""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from jtorch.core.dim import value_of
from jtorch.core.errors import NOT_THE_USERS, CompileError, Restart, Source, user_source
from jtorch.core.number_ranges import answers_first
from jtorch.core.op import BY_NAME, Op
from jtorch.ops import xp


class Digits(Restart):
    """The numbers at ``places``, on which the function counts, and the float ``arguments`` with these
    positions must be known: record it with plain ones, which are guarded."""

    def __init__(self, places: Iterable[Any] = (), arguments: Iterable[int] = ()) -> None:
        super().__init__()
        self.places, self.arguments = tuple(places), frozenset(arguments)


@dataclass(frozen=True)
class NumberTest:
    """A comparison of a number of the call that the recording rests on: ``test(number, other) is outcome``,
    or for ``copysign`` its sign. ``source`` is the line that asked."""

    test: Callable
    other: float
    outcome: bool
    source: Source = field(compare=False)


@dataclass(frozen=True)
class Formula:
    """A number that was computed from some of the call, as Python computes it anew: ``sign`` is an operator,
    and an operand a number, another formula or the ``origin`` of an input, which is a tuple. ``size`` counts
    them."""

    sign: str
    operands: tuple[Any, ...]
    size: int


@dataclass(frozen=True)
class FormulaTest:
    """A comparison that the recording rests on, where several numbers of the call or such as were computed
    meet: ``test(left, right) is outcome``. ``source`` is the line that asked."""

    left: Any
    test: Callable
    right: Any
    outcome: bool
    reads_state: bool  # numbers that the function reaches by itself
    source: Source = field(compare=False)


_MOST_OPERANDS = 32  # of a formula: one that a loop builds may name each number many times
_NEVER_RAISE = {"add": "+", "sub": "-", "mul": "*", "neg": "-", "div": "/"}  # div: by a number other than 0


def formula_of(op: Op, values: tuple) -> Formula | None:
    """That of ``op`` among numbers; None where Python might raise for some, or it is too long."""
    sign, operands = _NEVER_RAISE.get(op.name), tuple(map(_operand_of_formula, values))
    if sign is None or None in operands or (sign == "/" and not _is_nonzero(operands[1])):
        return None
    size = sum(operand.size if isinstance(operand, Formula) else 1 for operand in operands)
    return Formula(sign, operands, size) if size <= _MOST_OPERANDS else None


def _is_nonzero(operand: Any) -> bool:
    return type(operand) in (int, float) and operand != 0


def _operand_of_formula(value: Any) -> Any:
    """A number, where an input lies, or how it was computed; None of what is none of these."""
    if type(value) is Scalar:
        origin = value.origins[0]
        return origin.origin if len(value.origins) == 1 and origin.var is value.var else value.formula
    is_plain = type(value) is float or (type(value) in (int, bool) and abs(value) <= 2**53)
    return value if is_plain else None


def _exactly(number: float) -> Iterator[tuple[Callable, float, bool]]:
    """What is true of this number alone."""
    is_nan = number != number
    yield operator.eq, 0.0 if is_nan else number, not is_nan
    if is_nan or not number:  # equal to the one of the other sign, which shows in its digits
        yield math.copysign, math.copysign(1.0, number), True
    if is_nan:  # neither equal to nothing nor in any order
        yield operator.lt, 0.0, False
        yield operator.gt, 0.0, False


class StandIn:
    """What stands for a number, or for an array of NumPy's, and tells the user's code that it is one."""

    __slots__ = ()

    def refuse(self, wanted_by: str) -> BaseException:
        """What to raise where ``wanted_by`` takes nothing but what this stands for."""
        raise NotImplementedError


class Scalar(StandIn):
    """A runtime scalar: ``var`` is its 0-d float64 variable, ``value`` the number of this run, and
    ``origins`` the inputs it was computed from; ``formula`` says how, where Python can do that anew.
    ``sizes`` are the symbols among what it was computed from."""

    __slots__ = ("formula", "origins", "sizes", "tracer", "value", "var")
    as_runtime_scalar: Any = 1.0  # a number of its Python type, for promotion

    def __init__(
        self, tracer: Any, var: Any, value: float, origins: tuple, formula: Formula | None = None,
        sizes: tuple = (),
    ) -> None:  # fmt: skip
        self.tracer = tracer
        self.var = var
        self.value = value
        self.origins = origins
        self.formula = formula
        self.sizes = sizes

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What ``isinstance`` in the user's code is told: the type of the number that this stands for."""
        ours = sys._getframe(1).f_code.co_filename.startswith(NOT_THE_USERS)
        return type(self) if ours else type(self.as_runtime_scalar)

    def refuse(self, wanted_by: str) -> BaseException:
        self.tracer.check_open(self)
        arguments = [origin.argument for origin in self.origins if origin.argument is not None]
        if arguments:
            return Digits(arguments=arguments)
        return CompileError(
            f"{user_source()}: {wanted_by} needs a plain number, and this one may change from call to call: "
            "take float() of it."
        )

    def __float__(self) -> float:
        source = user_source()
        for origin in self.origins:
            origin.guards += [NumberTest(*test, source) for test in _exactly(origin.recorded)]
        for size in self.sizes:
            float(size)  # whose number counts, too
        return float(self.value)

    def __int__(self) -> int:
        return _asked(int, float(self))

    def __trunc__(self) -> int:
        return _asked(math.trunc, float(self))

    def __floor__(self) -> int:
        return _asked(math.floor, float(self))

    def __ceil__(self) -> int:
        return _asked(math.ceil, float(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(float(self), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        """NumPy's arithmetic with one of its own is that of operators; its other functions get the number of
        this run, as those of ``math`` do, and it is guarded."""
        of_pythons = all(v is self or type(v) in (int, float, bool) for v in operands)
        if method == "__call__" and ufunc in ARITHMETIC and not options and not of_pythons:
            return ARITHMETIC[ufunc](self, *operands)
        values = (float(v) if issubclass(type(v), Scalar) else v for v in operands)
        return _asked(getattr(ufunc, method), *values, **options)

    def __bool__(self) -> bool:
        return self._compare(operator.ne, 0.0)

    def _compare(self, test: Callable, other: Any) -> Any:
        if not _is_number(other):  # a Fraction, Decimal or complex number
            return bool(_asked(test, float(self), other))
        kind = np.bool_ if isinstance(other, np.generic) else bool
        is_one = len(self.origins) == 1 and self.origins[0].var is self.var
        if self._decides(other) and not (is_one and not isinstance(other, Scalar)):
            return kind(self._decide(test, other))
        if not is_one or isinstance(other, Scalar):
            joint = self._joint(test, other)
            if joint is not None:
                return kind(joint)
        other = float(other)
        outcome = kind(test(self.value, other))
        if is_one:
            self.origins[0].guards.append(NumberTest(test, other, bool(outcome), user_source()))
        else:
            float(self)  # the result of arithmetic: guard the numbers it was made of
        return outcome

    def _joint(self, test: Callable, other: Any) -> bool | None:
        """The comparison as a test of all the numbers that the two were computed from, which each call makes;
        None where that cannot be said."""
        left, right = _operand_of_formula(self), _operand_of_formula(other)
        if left is None or right is None:
            return None
        outcome = bool(test(self.value, _value(other)))
        origins = [*self.origins, *(other.origins if isinstance(other, Scalar) else ())]
        state = any(origin.argument is None for origin in origins)
        self.origins[0].guards.append(FormulaTest(left, test, right, outcome, state, user_source()))
        return outcome

    def _decides(self, other: Any) -> bool:
        """Whether comparing the two is a branch: where one of them is drawn by each call."""
        numbers = (self, other) if type(other) is Scalar else (self,)
        return any(origin.drawn for number in numbers for origin in number.origins)

    def _decide(self, test: Callable, other: Any) -> bool:
        right = self.tracer.fresh(other.var) if isinstance(other, Scalar) else float(other)
        compared = self.tracer.record(BY_NAME[NAMES[test]], self.tracer.fresh(self.var), right)
        return bool(self.tracer.branches.decide(compared))

    def in_range(self, least: float, most: float, or_infinite: bool) -> bool:
        """Whether it lies in this range, or is infinite or NaN where that counts, too; each call looks anew.
        A comparison of what was computed would guard the numbers that it was made of."""
        if len(self.origins) == 1 and self.origins[0].var is self.var:
            inside = bool(self >= least and self <= _at_most(most))
            # a guard that says it is not finite
            return inside or (or_infinite and not (self < math.inf and self > -math.inf))
        inside = least <= self.value <= most or (or_infinite and not math.isfinite(self.value))
        if not inside or all(origin.argument is None for origin in self.origins):
            return inside
        if self.tracer.callees:  # where it goes another way they cannot be run again: their numbers count
            float(self)
            return inside
        number = self.tracer.fresh(self.var)
        return bool(self.tracer.branches.decide(within(self.tracer, number, least, most, or_infinite)))

    def __eq__(self, other: object) -> bool:
        return self._compared(operator.eq, other, "__eq__")

    def __ne__(self, other: object) -> bool:
        return self._compared(operator.ne, other, "__ne__")

    def __lt__(self, other: Any) -> Any:
        return self._compared(operator.lt, other, "__gt__")

    def __le__(self, other: Any) -> Any:
        return self._compared(operator.le, other, "__ge__")

    def __gt__(self, other: Any) -> Any:
        return self._compared(operator.gt, other, "__lt__")

    def __ge__(self, other: Any) -> Any:
        return self._compared(operator.ge, other, "__le__")

    def answers(self, other: Any, method: str) -> bool:
        """Whether Python asks ``other``, on the right, before this number."""
        return answers_first(other, method, type(self.as_runtime_scalar))

    def _compared(self, test: Callable, other: Any, reflected: str) -> Any:
        if not _is_comparable(other) or self.answers(other, reflected):
            return NotImplemented
        if (
            type(self) is Scalar and isinstance(other, Scalar) and type(other) is not Scalar
        ):  # an Item knows how
            return NotImplemented
        return self._compare(test, other)

    def __abs__(self) -> Any:
        scalar: Any = self
        return scalar if scalar > 0.0 else 0.0 - scalar  # -0.0, too

    def __pos__(self) -> Any:
        return self

    def __divmod__(self, other: Any) -> Any:
        if not _is_comparable(other) or self.answers(other, "__rdivmod__"):
            return NotImplemented
        return _divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return _divmod(other, self) if _is_comparable(other) else NotImplemented

    @property
    def real(self) -> Any:
        return +self

    @property
    def imag(self) -> Any:
        return type(+self.as_runtime_scalar)(0)

    def conjugate(self) -> Any:
        return +self

    def __getattr__(self, name: str) -> Any:
        """What else numbers have (``is_integer()``) is asked of the number itself."""
        kind = type(self.as_runtime_scalar)
        if name.startswith("__") or not hasattr(kind, name):
            raise AttributeError(f"'{kind.__name__}' object has no attribute '{name}'")
        return getattr(kind(self), name)

    def __round__(self, digits: int | None = None) -> Any:
        return _asked(round, float(self), digits)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self.refuse("pickle")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def hex(self) -> str:
        return float(self).hex()

    def __format__(self, spec: str) -> str:
        return _asked(format, float(self), spec)

    def __str__(self) -> str:
        return str(float(self))

    def __repr__(self) -> str:
        return repr(float(self))

    def __hash__(self) -> int:
        return hash(float(self))


NAMES = {  # of the ops that compare
    operator.eq: "eq", operator.ne: "ne", operator.lt: "lt", operator.le: "le", operator.gt: "gt",
    operator.ge: "ge",
}  # fmt: skip


def within(tracer: Any, number: Any, least: float, most: float, or_infinite: bool) -> Any:
    """Whether a traced float lies in this range, or is infinite or NaN, as a traced bool."""
    above = tracer.record(BY_NAME["ge"], number, float(least))
    below = tracer.record(BY_NAME["le"], number, _at_most(most))
    inside = tracer.record(BY_NAME["logical_and"], above, below)
    if not or_infinite:
        return inside
    unlimited = tracer.record(BY_NAME["logical_not"], tracer.record(BY_NAME["isfinite"], number))
    return tracer.record(BY_NAME["logical_or"], inside, unlimited)


def _at_most(limit: float) -> float:
    """The largest float that is not more than ``limit``: the one nearest to 2**63 - 1 is 2**63."""
    nearest = float(limit)
    return nearest if nearest <= limit else math.nextafter(nearest, 0.0)


def _asked(function: Callable, *values: Any, **options: Any) -> Any:
    """What Python answers about a number, which is no fault of ours where it has none: ``int(nan)``."""
    try:
        return function(*values, **options)
    except (OverflowError, TypeError, ValueError) as error:
        raise error.with_traceback(None) from None


def _divmod(left: Any, right: Any) -> Any:
    try:
        return left // right, left % right
    except ZeroDivisionError:
        pass
    return divmod(1.0, 0.0)  # raises, in the words that Python has for this


_SYMBOLS = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "truediv",
    np.floor_divide: "floordiv", np.remainder: "mod", np.power: "pow", np.negative: "neg",
}  # fmt: skip


def _by_operator(symbol: str) -> Callable:
    def called(stand_in: Any, left: Any, *right: Any) -> Any:
        """One of the operands is ``stand_in``, whose class knows what the operator means."""
        if left is stand_in:
            return getattr(stand_in, f"__{symbol}__")(*right)
        return getattr(stand_in, f"__r{symbol}__")(left)

    return called


ARITHMETIC: dict[np.ufunc, Callable] = {f: _by_operator(symbol) for f, symbol in _SYMBOLS.items()}


def _is_number(value: object) -> bool:
    if isinstance(value, np.timedelta64):  # an integer by its class
        return False
    return isinstance(value, _REAL) or hasattr(value, "as_runtime_scalar")


def _is_comparable(value: object) -> bool:
    if issubclass(type(value), StandIn) and not issubclass(type(value), Scalar):
        return False  # an array's number, which knows how
    return _is_number(value) or (isinstance(value, numbers.Number) and not isinstance(value, np.generic))


_REAL = (int, float, np.integer, np.floating, np.bool_)


def operand_of(scalar: Scalar, value: Any) -> Any:
    """The other operand of arithmetic with ``scalar``, none of NumPy's; NotImplemented for what is no
    number."""
    if isinstance(value, (complex, Decimal, timedelta)):
        raise scalar.refuse(f"arithmetic with a {type(value).__name__}")
    number = isinstance(value, (int, float, Scalar)) or hasattr(value, "dtype")
    return value if number else NotImplemented


_PYTHONS = {
    "div": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
    "pow": operator.pow,
}  # fmt: skip
_DIVIDING = ("div", "floor_divide", "remainder")


def computed(op: Op, values: tuple) -> Any:
    """What Python computes of the numbers of this run, or raises."""
    try:
        return _PYTHONS.get(op.name, partial(op.body, xp))(*map(_value, values))
    except (ArithmeticError, ValueError):
        _hold(values)
        raise


def with_pythons_sign(tracer: Any, rest: Any, divisor: Any) -> Any:
    """The remainder ``rest`` of two numbers: Python gives a zero the sign of the divisor, PyTorch and C that
    of what is divided."""
    divisor = tracer.fresh(divisor.var) if isinstance(divisor, Scalar) else float(divisor)
    signed = tracer.record(BY_NAME["copysign"], rest, divisor)
    return tracer.record(BY_NAME["where"], tracer.record(BY_NAME["eq"], rest, 0.0), signed, rest)


def check_arithmetic(name: str, left: Any, right: Any) -> complex | None:
    """Where Python raises, or leaves the real numbers, a recording must not go on: arguments are guarded
    against it, results of arithmetic looked at once (a guard would hold the numbers they were made of).
    A root of a negative number is given as it is, and the numbers it was made of are guarded.

    Raises ZeroDivisionError as Python does.
    """
    operands = left, right
    left, right = map(_comparable, operands)
    if name in _DIVIDING and right == 0:
        _hold(operands)
        _PYTHONS[name](1.0, 0.0)  # raises, in the words of this Python
    if name == "pow" and not (isinstance(right, int) and right >= 0):
        if left == 0.0 and -math.inf < right < 0.0:
            _hold(operands)
            operator.pow(0.0, -1.0)
        if -math.inf < left < 0.0 and math.isfinite(_value(right)) and _value(right) % 1.0 != 0.0:
            return operator.pow(*map(float, operands))
    return None


def _hold(operands: tuple) -> None:
    """Guard the numbers that these were made of: an error is about to come of them, which the function may
    catch."""
    for operand in operands:
        if isinstance(operand, Scalar):
            float(operand)


def expect_real(tracer: Any, name: str, operands: tuple, result: Scalar) -> None:
    """Have a later call looked at anew where Python would raise for what it computes. Where a branch cannot
    do that, the numbers count that it was computed from."""
    divides = name in _DIVIDING and isinstance(operands[1], Scalar)
    if not (divides and operands[1].origins[0].var is not operands[1].var) and name != "pow":
        return
    if tracer.callees or not math.isfinite(result.value):
        float(result)
    elif divides:
        tracer.branches.decide(tracer.record(BY_NAME["ne"], tracer.fresh(operands[1].var), 0.0))
    else:
        tracer.branches.decide(tracer.record(BY_NAME["isfinite"], tracer.fresh(result.var)))


def _comparable(operand: Any) -> Any:
    derived = isinstance(operand, Scalar) and operand.origins[0].var is not operand.var
    return operand.value if derived else operand


def _value(operand: Any) -> float:
    return operand.value if isinstance(operand, Scalar) else value_of(operand)
