"""What eager mode computes over large arrays: bodies and gradients of ops, as kernels.

NumPy runs a formula op by op, each of them through memory and on one thread. Here it is recorded for the
sizes at hand, as a part of a compiled function would be, and its plan runs on all threads. Where each element
of the results comes from those at the same place, one plan of a fixed size serves arrays of many sizes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.graph.ir import Atom, Graph, Type, Var
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.pipeline import address_of, compile_graph
from jtorch.compile.plan.memory import Destination, Place, Use, Where
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

LEAST = 1 << 16
"""Elements of the largest array from which on a plan is made for its sizes: that takes 2 to 5 ms, once."""

BLOCK = 1 << 15
"""Elements that a plan for arrays of all sizes computes at a time, on one thread."""

MOST_BY_BLOCKS = 1 << 18
"""Elements from which on threads gain more than a plan for their very number costs: 1 to 3 ms, once."""

_DTYPES = frozenset(map(np.dtype, ("f4", "f8", "i8", "i4", "i2", "i1", "u1", "?")))
_KINDS = {Kind.ELEMENTWISE, Kind.REDUCTION, Kind.VIEW, Kind.CONTRACTION}
_MOST_EQUATIONS = 400  # a convolution of each channel by itself has 12 for each tap

Kernels = Callable[[list[np.ndarray], list[float]], Any]


class _Array(NamedTuple):
    """What a plan is made for in place of an array."""

    dtype: np.dtype
    shape: tuple[int, ...]


class _Constant(NamedTuple):
    """A value that a plan is made for: floats are told apart by their digits, 0.0 from -0.0."""

    kind: type
    value: Any


class _LooksAtNumbersError(Exception):
    """A formula asks for one of its floats, so kernels hold for these floats alone."""


def is_offered() -> bool:
    """Whether kernels can be compiled, kept and called here."""
    return config.jitted() and layout_is_known() and cache_files.open_folder(warn=False) is not None


def nothing(function: Callable, values: tuple, statics: dict[str, Any], least: int = 0) -> Any:
    """What is called in place of ``run`` where there are no kernels."""
    return NotImplemented


def run(function: Callable, values: tuple, statics: dict[str, Any], least: int = LEAST) -> Any:
    """``function(xp, *values, **statics)`` by kernels; NotImplemented where there are none for it.

    ``least``: of elements of the largest array, where a plan is made for its sizes.
    Floats among ``values`` may be others at each call of the same kernels. Arrays that are not row-major are
    copied for them. Where a kernel refuses an element, NumPy is to say why.
    """
    arrays: list[np.ndarray] = []
    numbers: list[float] = []
    form = _form(values, arrays, numbers)
    fixed = tuple([(name, _form(value)) for name, value in statics.items()])
    shape = arrays[0].shape
    try:
        if all(a.shape == shape for a in arrays):
            found = _pointwise(function, values, fixed, arrays, numbers)
            if found is not NotImplemented:
                return found
        if max([a.size for a in arrays]) < least:
            return NotImplemented
        kernels = _kernels(function, form, fixed, False)
        if kernels is _LooksAtNumbersError:
            kernels = _kernels(function, _form(values, []), fixed, False)
    except TypeError:  # something in the key has no hash
        return NotImplemented
    return NotImplemented if kernels is None else kernels(arrays, numbers)


def _form(value: Any, arrays: list | None = None, numbers: list | None = None, size: int = 0) -> Any:
    """What a plan is made for: ``value`` without what arrays and floats hold, which join the lists. With a
    ``size``, arrays are flat and of that size."""
    kind = value.__class__
    if kind is np.ndarray and arrays is not None:
        arrays.append(value)
        return _Array(value.dtype, (size,) if size else value.shape)
    if kind is tuple or kind is list:
        return tuple([_form(v, arrays, numbers, size) for v in value])
    if kind is not float:
        return _Constant(kind, value)
    if numbers is None:
        return _Constant(float, value.hex())
    numbers.append(value)
    return float


def _pointwise(
    function: Callable, values: tuple, statics: tuple, arrays: list[np.ndarray], numbers: list[float]
) -> Any:
    """The same for arrays of one shape where it makes each element from those at its place."""
    n = arrays[0].size
    size = BLOCK if n < MOST_BY_BLOCKS else n
    if n < size:
        return NotImplemented
    kernels = _kernels(function, _form(values, [], [], size), statics, True)
    if kernels is _LooksAtNumbersError:
        kernels = _kernels(function, _form(values, [], None, size), statics, True)
    return NotImplemented if kernels is None else kernels.by_blocks(arrays, numbers, size)


@lru_cache(maxsize=1024)
def _kernels(function: Callable, form: tuple, statics: tuple, pointwise: bool) -> Any:
    """The ``_Kernels``, None where there are none, or the class _LooksAtNumbersError."""
    with _ALONE:
        try:
            return _Recording(function, form, statics).kernels(pointwise)
        except _LooksAtNumbersError:
            return _LooksAtNumbersError
        except Exception as why:  # NumPy computes it, or says what is wrong with it
            _log.info("NumPy computes %s of %s: %s", function.__qualname__, function.__module__, why)
            return None


_ALONE = threading.RLock()


class _Recording:
    """A function recorded for arguments of one form."""

    def __init__(self, function: Callable, form: tuple, statics: tuple) -> None:
        self.tracer = Tracer(function.__module__.rpartition(".")[2])
        self.arrays: list[Var] = []
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
            return self.tracer.fresh(self.arrays[-1])
        if isinstance(part, _Constant):
            return float.fromhex(part.value) if part.kind is float else part.value
        if isinstance(part, tuple):
            return tuple(self._traced(p) for p in part)
        number = ScalarInput(None, (), 0.5)  # some number: who asks which gets kernels for the one given
        self.numbers.append(number)
        return Scalar(self.tracer, number.var, number.value, (number,))

    def _atom(self, value: Any) -> Atom:
        sym = self.tracer.lift(value)
        if not sym.in_order:
            raise ValueError("a result is laid out in another order than row-major")
        return self.tracer.read(sym)

    def kernels(self, pointwise: bool) -> _Kernels | None:
        """What computes it; None where NumPy's routines do it as well, or where it is not ``pointwise``."""
        if any(number.guards for number in self.numbers):
            raise _LooksAtNumbersError
        if not self._is_formula() or (pointwise and not self._is_pointwise()):
            return None
        words = [np.zeros((), np.float64) for _ in self.numbers]
        runner = self._runner(words)
        return _Kernels(self, runner, words) if runner.is_atomic else None

    def _is_formula(self) -> bool:
        eqns = self.tracer.eqns
        kinds = {eqn.op.kind for eqn in eqns}
        known = {var.dtype for var in self.arrays} <= _DTYPES and not self.tracer.inputs
        plain = known and all(isinstance(a, Var) for a in self.computed)
        return plain and bool(kinds - {Kind.VIEW}) and kinds <= _KINDS and len(eqns) <= _MOST_EQUATIONS

    def _is_pointwise(self) -> bool:
        shapes = {var.shape for var in (*self.arrays, *self.computed)}
        return len(shapes) == 1 and all(eqn.op.kind is Kind.ELEMENTWISE for eqn in self.tracer.eqns)

    def _runner(self, words: list[np.ndarray]) -> Any:
        """The plan, called with arrays, results and floats."""
        first_result, first_number = len(self.arrays), len(self.arrays) + len(self.computed)
        inputs = (*self.arrays, *(number.var for number in self.numbers))
        dynamic = {Place(Where.INPUT, k): k for k in range(len(self.arrays))}
        dynamic |= {Place(Where.RESULT, k): first_result + k for k in range(len(self.computed))}
        addresses = [address_of(word) for word in words]
        fixed = {Place(Where.INPUT, len(self.arrays) + k): a for k, a in enumerate(addresses)}
        numbers = {first_number + k: a for k, a in enumerate(addresses)}
        graph = Graph(self.tracer.name, inputs, tuple(self.tracer.eqns), tuple(self.computed))
        destinations = [Destination(Use.RESULT, k) for k in range(len(self.computed))]
        binding = Binding(fixed, dynamic, first_number + len(words), numbers, arena.shared)
        return compile_graph(graph, destinations, CPU, binding, Timings()).runner


