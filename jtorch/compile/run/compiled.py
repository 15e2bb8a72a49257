"""One compiled capture: its program, its state, and the guards under which it may be replayed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.at_sizes import at_sizes
from jtorch.compile.graph.ir import Graph, Var, text
from jtorch.compile.observe.guards import by_value
from jtorch.compile.observe.reading import Question
from jtorch.compile.observe.values import alike
from jtorch.compile.pipeline import compile_graph, planned
from jtorch.compile.plan.plan import Destination, Place, Plan, Use, Where
from jtorch.compile.record.capture import Capture
from jtorch.compile.record.drawn import Drawing
from jtorch.compile.record.handed import with_arguments
from jtorch.compile.record.inputs import (
    ArrayInput,
    ConstantInput,
    CounterInput,
    GradInput,
    NumberInput,
    ScalarInput,
    Visitor,
)
from jtorch.compile.record.sizing import Sizing
from jtorch.compile.run import caller, targets
from jtorch.compile.run.backward import Backward
from jtorch.compile.run.counting import Counting
from jtorch.compile.run.counts import Counts, ahead_of
from jtorch.compile.run.lines import written
from jtorch.compile.run.state import Clock, Gradients, follow
from jtorch.compile.target import Binding, Target
from jtorch.compile.timings import Timings
from jtorch.core import watch
from jtorch.core.device_array import DeviceArray, address_of
from jtorch.core.errors import CompileError, OtherCount
from jtorch.core.op import Context
from jtorch.eager.tensor import Tensor


class Wiring(Visitor[None]):
    """Where the inputs and outputs of a capture come from and go to, as the executor sees them."""

    def __init__(self, capture: Capture) -> None:
        self.binding = Binding()
        self.order: list[Any] = []  # what each executor argument is: an input, or ("result", index)
        self.counters: list[tuple[np.ndarray, CounterInput]] = []
        for k, entry in enumerate(capture.inputs):
            self.place = Place(Where.INPUT, k)
            entry.visit(self)

    def array(self, entry: ArrayInput) -> None:
        if entry.argument is not None or entry.rebound is not None or not _in_order(entry.array):
            self._bring(entry)
        elif entry.array.__class__ is DeviceArray:
            self.binding.fix_there(self.place, entry.array, address_of(entry.array))
        else:
            self.binding.fix(self.place, entry.array)

    def constant(self, entry: ConstantInput) -> None:
        self.binding.fix(self.place, entry.array)

    def grad(self, entry: GradInput) -> None:
        self._bring(entry)

    def scalar(self, entry: ScalarInput) -> None:
        self.binding.bring_number(self.place)
        self.order.append(entry)

    def number(self, entry: NumberInput) -> None:
        self._bring(entry)

    def counter(self, entry: CounterInput) -> None:
        word = np.zeros(1, np.uint64)
        self.binding.fix(self.place, word)
        self.counters.append((word, entry))

    def _bring(self, entry: Any) -> None:
        self.binding.bring(self.place)
        self.order.append(entry)

    def add_result(self, index: int) -> Place:
        self.place = Place(Where.RESULT, index)
        self._bring(("result", index))
        return self.place


def _in_order(array: np.ndarray) -> bool:
    return bool(array.flags.c_contiguous) and bool(array.flags.aligned)


class CompiledPlan:
    """A capture made executable. ``call(leaves)`` runs it, or answers ``caller.MISS``."""

    used = -1  # when a call last took the long way to it
    once = False  # whether it holds for one call only
    memory: Any = None  # of the device that the tensors are on, if they are on one
    settled: Any = None  # the modes that its recording set and found set already
    facts: Any = None  # what it was recorded under, in words: see ``inspect/facts.py``
    profiled: Any = None  # what ``profile()`` found the latest time
    counting: Counting | None = None  # what computes how many elements masks name, once that is asked
    number = 0  # of the recordings of its function, from 1

    def __init__(
        self, capture: Capture, leaves: list[Any], context: Context, timings: Timings,
        target: Target,
    ) -> None:  # fmt: skip
        self.capture, leaves = capture, capture.whole(leaves)
        self.timings = timings
        self.gradients = Gradients()
        if capture.device is not None:
            self.memory = targets.device_memory()
            self.gradients.zeros = self._zeros_there
            if capture.differentiable:
                raise CompileError(
                    f"'{capture.name}' gives a tensor on {capture.device} with its graph, to go backward "
                    "outside: call backward() in the compiled function."
                )
        self.clock = Clock()
        self.wiring = Wiring(capture)
        self.grad_outputs: list[tuple[Any, Any]] = []  # (argument tensor's position, result index)
        self.grad_writes: list[tuple[GradInput, int]] = []  # gradients changed in place, result index
        self.cleared: list[Any] = []  # tensors whose grad the function leaves None
        # for a capture whose results are differentiated outside
        self.backward = Backward(capture, leaves, target) if capture.differentiable else None
        self.destinations, self.target = self._destinations(), target  # that of plans for one size
        if capture.sizing is not None:
            target = targets.of_sizes(target, capture.sizing.env)
        self.program = compile_graph(self.forward, self.destinations, target, self.wiring.binding, timings)
        self.runner = self.program.runner
        self.gradients.move = lambda k, address: self.runner.move(Place(Where.GRAD, k), address)
        self._follow_versions()
        self.statics = _statics(leaves, capture)
        self.rely_on(capture.subscription)
        self.counts = self._counts()
        self.drawing = Drawing(capture.drawn)
        self.lines, self.written = caller.make(self, leaves, context)
        call = self.drawing.around(self.written, self.clock, caller.MISS)
        if capture.calls_out:
            call = with_arguments(call)
        self.call = self.counts.followed(call) if self.counts.latest else call
        if capture.sizing is not None:
            capture.sizing.env.close()
        self.clock.stop_with(self.call)

    def __repr__(self) -> str:
        tasks = len(self.program.plan.tasks)
        return (
            f"<plan {self.number} of '{self.capture.name}': {tasks} steps; .program has its graph and "
            "kernels, .source its guards>"
        )

    @property
    def source(self) -> str:
        """The text of ``call``."""
        return written(self.lines)

    def _counts(self) -> Counts:
        sizing = self.capture.sizing or Sizing()
        if not sizing.counts:
            return Counts(sizing, lambda leaves: {}, lambda leaves: {})
        entries = {entry.var: entry for entry in self.capture.inputs}
        ahead = ahead_of(self.forward, sizing.counted, entries)

        def computed(leaves: Sequence[Any]) -> dict[str, int]:
            space = self._space(sizing, self.capture.whole(list(leaves)))
            return {name: space[name] for name in sizing.counts}

        return Counts(sizing, computed, ahead)

    def replay(self, leaves: list[Any]) -> Any:
        """Run it for a call, or answer ``caller.MISS``. Containers are handed over where they are needed, or
        a backward pass outside would keep them."""
        return self.call(leaves if self.capture.needs_containers else tuple(leaves))  # type: ignore[arg-type]

    def _destinations(self) -> list[Destination]:
        capture, destinations = self.capture, []
        for k in range(capture.n_results):
            self.wiring.add_result(k)
            destinations.append(Destination(Use.RESULT, k))
        index_of = {id(e): k for k, e in enumerate(capture.inputs)}
        destinations += [Destination(Use.WRITE, index_of[id(e)]) for e in capture.effects.writes]
        self.n_results = capture.n_results
        for entry in capture.effects.grad_writes:
            self.grad_writes.append((entry, self._add_result(destinations)))
        for tensor, atom in capture.effects.grads:
            if atom is None:
                self.cleared.append(tensor)
            elif id(tensor) in capture.places:  # an argument's grad: another tensor at each call
                self.grad_outputs.append((capture.places[id(tensor)], self._add_result(destinations)))
            else:
                destinations.append(self._grad_destination(tensor, atom))
        self.first_saved = self.n_results
        for _ in range(self.backward.n_saved if self.backward else 0):
            self._add_result(destinations)
        return destinations

    def _add_result(self, destinations: list[Destination]) -> int:
        """One more output that the executor writes to fresh memory; its number among those."""
        index = self.n_results
        self.wiring.add_result(index)
        destinations.append(Destination(Use.RESULT, index))
        self.n_results += 1
        return index

    def _grad_destination(self, tensor: Any, atom: Any) -> Destination:
        slot = self.gradients.add(tensor, atom.type if isinstance(atom, Var) else _type_of(tensor))
        place, binding = Place(Where.GRAD, slot.index), self.wiring.binding
        # not kept: whoever keeps the gradient has the plan take another buffer
        binding.fixed[place] = address_of(slot.buffer)
        if slot.buffer.__class__ is DeviceArray:
            binding.resident.add(place)
        return Destination(Use.GRAD, slot.index)

    def _zeros_there(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return self.memory.uploaded(np.zeros(shape, dtype))

    def empty_there(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Memory on the device that the tensors are on."""
        return self.memory.empty(dtype, shape)

    def lies_there(self, index: int) -> bool:
        """Whether result ``index`` is an array on a device."""
        capture = self.capture
        if capture.device is None:
            return False
        return index >= capture.n_results or capture.graph.outputs[index] in capture.on_device

    def _follow_versions(self) -> None:
        for entry in self.capture.effects.writes:
            if entry.argument is None:
                for cell in entry.cells.values():
                    follow(cell, self.clock, self.capture.effects.advances[id(cell)])

    # -- being asked ----------------------------------------------------------------------------------------

    def graph_for(self, leaves: list[Any]) -> Graph:
        """The recorded graph, of the sizes of these arguments."""
        return self._of_sizes(self.capture.graph, leaves)

    def plan_for(self, leaves: list[Any], graph: Graph | None = None) -> tuple[Plan, Target]:
        """The plan that calls of these arguments run, and what runs it; where sizes are symbols, what it
        would be for these alone, of ``graph`` if that is what ``graph_for`` gave."""
        if self.capture.sizing is None:
            return self.program.plan, self.program.target
        if graph is None or self.backward is not None:
            graph = self._of_sizes(self.forward, leaves)
        return planned(graph, self.destinations, Timings(), self.target.multiplies), self.target

    def _of_sizes(self, graph: Graph, leaves: list[Any]) -> Graph:
        sizing = self.capture.sizing
        return graph if sizing is None else at_sizes(graph, self._space(sizing, leaves))

    def _space(self, sizing: Sizing, leaves: list[Any]) -> dict[str, Any]:
        """The symbols as they are for these arguments; how many elements masks name by computing them."""
        space = sizing.space(leaves)
        if sizing.counts:
            if self.counting is None:
                self.counting = Counting(self.forward, sizing.counted)
            given = {entry.var: entry.value(leaves) for entry in self.capture.inputs}
            inputs = self.forward.inputs
            # a mask that has one number here may have another in this call
            with contextlib.suppress(OtherCount):
                self.counting.complete(space, {var: np.asarray(given[var], var.dtype) for var in inputs})
        return space

    @property
    def forward(self) -> Graph:
        """What its passes began with: the recorded graph, or the forward part where the other runs apart."""
        return self.capture.graph if self.backward is None else self.backward.split.forward

    def accepts_again(self, capture: Capture, leaves: list[Any], context: Context) -> bool:
        """After something outside changed: whether this plan still is what recording gives. If so it
        subscribes anew."""
        if not self.news or not self.same_program(capture):
            return False
        leaves = capture.whole(leaves)
        if not all(map(alike, self.statics, _statics(leaves, capture))):
            return False
        if caller.make(self, leaves, context)[0] != self.lines or not self._serves(leaves, capture):
            return False
        self.rely_on(capture.subscription)
        if self.capture.later is not None and capture.later is not None:
            self.capture.later.renew(capture.later)
        return True

    def _serves(self, leaves: list[Any], capture: Capture) -> bool:
        """Whether a plan over symbols is one for the sizes of these arguments, too, and for how many elements
        masks name in ``capture``, the recording of their call."""
        sizing = self.capture.sizing
        if sizing is None:
            return True
        space = sizing.space(leaves) | (capture.sizing.counts if capture.sizing is not None else {})
        return self.runner.at(*(space[name] for name in sizing.env.symbols)) is not None

    def rely_on(self, subscription: watch.Subscription) -> None:
        """What others tell ``subscription`` of makes the plan look again; there is nothing in ``news`` where
        all is as it was recorded."""
        self.subscription, self.news = subscription, subscription.news

    def told(self) -> list[str]:
        """What was told to be another one than when the plan was recorded, in words."""
        return self.subscription.told()

    def is_as_before(self) -> bool:
        """Whether what was told is as it was when the plan was recorded."""
        return self.subscription.is_as_before()

    def holds_for_one_call(self, capture: Capture) -> None:
        """Note in ``once`` whether ``capture``, a recording of this plan, has left modules in modes, or
        tensors with a ``requires_grad``, that it did not find: recorded again, it may be another program.
        """
        made = {id(result.value) for result in capture.results} | capture.own
        flags, moved = capture.journal.finish(made | capture.places.keys())
        if not moved:
            self.settled = flags
        self.once = moved and flags != self.settled

    def same_program(self, capture: Capture) -> bool:
        """Whether a new recording is this plan's own program over the same memory."""
        mine, other = self.capture, capture
        if len(mine.inputs) != len(other.inputs) or text(mine.graph, False) != text(other.graph, False):
            return False
        pairs = zip(mine.inputs, other.inputs, strict=True)
        return all(a.identity == b.identity for a, b in pairs) and _facts(mine) == _facts(other)


