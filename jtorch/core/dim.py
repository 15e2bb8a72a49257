"""Sizes that are symbols: integers that carry an expression, while a function is recorded and planned.

A ``Dim`` is a polynomial of *atoms* (symbols, and quotients, minima and maxima, which are opaque) as a
dictionary from monomials to coefficients, and has a value for this run. It is no computer algebra: two are
equal if their dictionaries are. Arithmetic is exact. What is asked of one (``n > 64``) is answered by the
bounds of its atoms where these decide, else by this run's value, and is *noted as a guard*: where it has
another answer, it is another program. What needs the number itself (``int()``, an index into Python's data, a
hash, a text) guards its value, so nothing that C code reads goes unnoticed; for that reason it is no subclass
of int.

    >>> env = Environment()
    >>> n = symbol(env, "n", 30)
    >>> ((n + 1) * n - n * n).text, ((2 * n + 4) // 2).text
    ('n', '(n + 2)')
    >>> n >= 2, n > 64, env.tests
    (True, False, ['not (n - 64) > 0'])

The plan of a recording asks, too. There (``planning``) an equality that cannot be proved is False, and noted
as one: so sizes at which a plan for those very sizes would be another one have their own.
Source: jax/_src/export/shape_poly.py, tinygrad/uop/ops.py (sint)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from numbers import Number
from typing import Any

import numpy as np

from jtorch.core.environment import LEAST, NAMES, Environment, Exact, is_computed
from jtorch.core.number_ranges import answers_first
from jtorch.core.polynomial import (
    TESTS,
    Atom,
    Bound,
    Terms,
    added,
    bounds,
    decided,
    divided,
    is_constant,
    multiplied,
    quotient_bounds,
    value,
    without_common,
    written,
)

_NUMBERS = (int, float, complex, Number, np.generic, np.ndarray)
_TAME_POWER = 16  # of an integer of 64 bits, which is a float
_LARGEST_POWER = 8  # of a size that is written as a product


def _is_number(value: Any) -> bool:
    return is_symbolic(value) or isinstance(value, _NUMBERS)


def _is_brought(other: Any) -> bool:
    """Whether it stands for a number of the call, which knows what to do with sizes."""
    return hasattr(type(other), "as_runtime_scalar")


def _with_other(f: Callable, n: Any, other: Any, swap: bool = False) -> Any:
    """f(n, other), or the other way round where ``swap``: a float stays an expression; of other numbers it is
    one, of what is none, or one that each call brings, that has to say what it is."""
    if _is_brought(other):
        return NotImplemented
    if type(other) in (float, DimFloat) or (f is operator.truediv and _terms_of(other) is not None):
        return _float(n)._with(other, f, swap)
    if type(other) is int and f is operator.pow and not swap and other < 0:
        return _float(n)._with(other, f)
    if isinstance(other, _NUMBERS):
        return f(other, int(n)) if swap else f(int(n), other)
    return NotImplemented


def _make(env: Environment, terms: Terms) -> Any:
    """A number where no atom is in ``terms``."""
    return terms.get((), 0) if is_constant(terms) else Dim(env, terms)


def _terms_of(number: Any) -> Terms | None:
    if type(number) is Dim:
        return number.terms
    return ({(): int(number)} if number else {}) if type(number) in (int, bool) else None


def symbol(env: Environment, name: str, number: int, low: int = LEAST, high: Bound = None) -> Dim:
    """A new symbol, which is ``number`` in this run, and from ``low`` to ``high`` in all."""
    env.symbols.append(name)
    env.limits.append(f"{low} <= {name}" if high is None else f"{low} <= {name} <= {high}")
    return Dim(env, {(env.atom(Atom(name, number, low, high)),): 1})


def symbols_in(numbers: Iterable[Any]) -> tuple[Dim, ...]:
    """The symbols that these sizes are made of, each once, by their names."""
    found: dict[str, Dim] = {}
    for n in numbers:
        for name in NAMES.findall(n.text) if type(n) in (Dim, DimFloat) else ():
            if name in n.env.symbols and name not in found:
                found[name] = Dim(n.env, {(n.env.number_of(name),): 1})
    return tuple(found[name] for name in sorted(found))


class Dim:
    """A size that is an expression: see the top of this file."""

    __slots__ = ("_terms", "_text", "_value", "_version", "env")
    __array_ufunc__ = None  # NumPy leaves operators to it

    def __init__(self, env: Environment, terms: Terms) -> None:
        self.env, self._terms, self._version = env, terms, env.version
        self._value: int | None = None
        self._text: str | None = None

    @property
    def terms(self) -> Terms:
        """Its polynomial, of atoms that are not solved."""
        if self._version != self.env.version:
            self._terms, self._text, self._value = self.env.current(self._terms), None, None
            self._version = self.env.version
        return self._terms

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return int

    @property
    def value(self) -> int:
        """That of this run, which is noted nowhere."""
        terms = self.terms
        if self._value is None:
            self._value = value(terms, self.env.atoms)
        return self._value

    @property
    def text(self) -> str:
        """Python for it, by the names of the symbols."""
        terms = self.terms
        if self._text is None:
            self._text = written(terms, self.env.atoms)
        return self._text

    # -- arithmetic

    def __add__(self, other: Any) -> Any:
        more = _terms_of(other)
        if more is None:
            return _with_other(operator.add, self, other)
        return _make(self.env, added(self.terms, more))

    def __radd__(self, other: Any) -> Any:
        return self + other if _terms_of(other) is not None else _with_other(operator.add, self, other, True)

    def __neg__(self) -> Any:
        return _make(self.env, {term: -c for term, c in self.terms.items()})

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __sub__(self, other: Any) -> Any:
        more = _terms_of(other)
        if more is None:
            return _with_other(operator.sub, self, other)
        return _make(self.env, added(self.terms, more, -1))

    def __rsub__(self, other: Any) -> Any:
        return -self + other if _terms_of(other) is not None else _with_other(operator.sub, self, other, True)

    def __mul__(self, other: Any) -> Any:
        more = _terms_of(other)
        if more is None:
            return _with_other(operator.mul, self, other)
        return _make(self.env, multiplied(self.terms, more))

    def __rmul__(self, other: Any) -> Any:
        return self * other if _terms_of(other) is not None else _with_other(operator.mul, self, other, True)

    def __floordiv__(self, other: Any) -> Any:
        more = _terms_of(other)
        if more is None:
            return _with_other(operator.floordiv, self, other)
        return _quotient(self.env, self.terms, more)

    def __rfloordiv__(self, other: Any) -> Any:
        more = _terms_of(other)
        if more is None:
            return _with_other(operator.floordiv, self, other, True)
        return _quotient(self.env, more, self.terms)

    def __mod__(self, other: Any) -> Any:
        if _terms_of(other) is None:
            return _with_other(operator.mod, self, other)
        return self - (self // other) * other

    def __rmod__(self, other: Any) -> Any:
        if _terms_of(other) is None:
            return _with_other(operator.mod, self, other, True)
        return other - (other // self) * self

    def __divmod__(self, other: Any) -> Any:
        if not _is_number(other) or answers_first(other, "__rdivmod__", int):
            return NotImplemented
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if _is_number(other) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        return _with_other(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _with_other(operator.truediv, self, other, True)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return pow(int(self), other, modulus)
        if type(other) is int and 0 <= other < _LARGEST_POWER:
            return math.prod([self] * other)
        return _with_other(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _with_other(operator.pow, self, other, True)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(int(self), dtype)

    # -- questions

    def _compare(self, other: Any, sign: str) -> Any:
        if _is_brought(other):
            return NotImplemented
        if type(other) is float:
            if math.isnan(other) or math.isinf(other):
                return TESTS[sign](0.0, other)
            if not other.is_integer():
                if sign in ("==", "!="):
                    return sign == "!="
                other = math.ceil(other) if sign in ("<", ">=") else math.floor(other)
            other = int(other)
        if type(other) is Dim and other.env is not self.env:  # kept from another recording
            return TESTS[sign](id(self), id(other))
        more = _terms_of(other)
        if more is None:
            return TESTS[sign](int(self), other) if isinstance(other, _NUMBERS) else NotImplemented
        zero = _make(self.env, added(self.terms, more, -1))
        return TESTS[sign](zero, 0) if type(zero) is int else zero._against_zero(sign)

    def _against_zero(self, sign: str) -> bool:
        env = self.env
        terms = without_common(self.terms, env.atoms)
        known = decided(sign, *bounds(terms, env.atoms))
        if known is not None:
            return known
        answer = bool(TESTS[sign](self.value, 0))
        if sign not in ("==", "!="):
            return env.decide(f"{self.text} {sign} 0", answer)
        is_equal = answer == (sign == "==")
        if env.planning and is_equal:  # these very sizes hide what is so in general
            symbols = env.symbols_in(self.text)
            raise Exact("sizes that are no function of each other are equal by chance", symbols)
        first = min(term for term in terms if term)
        one_sign = terms if terms[first] > 0 else {term: -c for term, c in terms.items()}
        env.decide(f"{written(one_sign, env.atoms)} == 0", is_equal)
        if is_equal:
            env.solve(terms)
        return answer

    def __eq__(self, other: object) -> Any:
        return self._compare(other, "==")

    def __ne__(self, other: object) -> Any:
        return self._compare(other, "!=")

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "<")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "<=")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, ">")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, ">=")

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __hash__(self) -> int:
        if self.env.planning:  # a dictionary of the planner's, which compares after that
            terms = self.terms
            if is_constant(terms):  # solved: it is equal to that number
                return hash(terms.get((), 0))
            return hash(frozenset(terms.items()))
        return hash(self.env.exact(self))

    def __index__(self) -> int:
        return self.env.exact(self)

    __int__ = __trunc__ = __index__

    def __float__(self) -> float:
        return float(self.env.exact(self))

    def __complex__(self) -> complex:
        return complex(self.env.exact(self))

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None else round(int(self), digits)

    __ceil__ = __floor__ = __pos__

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return int, (self.env.exact(self),)

    def __repr__(self) -> str:
        return self.text if self.env.planning or self.env.closed else repr(self.env.exact(self))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return self.text if self.env.planning else format(self.env.exact(self), spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute '{name}'")
        return getattr(int(self), name)


def _of_bits(f: Callable, n: Dim, other: Any) -> Any:
    """f(n, other) for what moves bits; a power of two multiplies and divides."""
    if type(other) is int and 0 <= other < 62:
        if f is operator.lshift:
            return n * 2**other
        if f is operator.rshift:
            return n // 2**other
        if f is operator.and_ and not other & (other + 1):
            return n % (other + 1)
    return f(int(n), other)


# -- quotients, minima, maxima


def _quotient(env: Environment, a: Terms, b: Terms) -> Any:
    """a // b"""
    divisor = _make(env, b)
    if divisor == 0:  # which is noted
        raise ZeroDivisionError("integer division or modulo by zero")
    if len(b) == 1:
        ((by, d),) = b.items()
        whole, rest = divided(a, by, d)
        if not rest:
            return _make(env, whole)
        if not by and d > 0:  # (d q + r) // d = q + r // d
            return _make(env, whole) + _opaque_quotient(env, rest, b)
    elif a.keys() == b.keys():
        ratios = {(c // b[term], c % b[term]) for term, c in a.items()}
        if len(ratios) == 1 and next(iter(ratios))[1] == 0:
            return next(iter(ratios))[0]
    return _opaque_quotient(env, a, b)


def _opaque_quotient(env: Environment, a: Terms, b: Terms) -> Any:
    if is_constant(a) and is_constant(b):
        return a.get((), 0) // b[()]
    x, y = (_make(env, terms) for terms in (a, b))
    low, high = quotient_bounds(bounds(a, env.atoms), bounds(b, env.atoms))
    atom = Atom(f"({_text(x)} // {_text(y)})", value_of(x) // value_of(y), low, high)
    return Dim(env, {(env.atom(atom),): 1})


def least(a: Any, b: Any) -> Any:
    """min(a, b) of sizes, as an expression."""
    return _extreme("min", min, a, b)


def most(a: Any, b: Any) -> Any:
    """max(a, b) of sizes, as an expression."""
    return _extreme("max", max, a, b)


def _extreme(name: str, f: Callable, a: Any, b: Any) -> Any:
    if type(a) is not Dim and type(b) is not Dim:
        return f(a, b)
    env = a.env if type(a) is Dim else b.env
    x, y = (_terms_of(v) or {} for v in (a, b))
    apart = added(x, y, -1)
    limits = bounds(without_common(apart, env.atoms), env.atoms) if apart else (0, 0)
    first_is_less = decided("<=", *limits)
    if first_is_less is not None:
        return a if first_is_less == (name == "min") else b
    lows, highs = zip(*(bounds(terms, env.atoms) for terms in (x, y)), strict=True)
    low = None if None in lows else f(lows)
    high = None if None in highs else f(highs)
    atom = Atom(f"{name}({_text(a)}, {_text(b)})", f(value_of(a), value_of(b)), low, high)
    return Dim(env, {(env.atom(atom),): 1})


def as_float(n: Dim) -> DimFloat:
    """``float(n)``, asked by the library, which goes on with what it gets."""
    return DimFloat(n.env, f"float({n.text})", float(n.value), bounds(n.terms, n.env.atoms))


def _float(n: Dim) -> Any:
    """``n`` in the text of a float: an int there, of which Python makes one where it does."""
    return DimFloat(n.env, n.text, n.value, bounds(n.terms, n.env.atoms))


class DimFloat:
    """A float made of sizes, as Python: computed as Python would, so it has the same bits."""

    __slots__ = ("bounds", "env", "text", "value")
    __array_ufunc__ = None

    def __init__(
        self, env: Environment, text: str, value: float, bounds: tuple[Bound, Bound] = (None, None)
    ) -> None:
        self.env, self.text, self.value, self.bounds = env, text, value, bounds

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return float

    def _with(self, other: Any, f: Callable, swap: bool = False) -> Any:
        if type(other) not in (int, bool, float, Dim, DimFloat):
            if isinstance(other, _NUMBERS) and not _is_brought(other):
                return f(other, float(self)) if swap else f(float(self), other)
            return NotImplemented
        x, y = (other, self) if swap else (self, other)
        text = f"({_text(x)} {_SIGNS[f]} {_text(y)})"
        if not _is_tame(f, x, y):
            _note_whether_computed(self.env, text, f, value_of(x), value_of(y))
        return DimFloat(self.env, text, f(value_of(x), value_of(y)))

    def __neg__(self) -> Any:
        return DimFloat(self.env, f"(-{self.text})", -self.value)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return called(self, abs)

    def _compare(self, other: Any, sign: str) -> Any:
        if type(other) not in (int, bool, float, Dim, DimFloat):
            is_known = isinstance(other, _NUMBERS) and not _is_brought(other)
            return TESTS[sign](float(self), other) if is_known else NotImplemented
        if self.env.planning and sign in ("==", "!="):
            return (self.text == _text(other)) == (sign == "==")
        return self.env.decide(
            f"({self.text} {sign} {_text(other)})", TESTS[sign](self.value, value_of(other))
        )

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __float__(self) -> float:
        self.env.decide(f"same({self.text}, {self.value!r})", True, pins=True)
        return float(self.value)

    def __int__(self) -> int:
        self.env.decide(f"(int({self.text}) == {int(self.value)})", True, pins=True)
        return int(self.value)

    __trunc__ = __int__

    def __round__(self, digits: Any = None) -> Any:
        return round(float(self), digits)

    def __hash__(self) -> int:
        return hash(self.text) if self.env.planning else hash(float(self))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return float, (float(self),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(float(self), dtype)

    def __repr__(self) -> str:
        return self.text if self.env.planning or self.env.closed else repr(float(self))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return self.text if self.env.planning else format(float(self), spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(float, name):
            raise AttributeError(f"'float' object has no attribute '{name}'")
        return getattr(float(self), name)


def function_text(env: Environment, f: Callable, args: Iterable[Any]) -> str:
    """Python for f(*args)."""
    return f"{env.function(f)}({', '.join(map(_text, args))})"


def called(number: Dim | DimFloat, f: Callable[[Any], float]) -> DimFloat:
    """f(number)"""
    return DimFloat(number.env, f"{number.env.function(f)}({number.text})", f(number.value))


def whole(number: DimFloat, f: Callable[[Any], int], low: Bound, high: Bound) -> Any:
    """f(number), an integer from ``low`` to ``high``"""
    atom = Atom(f"{number.env.function(f)}({number.text})", f(number.value), low, high)
    return Dim(number.env, {(number.env.atom(atom),): 1})


def _is_tame(f: Callable, x: Any, y: Any) -> bool:
    """Whether f(x, y) is a float at all sizes: no division by 0, no power that is too large, or complex."""
    if f in _DIVIDING:
        low, high = _bounds_of(y)
        return (low is not None and low > 0) or (high is not None and high < 0)
    if f is not operator.pow:
        return True
    (base, _), (low, _) = _bounds_of(x), _bounds_of(y)
    if is_symbolic(x):  # an integer of 64 bits
        return base is not None and base >= 1 and not is_symbolic(y) and abs(y) <= _TAME_POWER
    return 0 < x <= 1 and low is not None and low >= 0


def _bounds_of(number: Any) -> tuple[Any, Any]:
    return number.bounds if type(number) is DimFloat else (number, number)


def _note_whether_computed(env: Environment, text: str, f: Callable, x: Any, y: Any) -> None:
    """Note whether f(x, y) raises, or is complex: where it does not do as now, it is another program."""
    computed = is_computed(lambda: f(x, y))
    env.decide(f"is_computed(lambda: {text})", computed)
    if not computed and type(f(x, y)) is complex:
        raise Exact("it computes with a power that is complex")


_DIVIDING = (operator.truediv, operator.floordiv, operator.mod)
_SIGNS: dict[Callable, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**",
}  # fmt: skip


def _install() -> None:
    """The operators that are one like another."""
    for name in ("and", "or", "xor", "lshift", "rshift"):
        f = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        setattr(Dim, f"__{name}__", lambda self, other, f=f: _of_bits(f, self, other))
        setattr(Dim, f"__r{name}__", lambda self, other, f=f: f(other, int(self)))
    setattr(Dim, "__invert__", lambda self: ~int(self))  # noqa: B010
    for f in _SIGNS:
        name = f.__name__
        setattr(DimFloat, f"__{name}__", lambda self, other, f=f: self._with(other, f))
        setattr(DimFloat, f"__r{name}__", lambda self, other, f=f: self._with(other, f, True))
    for name, sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
        setattr(DimFloat, f"__{name}__", lambda self, other, s=sign: self._compare(other, s))


_install()


def is_symbolic(value: Any) -> bool:
    """Whether a number is one for this run only."""
    return type(value) is Dim or type(value) is DimFloat


def value_of(value: Any) -> Any:
    """The number that ``value`` is in this run. Whoever decides by it decides for all sizes, unseen: what is
    about speed alone, and changes no bit."""
    return value.value if is_symbolic(value) else value


def _text(value: Any) -> str:
    """Python for a number, that can stand beside any operator."""
    text = value.text if is_symbolic(value) else repr(value)
    return f"({text})" if text.startswith("-") else text
