"""What eager mode computes by kernels: bodies and gradients of ops.

NumPy runs a formula op by op, each of them through memory and on one thread. Here it is recorded once for any
sizes, as a part of a compiled function would be; for the sizes of a call its plan is worked out, and kept. A
formula that looks at the sizes themselves is recorded for these very ones, where arrays are large.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.graph.ir import Atom, Graph, Type, Var
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.pipeline import compile_graph
from jtorch.compile.plan.plan import Destination, Place, Use, Where
from jtorch.compile.record.inputs import ScalarInput
from jtorch.compile.record.trace import Tracer
from jtorch.compile.run import arena
from jtorch.compile.run.expressions import Expressions
from jtorch.compile.run.runner import Runner
from jtorch.compile.run.targets import CPU, of_sizes
from jtorch.compile.target import Binding
from jtorch.compile.timings import Timings
from jtorch.core.device_array import DeviceArray
from jtorch.core.dim import symbol
from jtorch.core.dtypes import HALVES
from jtorch.core.environment import LEAST as LEAST_SIZE, Environment, Exact
from jtorch.core.op import Kind
from jtorch.core.sizes import shape_of
from jtorch.native import cache
from jtorch.native.executor import layout_is_known

_log = logging.getLogger("jtorch.bodies")

LEAST, LEAST_IMAGES = 1 << 19, 1 << 16
"""Elements of the largest array from which on a plan is made for its very sizes. That takes 2 to 7 ms, once,
and NumPy half as long for so many. Images (four axes and more) are rarely each of another size."""

_DTYPES = HALVES | frozenset(map(np.dtype, ("f4", "f8", "i8", "i4", "i2", "i1", "u1", "?")))
_BITS = np.dtype(np.uint64)  # that random numbers are made of
_FIRST = HALVES | frozenset({*map(np.dtype, ("f4", "f8", "?")), _BITS})
_CONSTANTS = (bool, int, str, type(None), np.dtype)
_KINDS = {Kind.ELEMENTWISE, Kind.REDUCTION, Kind.VIEW, Kind.CONTRACTION}
_MOST_EQUATIONS = 400  # a convolution of each channel by itself has 12 for each tap


class _Shape(tuple[int | str, ...]):
    """Sizes, and the names of symbols in place of some."""

    __slots__ = ()


Call = Callable[[tuple], Any]


class _Array(NamedTuple):
    """What a plan is made for in place of an array."""

    dtype: np.dtype
    shape: tuple[int | str, ...]


class _Constant(NamedTuple):
    """A value that a plan is made for: floats are told apart by their digits, 0.0 from -0.0."""

    kind: type
    value: Any


def is_offered() -> bool:
    """Whether kernels can be compiled, kept and called here."""
    return layout_is_known() and cache.is_offered()


def call_of(
    function: Callable, values: tuple, statics: dict[str, Any], shapes: Sequence[int] = ()
) -> Call | None:
    """What computes ``function(xp, *values, **statics)``, given the tuple of ``values``, by kernels for these
    sizes, dtypes, constants and ``statics``; None where there are none. It gives NotImplemented where a
    kernel refuses an element: NumPy is to say why.

    It depends on sizes alone: whoever asked something of a formula's sizes gets the same answer from all
    others that its plan is for. Sizes are those of arrays and ``values`` that ``shapes`` counts. Arrays that
    are not row-major are copied.
    """
    arrays: list[np.ndarray] = []
    try:
        form = form_of(values, arrays, [])
        fixed = tuple([(name, form_of(value)) for name, value in statics.items()])
    except TypeError:  # an argument that no formula expects
        return None
    if not arrays or arrays[0].dtype not in _FIRST:
        return None
    told = [values[k] for k in shapes]
    named, sizes = _named([a.shape for a in arrays] + told)
    if sizes:
        of_arrays, of_shapes = iter(named), iter(named[len(arrays) :])
        moving = tuple(
            next(of_shapes) if k in shapes else _with(part, of_arrays) for k, part in enumerate(form)
        )
        call = _formula(function, moving, fixed).at(sizes)
        if call is not None:
            return call
    largest = max(arrays, key=_size)
    if largest.size < (LEAST_IMAGES if largest.ndim > 3 else LEAST):
        return None
    return _for_sizes(function, form, fixed)


def _named(shapes: Sequence[tuple[int, ...]]) -> tuple[list[_Shape], list[int]]:
    """The shapes with a symbol in place of each size but 0 and 1, and what symbols are now.

    Each axis of the largest array has a symbol of its own. So has an axis that is as long as the one above
    which it would be broadcast, or as another one: theirs.
    """
    main = max(shapes, key=math.prod)
    symbols: list[int] = []
    axes: list[int | str] = []
    for n in main:
        axes.append(f"S{len(symbols)}" if n >= LEAST_SIZE else n)
        symbols += [n] if n >= LEAST_SIZE else []
    found = []
    for shape in shapes:
        named: list[int | str] = []
        for k, n in enumerate(shape, len(main) - len(shape)):
            if n < LEAST_SIZE:
                named.append(n)
            elif k >= 0 and main[k] == n:
                named.append(axes[k])
            else:
                if n not in symbols:
                    symbols.append(n)
                named.append(f"S{symbols.index(n)}")
        found.append(_Shape(named))
    return found, symbols


def _with(part: Any, shapes: Iterator[_Shape]) -> Any:
    """A form with these shapes of its arrays, in their order."""
    if isinstance(part, _Array):
        return part._replace(shape=next(shapes))
    if isinstance(part, tuple) and not isinstance(part, _Constant):
        return tuple([_with(p, shapes) for p in part])
    return part


def _size(array: np.ndarray) -> int:
    return array.size


def form_of(value: Any, arrays: list | None = None, numbers: list | None = None) -> Any:
    """What a plan is made for: ``value`` without what arrays and floats hold, which join the lists. Raises
    TypeError for what is no part of a formula."""
    kind = value.__class__
    if (kind is np.ndarray or kind is DeviceArray) and arrays is not None:
        arrays.append(value)
        return _Array(value.dtype, value.shape)
    if kind is tuple or kind is list:
        return tuple([form_of(v, arrays, numbers) for v in value])
    if kind is float:
        if numbers is None:
            return _Constant(float, value.hex())
        numbers.append(value)
        return float
    if kind not in _CONSTANTS and not isinstance(value, np.dtype):
        raise TypeError(f"a formula of {kind.__name__}")
    return _Constant(kind, value)


def value_of(form: Any) -> Any:
    """The value of a form that has no arrays and no numbers of calls."""
    if isinstance(form, _Constant):
        return float.fromhex(form.value) if form.kind is float else form.value
    return tuple([value_of(part) for part in form])


def constant(value: Any) -> Any:
    """The form of a static, whatever it is."""
    try:
        return form_of(value)
    except TypeError:  # no formula has one
        return _Constant(value.__class__, value)


class _Shared(Runner):
    """Its lock is held while plans are made, and while one for some sizes alone runs: these share memory."""


_shared = _Shared()


class _Formula:
    """A function of arrays of some dtypes and axes: its plans for any sizes, each for those that answer alike
    what it has asked of them."""

    def __init__(self, function: Callable, form: tuple, statics: tuple) -> None:
        self.made_of = function, form, statics
        self.plans: list[_Kernels] = []

    def at(self, sizes: Sequence[int]) -> Call | None:
        """What computes it for these; None where there is nothing for any sizes that has them."""
        with _shared.alone:
            for kernels in self.plans:
                call = kernels.at(sizes)
                if call is not None:
                    return call
            made = _kernels(*self.made_of, sizes)
            if made is None:
                return None
            self.plans.append(made)
            return made.at(sizes)


_formula = lru_cache(maxsize=1024)(_Formula)


def _for_sizes(function: Callable, form: tuple, statics: tuple) -> Call | None:
    with _shared.alone:
        kernels = _kernels(function, form, statics, ())
    return None if kernels is None else kernels.at(())


def _kernels(function: Callable, form: tuple, statics: tuple, sizes: Sequence[int]) -> _Kernels | None:
    try:
        return Recording(function, form, statics, sizes).kernels()
    except (Exception, Exact) as why:  # NumPy computes it, or says what is wrong with it
        _log.info("NumPy computes %s of %s: %s", function.__qualname__, function.__module__, why)
        return None


class Recording:
    """A function recorded for arguments of one form, whose symbols have these sizes now."""

    def __init__(self, function: Callable, form: tuple, statics: tuple, sizes: Sequence[int]) -> None:
        self.made_of = form
        self.env = Environment() if sizes else None
        self.symbols = {f"S{k}": symbol(self.env, f"S{k}", n) for k, n in enumerate(sizes) if self.env}
        self.tracer = Tracer(function.__module__.rpartition(".")[2])
        self.tracer.has_symbols = bool(sizes)
        self.arrays: list[Var] = []
        self.numbers: list[ScalarInput] = []
        values = [self._traced(part) for part in form]
        found = function(self.tracer.xp, *values, **{name: self._traced(part) for name, part in statics})
        self.in_order = True  # whether results are laid out row by row
        self.several = isinstance(found, tuple)
        parts = found if self.several else (found,)
        self.results = [None if part is None else self._atom(part) for part in parts]
        self.tracer.open = False
        made = dict.fromkeys(a for a in self.results if a is not None and a not in self.arrays)
        self.computed: list[Any] = list(made)

    def _traced(self, part: Any) -> Any:
        """The stand-in for an argument."""
        if isinstance(part, _Array):
            self.arrays.append(Var(Type(part.dtype, self._shape(part.shape))))
            return self.tracer.fresh(self.arrays[-1])
        if isinstance(part, _Constant):
            return value_of(part)
        if isinstance(part, _Shape):
            return self._shape(part)
        if isinstance(part, tuple):
            return tuple(self._traced(p) for p in part)
        number = ScalarInput(None, (), 0.5)  # some number: who asks which gets kernels for the one given
        self.numbers.append(number)
        return Scalar(self.tracer, number.var, number.recorded, (number,))

    def _shape(self, sizes: Sequence[int | str]) -> tuple:
        return shape_of([self.symbols[n] if isinstance(n, str) else n for n in sizes])

    def _atom(self, value: Any) -> Atom:
        sym = self.tracer.lift(value)
        self.in_order &= sym.in_order
        return self.tracer.read(sym)

    def kernels(self) -> _Kernels | None:
        """What computes it; None where NumPy's routines do it as well, and where the formula looks at a
        number: it would be recorded again for each. So with sizes where any were asked for."""
        if not self.in_order:
            raise ValueError("a result is laid out in another order than row-major")
        if any(number.guards for number in self.numbers) or not self.is_formula():
            return None
        if self.env is not None:
            for guard in self.env.guards.values():
                if guard.pins:
                    raise Exact(f"{guard.text} is looked at")
            self.env.planning = True
        binding = Binding(arena.shared, release_gil=True)
        runner = self._runner(binding)
        return _Kernels(self, runner, binding) if runner.is_atomic else None

    @property
    def computes(self) -> bool:
        """Whether it does more than move elements."""
        return any(eqn.op.kind is not Kind.VIEW for eqn in self.tracer.eqns)

    def is_formula(self) -> bool:
        eqns = self.tracer.eqns
        kinds = {eqn.op.kind for eqn in eqns}
        if any(
            a.dtype == _BITS and not eqn.op.draws for eqn in eqns for a in eqn.inputs if isinstance(a, Var)
        ):
            return False
        known = {var.dtype for var in self.arrays} <= _DTYPES | {_BITS} and not self.tracer.inputs
        plain = known and bool(self.computed) and all(isinstance(a, Var) for a in self.computed)
        return plain and bool(kinds - {Kind.VIEW}) and kinds <= _KINDS and len(eqns) <= _MOST_EQUATIONS

    def _runner(self, binding: Binding) -> Any:
        """The plan, called with arrays, results and floats."""
        inputs = (*self.arrays, *(number.var for number in self.numbers))
        places = [Place(Where.INPUT, k) for k in range(len(inputs))]
        destinations = [Destination(Use.RESULT, k) for k in range(len(self.computed))]
        binding.bring(*places[: len(self.arrays)], *(destination.place for destination in destinations))
        for place in places[len(self.arrays) :]:
            binding.bring_number(place)
        graph = Graph(self.tracer.name, inputs, tuple(self.tracer.eqns), tuple(self.computed))
        target = CPU if self.env is None else of_sizes(CPU, self.env)
        runner = compile_graph(graph, destinations, target, binding, Timings()).runner
        if self.env is not None:
            self.env.close()
        return runner


class _Kernels:
    """A plan that is one native call, for any sizes or for some. Its calls keep it, and with it the memory
    that they use."""

    def __init__(self, recording: Recording, runner: Any, binding: Binding) -> None:
        self.types = [(var.shape, var.dtype) for var in recording.computed]
        self.runner, self.moves, self.keep = runner, recording.env is not None, binding.keep
        self.make = _maker(recording, len(binding.numbers))
        self.runs_under: Any = runner if self.moves else _shared  # whose lock is held
        if recording.env is not None:
            sizes = Expressions()
            self.shapes = [[sizes.of(n) for n in shape] for shape, _ in self.types]
            self.sizes = sizes.function(recording.env.symbols, recording.env.functions)

    def at(self, sizes: Sequence[int]) -> Call | None:
        """What computes it for these; None where it is for others."""
        if not self.moves:
            return self.make(self, self.runner.run, [shape for shape, _ in self.types])
        made = self.runner.at(*sizes)
        if made is None:
            return None
        numbers = self.sizes(*sizes)
        return self.make(self, made.run, [tuple([numbers[k] for k in s]) for s in self.shapes])


def _maker(recording: Recording, n_numbers: int) -> Callable[[_Kernels, Callable, list[tuple]], Call]:
    """``make(kernels, run, shapes of the results)`` gives a ``Call``, which is written for its arguments: for
    a softmax

        def call(values):
            (a0, _) = values
            f = a0.flags
            if not (f.c_contiguous and f.aligned): a0 = in_order(a0)
            r0 = empty(shape0, dtype0)
            with runner.alone:
                if run(a0, r0): return NotImplemented
            return r0
    """
    arrays = [f"a{k}" for k in range(len(recording.arrays))]
    numbers = [f"n{k}" for k in range(len(recording.numbers))]
    results = [f"r{k}" for k in range(len(recording.computed))]
    of_arrays, of_numbers = iter(arrays), iter(numbers)
    names = dict(zip([*recording.arrays, *recording.computed], [*arrays, *results], strict=True))
    given = [None if atom is None else names[atom] for atom in recording.results]
    lines = [f"{_pattern(recording.made_of, of_arrays, of_numbers)} = values"]
    for a in arrays:
        lines += [f"f = {a}.flags", f"if not (f.c_contiguous and f.aligned): {a} = in_order({a})"]
    lines += [f"{r} = empty(shape{k}, dtype{k})" for k, r in enumerate(results)]
    passed = ", ".join([*arrays, *results, *numbers[:n_numbers]])
    lines += ["with runner.alone:", f"    if run({passed}): return NotImplemented"]
    found = ", ".join(map(str, given))
    lines.append(f"return ({found},)" if recording.several else f"return {found}")
    shapes = ", ".join([f"shape{k}" for k in range(len(results))])
    inner = "\n".join(f"        {line}" for line in lines)
    text = (
        f"def make(kernels, run, shapes):\n    ({shapes},) = shapes\n    runner = kernels.runs_under\n"
        f"    def call(values, kernels=kernels):\n{inner}\n    return call\n"
    )
    space: dict[str, Any] = {"empty": np.empty, "in_order": _in_order}
    space |= {f"dtype{k}": var.dtype for k, var in enumerate(recording.computed)}
    exec(compile(text, "<jtorch formula>", "exec"), space)
    return space["make"]


def _pattern(form: Any, arrays: Iterator[str], numbers: Iterator[str]) -> str:
    """What takes arguments of this form apart."""
    if isinstance(form, _Array):
        return next(arrays)
    if form is float:
        return next(numbers)
    if isinstance(form, (_Constant, _Shape)):
        return "_"
    return f"({''.join(f'{_pattern(part, arrays, numbers)}, ' for part in form)})" if form else "()"


def _in_order(array: np.ndarray) -> np.ndarray:
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")
