"""Bodies and gradients of ops on arrays of a device: recorded once for the sizes of a call, as for the host
in ``bodies.py``, and launched kernel by kernel.

Addresses and numbers are words that a small kernel sets before each run, in the same stream. What reports
errors is waited for; nothing else is.
"""

from __future__ import annotations

import functools
import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.cuda_launch import launches
from jtorch.compile.graph.halves import Multiplies
from jtorch.compile.graph.ir import Graph, Var
from jtorch.compile.pipeline import compile_graph
from jtorch.compile.plan.plan import Destination, Place, Use, Where
from jtorch.compile.run.bodies import Recording, form_of, value_of
from jtorch.compile.run.cuda_patch import patch
from jtorch.compile.run.cuda_products import multiply
from jtorch.compile.run.cuda_steps import Placed, Steps
from jtorch.compile.run.cuda_table import Table
from jtorch.compile.run.cuda_texts import entry_of, load_texts, text_of
from jtorch.compile.run.device_routines import ROUTINES
from jtorch.compile.run.targets import emit_on_device
from jtorch.compile.target import Binding, Target
from jtorch.compile.timings import Timings
from jtorch.core.device_array import DeviceArray
from jtorch.core.dtypes import HALVES
from jtorch.core.environment import Exact
from jtorch.core.op import Kind
from jtorch.core.settings import allows_tf32

_log = logging.getLogger("jtorch.device")

_DTYPES = frozenset(map(np.dtype, ("f4", "f8", "i8", "i4", "i2", "i1", "u1", "?", "u8")))
_KINDS = {Kind.ELEMENTWISE, Kind.REDUCTION, Kind.VIEW, Kind.CONTRACTION}
_WORD = 8
_MOST_NUMBERS = 16  # for which a formula that looks at them has kernels of its own

Call = Callable[[tuple], Any]


class Cache:
    """The calls of a device that are known: for a function, the form of its arguments, and its statics.

    A formula that looks at a number, or divides by one, has kernels for each number that it is called with;
    one that is called with ever new ones goes by the host after a few.
    """

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._made = lru_cache(maxsize=2048)(self._make)
        self._counts: dict[Callable, set[tuple[int, ...]]] = {}  # the ints that a function was called with
        self._numbers: dict[tuple, set[tuple[str, ...]]] = {}  # of a formula that looks at them: those met

    def call_of(
        self, function: Callable, values: tuple, statics: dict[str, Any], moves: Any, parts: Any
    ) -> Call | None:
        if self._has_new_counts(function, values):
            call = self.call_of(function, _as_floats(values), statics, moves, parts)
            return None if call is None else functools.partial(_called_with_floats, call)
        numbers: list[float] = []
        try:
            form = form_of(values, [], numbers)
            fixed = tuple([(name, form_of(value)) for name, value in statics.items()])
        except TypeError:  # an argument that no formula expects, as the sizes of steps
            return None if parts is None else lambda values: function(parts, *values, **statics)
        made = self._made(function, form, fixed, moves, parts)
        if made is not _looks_at_numbers:
            return made
        met = self._numbers.setdefault((function, form, fixed), set())
        digits = tuple([number.hex() for number in numbers])
        if digits not in met and len(met) == _MOST_NUMBERS:
            return None
        met.add(digits)
        return self._made(function, _of_numbers(form, iter(numbers)), fixed, moves, parts)

    def _has_new_counts(self, function: Callable, values: tuple) -> bool:
        """Whether it has been called with many ints, which are constants of kernels, and now with another
        one that is as good as a float, which is none."""
        counts = tuple([value for value in values if value.__class__ is int])
        met = self._counts.setdefault(function, set()) if counts else set()
        if not counts or counts in met:
            return False
        if len(met) < _MOST_NUMBERS:
            met.add(counts)
            return False
        arrays = [value for value in values if value.__class__ is DeviceArray]
        return max(map(abs, counts)) < 1 << 24 and all(a.dtype.kind == "f" for a in arrays)

    def _make(self, function: Callable, form: tuple, fixed: tuple, moves: Any, parts: Any) -> Call | None:
        try:
            with self._memory.native.own():
                recording = Recording(function, form, fixed, ())
                if moves is not None and not recording.computes:
                    return lambda values: function(moves, *values)
                if parts is not None and _has_routines(recording):
                    given = {name: value_of(value) for name, value in fixed}
                    return lambda values: function(parts, *values, **given)
                refusal = _refusal(recording)
                if refusal:
                    raise NotImplementedError(refusal)
                return _Launched(recording, self._memory)
        except (Exception, Exact) as why:
            if _has_numbers(form):
                return _looks_at_numbers
            _log.info("the host computes %s of %s: %s", function.__qualname__, function.__module__, why)
            return None


def _has_routines(recording: Recording) -> bool:
    """Whether all that no formula says has a routine, and there is some of it."""
    opaque = {eqn.op.name for eqn in recording.tracer.eqns if eqn.op.kind is Kind.OPAQUE}
    return bool(opaque) and ROUTINES.keys() >= opaque


def _looks_at_numbers(values: tuple) -> Any:
    raise AssertionError("in the place of a call")


def _called_with_floats(call: Call, values: tuple) -> Any:
    return call(_as_floats(values))


def _as_floats(values: tuple) -> tuple:
    return tuple([float(value) if value.__class__ is int else value for value in values])


def _has_numbers(form: Any) -> bool:
    return form is float or (form.__class__ is tuple and any(map(_has_numbers, form)))


