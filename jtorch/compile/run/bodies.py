"""What eager mode computes over large arrays: bodies and gradients of ops, as kernels.

NumPy runs a formula op by op, each of them through memory and on one thread. Here it is recorded for the
sizes at hand, as a part of a compiled function would be, and its plan runs on all threads. Where rows are
independent (or elements), a plan for some of them serves any number, so sizes that keep moving cost nothing.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.graph.ir import Atom, Graph, Type, Var
from jtorch.compile.graph.rows import row_by_row, same_but_for_rows
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.pipeline import compile_graph
from jtorch.compile.plan.plan import Destination, Place, Use, Where
from jtorch.compile.record.inputs import ScalarInput
from jtorch.compile.record.trace import Tracer
from jtorch.compile.run import arena
from jtorch.compile.run.targets import CPU
from jtorch.compile.target import Binding
from jtorch.compile.timings import Timings
from jtorch.core import config
from jtorch.core.op import Kind
from jtorch.native import cache_files
from jtorch.native.executor import layout_is_known

_log = logging.getLogger("jtorch.bodies")

LEAST, LEAST_IMAGES = 1 << 19, 1 << 16
"""Elements of the largest array from which on a plan is made for its very sizes. That takes 2 to 7 ms, once,
and NumPy half as long for so many. Images (four axes and more) are rarely each of another size."""

BLOCKS = (1 << 18, 1 << 17, 1 << 15, 1 << 13)
"""Elements that a plan for any number of rows computes at a time."""

_DTYPES = frozenset(map(np.dtype, ("f4", "f8", "i8", "i4", "i2", "i1", "u1", "?")))
_REAL = frozenset(map(np.dtype, ("f4", "f8", "?")))
_CONSTANTS = (bool, int, str, type(None), np.dtype)
_KINDS = {Kind.ELEMENTWISE, Kind.REDUCTION, Kind.VIEW, Kind.CONTRACTION}
_MOST_EQUATIONS = 400  # a convolution of each channel by itself has 12 for each tap


class _Array(NamedTuple):
    """What a plan is made for in place of an array.

    Where it is made for some of its rows, ``again`` is a shape with others of them: a function that is
    recorded for both shows what depends on their number.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    again: tuple[int, ...] | None = None


class _Constant(NamedTuple):
    """A value that a plan is made for: floats are told apart by their digits, 0.0 from -0.0."""

    kind: type
    value: Any


def is_offered() -> bool:
    """Whether kernels can be compiled, kept and called here."""
    return config.jitted() and layout_is_known() and cache_files.open_folder(warn=False) is not None


def run(function: Callable, values: tuple, statics: dict[str, Any], least: int = 0) -> Any:
    """``function(xp, *values, **statics)`` by kernels; NotImplemented where there are none for it.

    Floats among ``values`` may be others at each call of the same kernels. Arrays that are not row-major are
    copied for them. Where a kernel refuses an element, NumPy is to say why.
    ``least``: of elements of the largest array, where a plan is made for its sizes.
    """
    try:
        key = _key(function, values, statics, least)
    except TypeError:  # an argument that no formula expects: it is for NumPy to take or to refuse
        return NotImplemented
    known = _calls.get(key, _NEW)
    if known is not _NEW:
        return NotImplemented if known is None else known(values)
    arrays: list[np.ndarray] = []
    form = _form(values, arrays, [])
    fixed = tuple([(name, _form(value)) for name, value in statics.items()])
    if len(_calls) >= _MOST_CALLS:
        _calls.clear()
        _kernels.cache_clear()
    largest = max(arrays, key=_size)
    for rows in _ways(largest.shape, arrays, least) if arrays[0].dtype in _REAL else ():
        if rows is None:
            call = _for_sizes(function, form, fixed)
        else:
            call = _in_blocks(function, values, fixed, arrays, rows)
        if call is not None:
            _calls[key] = call
            return call(values)
    _calls[key] = None  # there are no kernels for it
    return NotImplemented


_NEW: Any = object()
_calls: dict[Any, _Call | None] = {}
_MOST_CALLS = 2048


def _key(function: Callable, values: tuple, statics: dict[str, Any], least: int) -> Any:
    """What calls that are computed alike have in common."""
    key = [function, least]
    for value in values:
        if value.__class__ is np.ndarray:
            key += value.shape, value.dtype
        elif value.__class__ is float:
            key.append(float)
        else:
            key.append(_alike(value, True))
    for item in statics.items():
        key.append(_alike(item, False))
    return tuple(key)


