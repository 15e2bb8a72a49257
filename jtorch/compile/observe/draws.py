"""Draws of Python's and NumPy's random generators: ``random.random()``, ``numpy.random.beta(a, a)``.

A recording would keep what they give. So each call of a plan draws, in the program's order, before its
kernels run, and what it has drawn comes in as arguments do that nobody passes: see ``record/drawn.py``. Where
the plan turns out to be none for the call, the generators are put back.

That is for draws whose arguments are known by then: constants, and containers from outside, of which each
call takes what is in there.
"""

from __future__ import annotations

import ctypes
import functools
import random
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jtorch.compile.observe.cached import is_kept
from jtorch.compile.observe.frames import NULL
from jtorch.compile.observe.guards import MISSING
from jtorch.compile.observe.late_texts import receiver
from jtorch.compile.observe.reading import source_of
from jtorch.compile.observe.stand_ins import check_numbers, is_stand_in
from jtorch.compile.observe.stepping import Stop
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import Restart, Source

_OF_PYTHON = frozenset({
    "random", "uniform", "randint", "randrange", "getrandbits", "gauss", "normalvariate", "lognormvariate",
    "expovariate", "betavariate", "gammavariate", "triangular", "vonmisesvariate", "paretovariate",
    "weibullvariate", "binomialvariate", "choice", "choices", "sample",
})  # fmt: skip
_OF_RANGES = (random.Random.sample, random.Random.choice, random.Random.choices)  # which take a range
# How many of the first arguments say how far to draw, not how much
_BOUNDS = {"randint": 2, "integers": 2, "randrange": 3, "choice": 1}
_NO_DRAWS = frozenset({
    "seed", "get_state", "set_state", "bit_generator", "spawn", "shuffle", "bytes", "random_integers",
})  # fmt: skip


def _of_numpy(cls: type) -> frozenset[str]:
    return frozenset(name for name in vars(cls) if not name.startswith("_")) - _NO_DRAWS


_SHUFFLING = (np.random.RandomState, np.random.Generator)  # of arrays, in place
_METHODS: dict[type, frozenset[str]] = {
    random.Random: _OF_PYTHON,
    np.random.RandomState: _of_numpy(np.random.RandomState),
    np.random.Generator: _of_numpy(np.random.Generator),
}
OF_MODULES = (random.random.__self__, np.random.rand.__self__)  # type: ignore[attr-defined]
_CONSTANTS = (bool, int, float, str, type(None), range, np.dtype)
_CONTAINERS = (list, tuple, deque)


class Shuffling(Restart):
    """The function shuffles an array that it has made: record it with what stands for such an array."""


@dataclass(frozen=True)
class Brought:
    """What each call brings: the ``argument`` with that position, or an integer at a ``place``, which was
    ``recorded`` when something that stands for it was there."""

    argument: int | None
    place: Any
    recorded: Any = field(default=None, compare=False)

    def value(self, given: Mapping[int, Any] | Sequence[Any], now: bool = True) -> Any:
        """What it is for the call with these arguments, ``now`` or while it was recorded."""
        if self.argument is not None:
            return given[self.argument]
        return self.place.get() if now else self.recorded

    @property
    def arguments(self) -> list[int]:
        """The positions of arguments that it asks for."""
        return [] if self.argument is None else [self.argument]

    @property
    def identity(self) -> Any:
        return self.place.identity


@dataclass(frozen=True)
class BroughtSize:
    """A size, as the Python ``text`` says it of symbols; of each of ``symbols`` its name, the position of an
    argument and the axis whose size it is. ``functions`` are what else the text names."""

    text: str
    symbols: tuple[tuple[str, int, int], ...]
    functions: Mapping[str, Any] = field(compare=False, repr=False)

    def value(self, given: Mapping[int, Any] | Sequence[Any], now: bool = True) -> Any:
        """What it is for the call with these arguments."""
        sizes = {name: _size(given[argument], axis) for name, argument, axis in self.symbols}
        return eval(_code(self.text), {**self.functions, **sizes})

    @property
    def arguments(self) -> list[int]:
        """The positions of arguments that it asks for."""
        return [argument for _, argument, _ in self.symbols]

    @property
    def identity(self) -> Any:
        return "size", self.text, self.symbols