class _Kernels:
    """A plan that is one native call, which keeps the interpreter's lock: so all may share their arena."""

    def __init__(self, recording: _Recording, runner: Any, words: list[np.ndarray]) -> None:
        lie = [*recording.arrays, *recording.computed]
        self.places = [None if atom is None else lie.index(atom) for atom in recording.results]
        self.types = [(var.shape, var.dtype) for var in recording.computed]
        self.several, self.runner, self.words = recording.several, runner, words

    def __call__(self, arrays: list[np.ndarray], numbers: list[float]) -> Any:
        """What the function gives; NotImplemented where a kernel refuses an element."""
        results = [np.empty(shape, dtype) for shape, dtype in self.types]
        if self.runner.run(*map(_in_order, arrays), *results, *numbers[: len(self.words)]):
            return NotImplemented
        return self._given(arrays, results)

    def by_blocks(self, arrays: list[np.ndarray], numbers: list[float], size: int) -> Any:
        """The same ``size`` elements at a time; the last block may compute some of them again."""
        n, shape = arrays[0].size, arrays[0].shape
        results = [np.empty(shape, dtype) for _, dtype in self.types]
        flat = [_in_order(a).reshape(-1) for a in (*arrays, *results)]
        run, numbers = self.runner.run, numbers[: len(self.words)]
        for begin in (*range(0, n - size, size), n - size):
            if run(*[a[begin : begin + size] for a in flat], *numbers):
                return NotImplemented
        return self._given(arrays, results)

    def _given(self, arrays: list[np.ndarray], results: list[np.ndarray]) -> Any:
        found = [*arrays, *results]
        values = tuple([None if k is None else found[k] for k in self.places])
        return values if self.several else values[0]


def _in_order(array: np.ndarray) -> np.ndarray:
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")