def _alike(value: Any, is_given: bool) -> Any:
    """What arguments have in common that kernels don't tell apart. Of numbers that are not ``is_given`` at
    each call digits count. Raises TypeError for what is no part of a formula."""
    kind = value.__class__
    if kind is tuple or kind is list:
        return (tuple, *[_alike(v, is_given) for v in value])
    if kind is np.ndarray and is_given:
        return value.shape, value.dtype
    if kind is float:
        return float if is_given else value.hex()
    if kind not in _CONSTANTS and not isinstance(value, np.dtype):
        raise TypeError(f"a formula of {kind.__name__}")
    return kind, value


def _ways(shape: tuple[int, ...], arrays: list[np.ndarray], least: int) -> Iterator[_Rows | None]:
    """How it may be computed, by the sizes of the arrays alone: some rows at a time or, for None, by a plan
    for these very sizes. ``shape`` is that of the largest array."""
    n = math.prod(shape)
    if n < LEAST and all(a.shape == shape for a in arrays):
        yield _Rows(shape, True, 0)
    if n >= (least or (LEAST_IMAGES if len(shape) > 3 else LEAST)):
        yield None
    elif len(shape) > 1:
        rows = _Rows(shape, False, 0)
        others = [a.shape for a in arrays if not rows.has(a)]
        if all(len(other) < len(shape) or other[0] == 1 for other in others):
            yield rows


def _size(array: np.ndarray) -> int:
    return array.size


def _form(
    value: Any, arrays: list | None = None, numbers: list | None = None, rows: _Rows | None = None
) -> Any:
    """What a plan is made for: ``value`` without what arrays and floats hold, which join the lists. With
    ``rows``, for that many. Raises TypeError for what is no part of a formula."""
    kind = value.__class__
    if kind is np.ndarray and arrays is not None:
        arrays.append(value)
        return _Array(value.dtype, value.shape) if rows is None else rows.of(value)
    if kind is tuple or kind is list:
        return tuple([_form(v, arrays, numbers, rows) for v in value])
    if kind is float:
        if numbers is None:
            return _Constant(float, value.hex())
        numbers.append(value)
        return float
    if kind not in _CONSTANTS and not isinstance(value, np.dtype):
        raise TypeError(f"a formula of {kind.__name__}")
    return _Constant(kind, value)


class _Rows(NamedTuple):
    """Some rows of the arrays of a call: so many items of the first axis of those that are as long as
    ``shape``; or as many elements, where all are of that shape (``pointwise``)."""

    shape: tuple[int, ...]
    pointwise: bool
    at_once: int

    def has(self, array: np.ndarray) -> bool:
        return array.ndim == len(self.shape) and array.shape[0] == self.shape[0]

    def of(self, array: np.ndarray) -> _Array:
        if self.pointwise:
            return _Array(array.dtype, (self.at_once,), tuple(range(2, 2 + array.ndim)))
        if not self.has(array):
            return _Array(array.dtype, array.shape)
        row = array.shape[1:]
        return _Array(array.dtype, (self.at_once, *row), (self.at_once + 3, *row))


def _for_sizes(function: Callable, form: tuple, statics: tuple) -> _Call | None:
    kernels = _kernels(function, form, statics)
    return None if kernels is None else _Call([(kernels, 0, [])])


def _in_blocks(
    function: Callable, values: tuple, statics: tuple, arrays: list[np.ndarray], rows: _Rows
) -> _Call | None:
    """What gives the function's results where each row of that is made of the same row of arrays, or each
    element of those at its place: some at a time, in large blocks first."""
    count, row = (math.prod(rows.shape), 1) if rows.pointwise else (rows.shape[0], math.prod(rows.shape[1:]))
    parts = []
    for size, begins in _blocks(count, row):
        kernels = _kernels(function, _form(values, [], [], rows._replace(at_once=size)), statics)
        if kernels is None:
            return None
        parts.append((kernels, size, begins))
    return _Call(parts, rows, list(map(rows.has, arrays))) if parts else None