@dataclass(frozen=True)
class Reckoned:
    """What each call makes of such, before it draws: ``function(*operands)``, integers among them, by an
    operator of integers that raises nothing or ``range``. ``number`` stands for one of them."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    number: Any = field(default=None, compare=False, repr=False)

    def value(self, given: Mapping[int, Any] | Sequence[Any], now: bool = True) -> Any:
        """What it is for the call with these arguments, ``now`` or while it was recorded."""
        return self.function(*(_value_of(operand, given, now) for operand in self.operands))

    @property
    def arguments(self) -> list[int]:
        """The positions of arguments that it asks for."""
        return [k for operand in self.operands if type(operand) in _EACH_CALL for k in operand.arguments]

    @property
    def identity(self) -> Any:
        return self.function.__name__, *map(_identity, self.operands)


def _size(leaf: Any, axis: int) -> Any:
    return leaf if leaf.__class__ is int else leaf.shape[axis]


@functools.lru_cache(maxsize=256)
def _code(text: str) -> types.CodeType:
    return compile(text, "<jtorch size>", "eval")


_EACH_CALL = (Brought, BroughtSize, Reckoned)


def _value_of(value: Any, given: Mapping[int, Any] | Sequence[Any], now: bool) -> Any:
    return value.value(given, now) if type(value) in _EACH_CALL else value


@dataclass(frozen=True)
class Draw:
    """``call(*args, **named)``, which the user's line ``source`` does: the method ``name`` of a generator."""

    generator: Any
    call: Callable[..., Any]
    name: str
    args: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]
    source: Source | None

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for draws that give the same from equal states."""
        names = tuple(name for name, _ in self.named)
        return "draw", id(self.generator), self.name, tuple(map(_identity, self.values())), names

    def values(self) -> list[Any]:
        """The arguments, those by name at last."""
        return [*self.args, *(value for _, value in self.named)]

    @property
    def is_live(self) -> bool:
        """Whether it takes something out of a list or deque from outside."""
        return any(type(value) in (list, deque) for value in self.values())

    def label(self) -> str:
        """How messages name it."""
        owner = "random" if type(self.generator) is random.Random else "numpy.random"
        return f"{owner}.{self.name}()"

    @property
    def brought(self) -> list[int]:
        """The positions of arguments that it asks for."""
        return [k for value in self.values() if type(value) in _EACH_CALL for k in value.arguments]

    def find(self, given: Mapping[int, Any] | Sequence[Any] = (), now: bool = True) -> Any:
        """What it gives for the call with these arguments, ``now`` or while that is recorded; MISSING where
        it raises."""
        try:
            args = [_value_of(value, given, now) for value in self.args]
            return self.call(*args, **{k: _value_of(value, given, now) for k, value in self.named})
        except Exception:  # which eager mode raises in its place
            return MISSING


def _identity(value: Any) -> Any:
    if type(value) in (list, deque):
        return id(value)
    if type(value) is tuple:
        return tuple(map(_identity, value))
    if type(value) in _EACH_CALL:
        return value.identity
    if type(value) is np.ndarray:
        return value.dtype.str, value.shape, value.tobytes()
    return type(value), value if isinstance(value, type) else repr(value)


_UNIFORM = frozenset({
    "rand", "random", "random_sample", "sample", "ranf", "randint", "uniform", "permutation", "choice",
    "shuffle",
})  # fmt: skip


class Twister:
    """The memory of the state of one of NumPy's old generators: a copy takes a hundredth of the time that
    its ``get_state`` does. The normal number that it keeps for later is not in there."""

    def __init__(self, generator: np.random.RandomState) -> None:
        self.generator, self.bits = generator, generator._bit_generator  # type: ignore[attr-defined]
        memory: Any = (ctypes.c_uint32 * 625).from_address(self.bits.ctypes.state_address)
        self.words = np.frombuffer(memory, np.uint32)

    @classmethod
    def of(cls, generator: Any, names: Iterable[str]) -> Twister | None:
        """Where draws by methods of these ``names`` change nothing else of ``generator``."""
        bits = getattr(generator, "_bit_generator", None)
        if type(generator) is not np.random.RandomState or type(bits) is not np.random.MT19937:
            return None
        if not _UNIFORM.issuperset(names):
            return None
        made, state = cls(generator), bits.state["state"]
        is_known = (made.words[:624] == state["key"]).all() and made.words[624] == state["pos"]
        return made if is_known else None

    @property
    def is_current(self) -> bool:
        """Whether the generator has that memory still: ``set_bit_generator`` gives it another."""
        return self.generator._bit_generator is self.bits  # type: ignore[attr-defined]

    def put(self, words: np.ndarray) -> None:
        self.words[:] = words


class Positions:
    """The states of generators, to put them back."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[Callable[[Any], None], Any]] = {}

    def keep(self, generator: Any) -> None:
        """Note where it is, once."""
        if isinstance(generator, random.Random):
            if id(generator) not in self._before:
                self._before[id(generator)] = generator.setstate, generator.getstate()
            return
        is_old = isinstance(generator, np.random.RandomState)
        owner = generator if is_old else generator.bit_generator
        if id(owner) in self._before:
            return
        if is_old:
            self._before[id(owner)] = owner.set_state, owner.get_state(legacy=False)
        else:
            self._before[id(owner)] = lambda state: setattr(owner, "state", state), owner.state

    def keep_words(self, twister: Twister) -> None:
        """The same by the memory of its state."""
        if id(twister.generator) not in self._before:
            self._before[id(twister.generator)] = twister.put, twister.words.copy()

    def put_back(self) -> None:
        """The last one first: two may share a state."""
        for put, state in reversed(self._before.values()):
            put(state)