def _facts(capture: Capture) -> tuple:
    """What else than inputs and graph a plan is made from, in a form that compares."""

    def named(tensor: Any) -> Any:
        return capture.places.get(id(tensor), ("tensor", id(tensor)))

    inputs = {id(e): k for k, e in enumerate(capture.inputs)}
    effects = capture.effects
    return (
        capture.structure,
        None if capture.sizing is None else capture.sizing.facts(),
        [(key, *_question_facts(question)) for key, question in capture.questions.items()],
        [(type(place), id(place.container), by_value(place.key)) for place in capture.written],
        [*map(by_value, capture.constants)],
        [change.facts() for change in capture.changes],
        [place.identity for place in capture.replaced],
        [(each.place.identity, each.form) for each in (*capture.opened, *capture.drawn)],
        ([*map(id, capture.windows)], capture.fixed, capture.exact),
        (capture.wanted, capture.differentiable, capture.toggled, capture.detached),
        [(named(t), a is None) for t, a in effects.grads],
        [
            (named(t), named(grad) if shown is None else shown.facts(inputs, named))
            for t, grad, shown in effects.shared_grads
        ],
        [[inputs[id(e)] for e in entries] for entries in (effects.writes, effects.grad_writes)],
        [(id(g), n) for g, n in effects.draws],
        [[effects.advances[c] for c in entry.cells] for entry in effects.writes],
        [entry.advances for entry in effects.grad_writes],
        [named(t) for t in capture.leaves],
        [read.facts() for read in capture.plain],
        [result.facts(inputs, named) for result in capture.results],
    )


def _question_facts(question: Question) -> tuple:
    """A question's text, and what it compares with."""
    named: list[Any] = []

    def name(prefix: str, value: Any) -> str:
        named.append(by_value(value))
        return prefix

    return question(name), named


def _statics(leaves: list[Any], capture: Capture) -> list[Any]:
    """The arguments that guards compare with themselves."""

    def is_another(k: int) -> bool:  # at each call, and any will do
        value = leaves[k]
        if capture.sizing is not None and k in capture.sizing.texts:
            return True
        return isinstance(value, Tensor) or value.__class__ is float or k in capture.counted

    return [None if is_another(k) and k not in capture.fixed else leaves[k] for k in range(len(leaves))]


def _type_of(tensor: Any) -> Any:
    from jtorch.compile.record.memory import tensor_type

    return tensor_type(tensor)