def _blocks(count: int, row: int) -> list[tuple[int, list[int]]]:
    """[(rows at a time, where they begin)] of ``count`` rows of ``row`` elements, the last of which may be
    computed twice."""
    found, begin = [], 0
    sizes = list(dict.fromkeys(max(1, block // max(row, 1)) for block in BLOCKS))
    for size in sizes:
        begins = list(range(begin, count - size + 1, size))
        begin += size * len(begins)
        if size == sizes[-1] and begin < count and size <= count:
            begins.append(count - size)
            begin = count
        if begins:
            found.append((size, begins))
    return found if begin == count else []


@lru_cache(maxsize=2048)
def _kernels(function: Callable, form: tuple, statics: tuple) -> _Kernels | None:
    with _alone:
        try:
            return _Recording(function, form, statics).kernels()
        except Exception as why:  # NumPy computes it, or says what is wrong with it
            _log.info("NumPy computes %s of %s: %s", function.__qualname__, function.__module__, why)
            return None


def _again(form: Any) -> Any:
    """The form for which rows are recorded a second time."""
    if isinstance(form, _Array):
        return form._replace(shape=form.again or form.shape, again=None)
    if isinstance(form, tuple) and not isinstance(form, _Constant):
        return tuple(_again(part) for part in form)
    return form


_alone = threading.RLock()  # while kernels are made, and while some run: they share their arena


def _fresh_lock() -> None:
    global _alone
    _alone = threading.RLock()


if hasattr(os, "register_at_fork"):  # the thread that held it does not exist in the child
    os.register_at_fork(after_in_child=_fresh_lock)


class _Recording:
    """A function recorded for arguments of one form."""

    def __init__(self, function: Callable, form: tuple, statics: tuple) -> None:
        self.made_of = function, form, statics
        self.tracer = Tracer(function.__module__.rpartition(".")[2])
        self.arrays: list[Var] = []
        self.rows: list[Var] = []  # those that have some
        self.numbers: list[ScalarInput] = []
        values = [self._traced(part) for part in form]
        found = function(self.tracer.xp, *values, **{name: self._traced(part) for name, part in statics})
        self.several = isinstance(found, tuple)
        parts = found if self.several else (found,)
        self.results = [None if part is None else self._atom(part) for part in parts]
        self.tracer.open = False
        made = dict.fromkeys(a for a in self.results if a is not None and a not in self.arrays)
        self.computed: list[Any] = list(made)

    def _traced(self, part: Any) -> Any:
        """The stand-in for an argument."""
        if isinstance(part, _Array):
            self.arrays.append(Var(Type(part.dtype, part.shape)))
            if part.again:
                self.rows.append(self.arrays[-1])
            return self.tracer.fresh(self.arrays[-1])
        if isinstance(part, _Constant):
            return float.fromhex(part.value) if part.kind is float else part.value
        if isinstance(part, tuple):
            return tuple(self._traced(p) for p in part)
        number = ScalarInput(None, (), 0.5)  # some number: who asks which gets kernels for the one given
        self.numbers.append(number)
        return Scalar(self.tracer, number.var, number.recorded, (number,))

    def _atom(self, value: Any) -> Atom:
        sym = self.tracer.lift(value)
        if not sym.in_order:
            raise ValueError("a result is laid out in another order than row-major")
        return self.tracer.read(sym)

    def kernels(self) -> _Kernels | None:
        """What computes it; None where NumPy's routines do it as well, where rows were asked for and depend
        on each other, and where the formula looks at a number: it would be recorded again for each."""
        if any(number.guards for number in self.numbers) or not self._is_formula():
            return None
        if self.rows and not self._is_row_by_row():
            return None
        binding = Binding(arena.shared, release_gil=True)
        runner = self._runner(binding)
        return _Kernels(self, runner, binding) if runner.is_atomic else None

    def _is_formula(self) -> bool:
        eqns = self.tracer.eqns
        kinds = {eqn.op.kind for eqn in eqns}
        known = {var.dtype for var in self.arrays} <= _DTYPES and not self.tracer.inputs
        plain = known and bool(self.computed) and all(isinstance(a, Var) for a in self.computed)
        return plain and bool(kinds - {Kind.VIEW}) and kinds <= _KINDS and len(eqns) <= _MOST_EQUATIONS

    def _is_row_by_row(self) -> bool:
        if not row_by_row(self.tracer.eqns, self.rows, self.computed):
            return False
        function, form, statics = self.made_of
        again = _Recording(function, _again(form), statics)
        first, second = (r.arrays[self.arrays.index(self.rows[0])].shape for r in (self, again))
        if len(first) == len(second) > 1:
            return same_but_for_rows(self.tracer.eqns, again.tracer.eqns, first[0], second[0])
        pointwise = all(eqn.op.kind is Kind.ELEMENTWISE for eqn in again.tracer.eqns)
        return pointwise and same_but_for_rows(self.tracer.eqns, again.tracer.eqns, first, second)

    def _runner(self, binding: Binding) -> Any:
        """The plan, called with arrays, results and floats."""
        inputs = (*self.arrays, *(number.var for number in self.numbers))
        places = [Place(Where.INPUT, k) for k in range(len(inputs))]
        destinations = [Destination(Use.RESULT, k) for k in range(len(self.computed))]
        binding.bring(*places[: len(self.arrays)], *(destination.place for destination in destinations))
        for place in places[len(self.arrays) :]:
            binding.bring_number(place)
        graph = Graph(self.tracer.name, inputs, tuple(self.tracer.eqns), tuple(self.computed))
        return compile_graph(graph, destinations, CPU, binding, Timings()).runner


class _Kernels:
    """A plan that is one native call."""

    def __init__(self, recording: _Recording, runner: Any, binding: Binding) -> None:
        lie = [*recording.arrays, *recording.computed]
        self.places = [None if atom is None else lie.index(atom) for atom in recording.results]
        self.types = [(var.shape, var.dtype) for var in recording.computed]
        self.several, self.runner, self.n_numbers = recording.several, runner, len(binding.numbers)
        self.keep = binding.keep

    def run(self, arrays: list[np.ndarray], numbers: list[float]) -> bool:
        """Whether it came to the end."""
        with _alone:
            return not self.runner.run(*arrays, *numbers[: self.n_numbers])


class _Call:
    """How calls of one kind are computed: by which kernels, each of how many ``rows``, and from which on."""

    def __init__(
        self, parts: list[tuple[_Kernels, int, list[int]]], rows: _Rows | None = None,
        has_rows: Sequence[bool] = (),
    ) -> None:  # fmt: skip
        kernels, size, begins = parts[0]
        self.kernels, self.parts = kernels, parts
        self.flat = rows is not None and rows.pointwise
        self.in_one_go = rows is None or (begins == [0] and len(parts) == 1 and size == self._count(rows))
        self.has_rows = [*has_rows, *(True for _ in kernels.types)]
        self.types = kernels.types
        if rows is not None:
            shapes = [rows.shape if self.flat else (rows.shape[0], *shape[1:]) for shape, _ in kernels.types]
            self.types = [(shape, dtype) for shape, (_, dtype) in zip(shapes, kernels.types, strict=True)]

    def _count(self, rows: _Rows) -> int:
        return math.prod(rows.shape) if self.flat else rows.shape[0]

    def __call__(self, values: tuple) -> Any:
        """What the function gives, as it gives it; NotImplemented where a kernel refuses an element."""
        arrays: list[np.ndarray] = []
        numbers: list[float] = []
        _gathered(values, arrays, numbers)
        results = [np.empty(shape, dtype) for shape, dtype in self.types]
        lie = [*map(_in_order, arrays), *results]
        if not (self.kernels.run(lie, numbers) if self.in_one_go else self._in_turn(lie, numbers)):
            return NotImplemented
        found = [*arrays, *results]
        given = tuple([None if k is None else found[k] for k in self.kernels.places])
        return given if self.kernels.several else given[0]

    def _in_turn(self, lie: list[np.ndarray], numbers: list[float]) -> bool:
        """Some rows after others; whether that came to the end."""
        lie = [a.reshape(-1) for a in lie] if self.flat else lie
        pairs = list(zip(lie, self.has_rows, strict=True))
        return all(
            kernels.run([a[begin : begin + size] if some else a for a, some in pairs], numbers)
            for kernels, size, begins in self.parts
            for begin in begins
        )


def _gathered(values: tuple, arrays: list[np.ndarray], numbers: list[float]) -> None:
    """The arrays and the numbers among arguments, as ``_form`` finds them."""
    for value in values:
        kind = value.__class__
        if kind is np.ndarray:
            arrays.append(value)
        elif kind is float:
            numbers.append(value)
        elif kind is tuple or kind is list:
            _gathered(value, arrays, numbers)


def _in_order(array: np.ndarray) -> np.ndarray:
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")