def see_draw(stop: Stop, callee: Any, args: list[Any], names: tuple[str, ...]) -> bool:
    """``callee(*args)`` is about to be called, the last of ``args`` by ``names``: whether it is a draw that
    each call makes."""
    is_drawn = _see_draw(stop, callee, args, names)
    for value in () if is_drawn else args:
        if type(value) is Reckoned:  # a range, which is one of numbers then, recorded for each
            check_numbers([value.number], "range()")
    return is_drawn


def _see_draw(stop: Stop, callee: Any, args: list[Any], names: tuple[str, ...]) -> bool:
    observer = stop.observer
    if not stop.callee or observer.on_the_way_back:
        return False
    if isinstance(callee, types.BuiltinMethodType):
        args = [callee.__self__, *args]
    name, generator = getattr(callee, "__name__", ""), args[0] if args else None
    shuffles = name == "shuffle" and isinstance(generator, _SHUFFLING) and len(args) == 2 and not names
    if not (shuffles or name in _METHODS.get(type(generator), ())) or is_kept(stop):
        return False
    is_bound = isinstance(callee, types.BuiltinMethodType)
    call = callee if is_bound else functools.partial(callee, generator)
    if id(generator) not in observer.outside and not any(generator is one for one in OF_MODULES):
        return False
    if any(generator is leaf for leaf in observer.leaves):  # perhaps a new one for each call
        return False
    if shuffles:
        return _see_shuffle(stop, call, generator, args[1])
    written = {id(place.container) for place in observer.effects.places}
    n_bounds = min(_BOUNDS.get(name, 0), len(args) - 1 - len(names))
    if any(map(is_symbolic, args[1 + n_bounds :])):
        observer.drawn.by_sizes()
        return False
    values = tuple(_known(value, observer, written) for value in args[1:])
    if any(value is MISSING for value in values):
        return False
    n = len(values) - len(names)
    named = tuple(zip(names, values[n:], strict=True))
    draw = Draw(generator, call, name, values[:n], named, source_of(stop.frame))
    drawn = observer.drawn.draw(draw, observer.meet)
    if drawn is MISSING:
        return False
    stop.put(stop.callee, lambda *args, **named: drawn)
    return True


def _see_shuffle(stop: Stop, call: Callable[..., Any], generator: Any, array: Any) -> bool:
    drawn = stop.observer.drawn
    is_made = type(array) is np.ndarray and not stop.observer.is_outside(array)
    if drawn.begins_to_shuffle() and is_made:
        raise Shuffling
    start = drawn.order_of(array)
    if start is MISSING:
        return False
    draw = Draw(generator, functools.partial(_shuffled, call), "shuffle", (start,), (), source_of(stop.frame))
    if not drawn.shuffle(draw, array, stop.observer.meet):
        return False
    stop.put(stop.callee, lambda *args: None)
    return True