def _of_numbers(form: Any, numbers: Iterator[float]) -> Any:
    """A form with these numbers in it."""
    if form is float:
        return form_of(next(numbers))
    return tuple([_of_numbers(part, numbers) for part in form]) if form.__class__ is tuple else form


def _refusal(recording: Recording) -> str:
    """Why no kernels are made of it."""
    if any(number.guards for number in recording.numbers):
        return "it looks at a number"
    kinds = {eqn.op.kind for eqn in recording.tracer.eqns}
    if kinds - _KINDS:
        return f"it has ops of kind {min(kind.value for kind in kinds - _KINDS)}"
    used = [v for eqn in recording.tracer.eqns for v in (*eqn.inputs, *eqn.outputs) if isinstance(v, Var)]
    known = _DTYPES | HALVES if kinds <= {Kind.CONTRACTION, Kind.VIEW} else _DTYPES
    unknown = {str(v.dtype) for v in used} - {str(dtype) for dtype in known}
    if unknown:
        return f"no kernel of a device computes {min(unknown)}"
    if recording.tracer.inputs:
        return "it reads arrays that are none of its arguments"
    if not all(isinstance(a, Var) for a in recording.computed):
        return "a result is a constant"
    return ""


class _Launched:
    """A plan whose kernels are launched at each call with the addresses of its arrays."""

    def __init__(self, recording: Recording, memory: Any) -> None:
        self.memory, self.device = memory, memory.native
        self.types = [(var.dtype, tuple(var.shape)) for var in recording.computed]
        n, count = len(recording.arrays), len(recording.numbers)
        inputs = (*recording.arrays, *(number.var for number in recording.numbers))
        self.inputs = [Place(Where.INPUT, k) for k in range(n)]
        self.numbers = [Place(Where.INPUT, n + k) for k in range(count)]
        destinations = [Destination(Use.RESULT, k) for k in range(len(self.types))]
        self.results = [destination.place for destination in destinations]
        order = {var: k for k, var in enumerate(recording.arrays)}
        made = {var: k for k, var in enumerate(recording.computed)}
        self.given = [
            None if a is None else (True, order[a]) if a in order else (False, made[a])
            for a in recording.results
        ]
        self.several = recording.several
        self.code: Code | None = None
        if recording.computed:
            graph = Graph(
                recording.tracer.name, inputs, tuple(recording.tracer.eqns), tuple(recording.computed)
            )
            target = Target(
                "cuda, op by op", emit_on_device, lambda code, _, binding: self._loaded(code),
                multiplies=Multiplies.ALL,
            )  # fmt: skip
            compile_graph(graph, destinations, target, Binding(), Timings())

    def _loaded(self, code: Code) -> _Launched:
        self.code, self.plan = code, code.plan
        steps = Steps(code).placed(self._address, {})
        self.placed = [one for one in steps if isinstance(one, Placed)]  # it has no loops
        if any(one.step.is_host for one in self.placed):
            raise NotImplementedError("a library computes a part of it")
        self.compiled = load_texts(code)
        products = [one.step.product for one in self.placed if one.step.product]
        self.copied = self.device.allocate(max((calls.copied_bytes for calls in products), default=0))
        self.arena = self.device.allocate(self.plan.arena_bytes)
        self.addresses: dict[Place, int] = {}
        self.table = Table(self.placed, self.device, self.device.allocate)
        kernels = code.kernels
        self.handles = {t: self.device.kernel(text_of(k), entry_of(k)) for t, k in kernels.items()}
        n_words = sum(len(kernel.arguments) for kernel in kernels.values())
        self.words = self.device.allocate(_WORD * (len(self.numbers) + n_words))
        return self

    def _address(self, var: Var) -> int:
        place = self.plan.places[var]
        return self.arena.address + place.at if place.kind is Where.ARENA else self.addresses[place]

    def __call__(self, values: tuple) -> Any:
        arrays, numbers = list[DeviceArray](), list[float]()
        form_of(values, arrays, numbers)
        numbers = numbers[: len(self.numbers)]  # none where the kernels are for these very ones
        if self.code is None:
            made: list[DeviceArray] = []
        else:
            arrays = [self.memory.in_order(array) for array in arrays]
            made = [self.memory.empty(dtype, shape) for dtype, shape in self.types]
            with self.device.own():
                self._launch(arrays, numbers, made)
                if self.table.n_errors and self.table.failed() is not None:
                    return NotImplemented
        found = [
            None if place is None else arrays[place[1]] if place[0] else made[place[1]]
            for place in self.given
        ]
        return tuple(found) if self.several else found[0]

    def _launch(self, arrays: Sequence[DeviceArray], numbers: Sequence[float], made: Sequence[Any]) -> None:
        assert self.code is not None
        begin = self.words.address
        self.addresses = dict(zip(self.inputs, [a.address for a in arrays], strict=True))
        self.addresses |= dict(zip(self.results, [a.address for a in made], strict=True))
        self.addresses |= {place: begin + _WORD * k for k, place in enumerate(self.numbers)}
        words = [struct.unpack("q", struct.pack("d", number))[0] for number in numbers]
        rows = {}
        for one, block in self.table.blocks().items():
            rows[one] = begin + _WORD * len(words)
            words += block.tolist()
        patch(self.device, begin, words)
        status = self.table.status_span
        self.device.clear(status.start, len(status))
        for placed in self.placed:
            step = placed.step
            if step.product:
                multiply(step.product, self.device, self._address, self.copied, allows_tf32())
                continue
            for launch in launches([step.kernel.work]):
                words = [rows[placed], launch.phase]
                self.device.launch(self.handles[step.task], launch.grid, launch.block, words)