def _shuffled(call: Callable[..., Any], array: Any) -> np.ndarray:
    """A copy of ``array``, which may be passed on by a tensor, in the order that ``call`` gives it."""
    copy = np.array(getattr(array, "lent", array))
    call(copy)
    return copy


def see_range(stop: Stop, callee: Any, args: list[Any], names: tuple[str, ...]) -> bool:
    """``callee(*args)`` is about to be called: whether it is ``np.arange`` in a function that shuffles an
    array, and gives what stands for one, or ``range`` of which the next call draws."""
    drawn = stop.observer.drawn
    if callee is range:
        return _see_population(stop, args, names)
    if callee is not np.arange or not stop.callee or names:
        return False
    if any(map(is_symbolic, args)):
        drawn.counts_by_sizes()
    known = all(type(value) is int for value in args) and not stop.observer.on_the_way_back
    if not (known and drawn.shuffles):
        return False
    made = drawn.range(np.arange(*args))
    stop.put(stop.callee, lambda *args: made)
    return True


def _see_population(stop: Stop, args: list[Any], names: tuple[str, ...]) -> bool:
    """``range(*args)`` is about to be called: whether some of ``args`` are numbers that each call brings, and
    it goes straight to a draw (``random.sample(range(n), 8)``)."""
    numbers = [value for value in args if is_stand_in(value) or is_symbolic(value)]
    if not numbers or names or stop.observer.on_the_way_back or not _goes_to_draw(stop):
        return False
    parts = tuple(stop.observer.drawn.brought(v) if any(v is n for n in numbers) else v for v in args)
    if not all(type(part) in (int, *_EACH_CALL) for part in parts):
        return False
    stop.put(stop.callee, lambda *args: Reckoned(range, parts, numbers[0]))
    return True


def _goes_to_draw(stop: Stop) -> bool:
    """Whether what the call gives is the first argument of a method of ``random`` that takes some of it."""
    if stop.place.opname == "CALL_FUNCTION_EX":
        return False
    made = stop.place.depth - stop.place.arg - 1 - (stop.place.opname == "CALL_KW")
    found = receiver(stop.frame.f_code, stop.frame.f_lasti, made, is_text=False)
    if found is None or made != found + 2:
        return False
    first, second = (stop.peek(stop.place.depth - k + 1) for k in (found, found + 1))
    method = second if first is NULL else first
    owner = getattr(method, "__self__", second)
    function = getattr(method, "__func__", method)
    return type(owner) is random.Random and any(function is known for known in _OF_RANGES)


def check_call_out(stop: Stop) -> None:
    """A function is about to run that is disabled for compiling, and may draw, too: where something has been
    drawn by then, that is an error, since the generators will be put back."""
    if stop.observer.drawn.draws:
        raise stop.observer.error(
            stop.frame,
            "calls a function that is disabled for compiling after it has drawn from a generator of Python's "
            "or NumPy's, which a replay does at its beginning",
            "Draw in that function, or outside.",
        )


def _known(value: Any, observer: Any, written: set[int]) -> Any:
    """What an argument is at the beginning of each call, if that is what it is where the draw stands: a
    constant, or a container from outside that the function does not change; else MISSING."""
    cls = type(value)
    if cls is Reckoned:
        return value
    if cls in _CONSTANTS or (cls is type and issubclass(value, (np.generic, int, float))):
        return value
    if is_stand_in(value) or is_symbolic(value):
        return observer.drawn.brought(value)
    if cls is np.ndarray:  # one that the function has made is the same each time
        is_made = id(value) not in observer.places and not observer.is_outside(value)
        return value.copy() if is_made and not value.dtype.hasobject else MISSING
    if cls not in _CONTAINERS or id(value) in observer.opened or id(value) in observer.given:
        return MISSING
    if id(value) in observer.outside and cls is not tuple:
        is_as_it_was = id(value) not in written and (not written or _are_plain(value))
        return value if is_as_it_was else MISSING
    return tuple(value) if cls is not deque and _are_plain(value) else MISSING


def _are_plain(values: Any) -> bool:
    return all(type(value) in _CONSTANTS or (type(value) is tuple and _are_plain(value)) for value in values)
