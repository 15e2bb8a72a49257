"""What the generators of Python and NumPy give a compiled function: arguments that nobody passes.

A recording draws where the function does, and goes on with stand-ins for what it got; when it has ended the
generators are as they were. Each call of the plan draws at its beginning (``Drawing``).
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Literal
from jtorch.compile.observe.draws import Brought, BroughtSize, Draw, Positions, Reckoned, Twister
from jtorch.compile.observe.guards import MISSING
from jtorch.compile.observe.questions import ArgumentReached
from jtorch.compile.observe.scalar import Digits
from jtorch.compile.record.arguments import Arguments
from jtorch.compile.record.arrays import NUMBERS
from jtorch.compile.record.inputs import LARGEST, LeafPlace, NumberInput, ScalarInput, of
from jtorch.compile.record.numpy_arrays import NumpyArray
from jtorch.compile.record.opened import LEAF, Opened, lend_some, open_up
from jtorch.compile.record.shared_memory import FOREIGN, owner
from jtorch.core.dim import Dim, is_symbolic
from jtorch.core.errors import CompileError, Restart
from jtorch.eager.tensor import Tensor, wrap

_OF_INTEGERS = {"add": operator.add, "sub": operator.sub, "floor_divide": operator.floordiv}
_MOST_OPERATORS = 4  # one within the other


class Drawn:
    """The draws of one recording: ``draws`` in their order, as places whose leaves are the last arguments."""

    def __init__(self, tracer: Any, arguments: Arguments) -> None:
        self.tracer, self.arguments = tracer, arguments
        self.known = arguments.known
        arguments.first_drawn = len(arguments.leaves)
        self.draws: list[Opened] = []
        self._positions = Positions()
        self._owners: dict[int, Any] = {}  # of the memory of what was drawn
        # arrays that may be shuffled by their storage: (it, its version, the elements or who brings them)
        self._orders: dict[int, tuple[Any, int, Any]] = {}

    def draw(self, draw: Draw, meet: Callable[[Any], Any]) -> Any:
        """What the function finds for a draw, of which ``meet`` is told the arrays; MISSING where no call
        could draw before its kernels run, or it gets what no argument can be."""
        tracer = self.tracer
        tracer.leave_turn("draws random numbers")
        is_late = tracer.callees or tracer.exchanges or tracer.put_off.any
        if is_late or self.known.draws_by_sizes:
            return MISSING
        self._positions.keep(draw.generator)
        found = open_up(draw.find(self.arguments.leaves, now=False))
        if found is None:
            return MISSING
        form, leaves, containers = found
        if draw.is_live and len(containers) > (draw.name in ("sample", "choices")):
            return MISSING  # a list in there is one from outside, which somebody else may change
        known = {id(owner(e.array)) for e in tracer.arrays.values()} - self._owners.keys()
        leaves = [self._apart(leaf) for leaf in leaves if self._may_be_argument(leaf, known)]
        if len(leaves) != len(found[1]):
            return MISSING
        opened = Opened(draw, len(self.arguments.leaves), form, len(leaves))
        for value in self.arguments.add(lend_some(leaves), opened.start, decide=form == LEAF):
            if type(value) is np.ndarray:
                meet(value)
        self.draws.append(opened)
        shown = [*self.arguments.shown]
        for k in range(opened.start, len(shown)):  # NumPy may go on with them
            if type(shown[k]) is np.ndarray:
                shown[k] = tracer.numpy_arrays.of(tracer.lift(shown[k]))
        return opened.build(shown)[0]

    @property
    def shuffles(self) -> bool:
        """Whether the function is known to shuffle an array that it makes."""
        return self.known.shuffles

    def counts_by_sizes(self) -> None:
        """It makes an array to count by sizes that are symbols, which it may shuffle later."""
        self.known.ranges_by_sizes = True

    def begins_to_shuffle(self) -> bool:
        """An array is about to be shuffled: whether that is news, for which it is recorded once more."""
        if self.known.ranges_by_sizes:
            self.by_sizes()
        return not (self.shuffles or self.known.draws_by_sizes)

    def range(self, array: np.ndarray) -> NumpyArray:
        """What stands for an ``array`` that the function has made, and may shuffle."""
        made = NumpyArray(self.tracer.new(array))
        self._know_order(made, array)
        return made

    def order_of(self, array: Any) -> Any:
        """The elements that ``array`` has at each call, or who brings them; MISSING where nobody knows
        before the call's kernels run."""
        if type(array) is not NumpyArray or array.is_number or array.copied or array.memory.chain:
            return MISSING
        storage, version, order = self._orders.get(id(array.memory.storage), (None, 0, MISSING))
        return order if storage is not None and storage.version == version else MISSING

    def shuffle(self, draw: Draw, array: NumpyArray, meet: Callable[[Any], Any]) -> bool:
        """Have each call write to ``array`` what ``draw`` gives, which shuffles a copy of it: whether it can
        be drawn."""
        position = len(self.arguments.leaves)
        drawn = self.draw(draw, meet)
        if drawn is MISSING:
            return False
        self.tracer.write(wrap(array.memory), drawn.memory)
        self._know_order(array, Brought(position, LeafPlace(position)))
        return True

    def _know_order(self, array: NumpyArray, order: Any) -> None:
        storage = array.memory.storage
        self._orders[id(storage)] = storage, storage.version, order

    def brought(self, number: Any) -> Any:
        """An integer that each call brings as the argument of a draw, or reckons from such; MISSING for one
        that is computed of elements, or of sizes."""
        if not is_symbolic(number):
            return self._reckoned(number.var, _MOST_OPERATORS)
        sizing = self.arguments.sizing
        if sizing is None or type(number) is not Dim:
            return MISSING
        where = {text: (k, axis) for k, texts in sizing.texts.items() for axis, text in enumerate(texts)}
        names = sorted(sizing.env.symbols_in(number.text))
        if not where.keys() >= set(names):  # a mask's, which no call knows before it runs
            return MISSING
        symbols = tuple((name, *where[name]) for name in names)
        return BroughtSize(number.text, symbols, sizing.env.functions)

    def _reckoned(self, atom: Any, limit: int) -> Any:
        if isinstance(atom, Literal):
            return atom.value if type(atom.value) is int else MISSING
        entries = of(NumberInput, self.tracer.inputs)
        entry = next((e for e in entries if e.var is atom and e.kind is int), None)
        if entry is not None:
            return Brought(entry.argument, entry.place, entry.recorded)
        eqn = next((e for e in reversed(self.tracer.eqns) if atom in e.outputs), None)
        if eqn is None or eqn.op.name not in _OF_INTEGERS or not limit or atom.dtype != np.dtype(np.int64):
            return MISSING
        operands = tuple(self._reckoned(operand, limit - 1) for operand in eqn.inputs)
        return MISSING if MISSING in operands else Reckoned(_OF_INTEGERS[eqn.op.name], operands)

    def by_sizes(self) -> None:
        """The arguments of a draw are sizes that are symbols, which no plan knows before it runs: with those
        as numbers it would be recorded for each, so this function's calls draw eagerly."""
        self.known.draws_by_sizes = True

    def _apart(self, leaf: Any) -> Any:
        """A leaf of memory of its own: what has been drawn twice now is not at another call."""
        if not isinstance(leaf, (Tensor, np.ndarray)):
            return leaf
        array = leaf._data if isinstance(leaf, Tensor) else leaf
        if id(owner(array)) in self._owners:
            array = array.copy()
            leaf = wrap(array) if isinstance(leaf, Tensor) else array
        self._owners[id(owner(array))] = owner(array)
        return leaf

    def _may_be_argument(self, leaf: Any, known: set[int]) -> bool:
        if leaf.__class__ is int:
            return abs(leaf) <= LARGEST
        if leaf.__class__ is float or leaf.__class__ is bool or type(leaf) in NUMBERS:
            return True
        is_plain = type(leaf) is np.ndarray or (type(leaf) is Tensor and not has_company(leaf))
        array = leaf._data if isinstance(leaf, Tensor) else leaf
        if not is_plain or type(array) is not np.ndarray or array.dtype.kind not in "fiub":
            return False
        return owner(array) is not FOREIGN and id(owner(array)) not in known

    def check_unasked(self, positions: Iterable[int]) -> None:
        """Raise CompileError where the program asks which object something drawn is, or the like."""
        for position in positions:
            self._check(position, "of which the program asks more than the elements")

    def check_unread(self, position: int) -> None:
        """Raise CompileError where NumPy reads the elements of an array that was drawn."""
        self._check(position, "and NumPy reads the elements that it gives")

    def _is_fresh(self, position: int) -> bool:
        """Whether what is there was made by the draw."""
        found = [e.place for e in self.draws if e.start <= position < e.start + e.n]
        return not any(draw.is_live for draw in found)

    def _check(self, position: int, why: str) -> None:
        for each in self.draws:
            if each.start <= position < each.start + each.n:
                raise self.error(each.place, why)

    def check(self, effects: Any) -> None:
        """Raise CompileError where the recording rests on the digits of a number that was drawn, or writes to
        what was drawn out of a container, or gives it a gradient: it may have been drawn twice."""
        written = [entry.argument for entry in effects.writes if entry.argument is not None]
        owners = [tensor for tensor, *_ in (*effects.grads, *effects.shared_grads)]
        written += [self.tracer.places[id(t)] for t in owners if id(t) in self.tracer.places]
        for position in written:
            if not self._is_fresh(position):
                self._check(position, "and writes to what that gives")
        for entry in of(ScalarInput, self.tracer.inputs):
            position = -1 if entry.argument is None else entry.argument
            if any(asked.test is operator.eq and asked.outcome for asked in entry.guards):
                self._check(position, "whose digits the program asks for")

    def put_back(self) -> None:
        """Have the generators be as they were before the recording."""
        self._positions.put_back()

    def refusal(self, found: Restart) -> CompileError | None:
        """The error where the recording must begin again since it asks for what only a call can know: the
        digits of a number that is drawn, or which object something drawn is."""
        if isinstance(found, Digits):
            asked = set(found.arguments) | {p.argument for p in found.places if isinstance(p, LeafPlace)}
        else:
            asked = {found.place} if isinstance(found, ArgumentReached) else set()
        for each in self.draws:
            if not asked.isdisjoint(range(each.start, each.start + each.n)):
                return self.error(each.place, "whose value the program asks for")
        return None

    def error(self, draw: Any, why: str) -> CompileError:
        return CompileError(
            f"{draw.source}: '{self.tracer.name}' calls {draw.label()}, {why}: a recording would keep it. "
            "Draw outside and pass in what you get, or draw with jtorch.rand."
        )


def has_company(tensor: Tensor) -> bool:
    """Whether a tensor that is drawn is more than its elements: what stands for it has nothing of that."""
    return tensor._requires_grad or tensor._grad is not None or bool(getattr(tensor, "__dict__", None))


@contextmanager
def looking(draws: Iterable[Opened]) -> Iterator[None]:
    """What is drawn inside, the generators have not given."""
    positions = Positions()
    try:
        for each in draws:
            positions.keep(each.place.generator)
        yield
    finally:
        positions.put_back()


class Drawing:
    """The ``draws`` of the calls of one plan. Where one answers ``miss``, or fails before its ``clock``
    has counted on, the generators are as before."""

    def __init__(self, draws: Sequence[Opened]) -> None:
        names: dict[int, set[str]] = {}
        generators = {id(each.place.generator): each.place.generator for each in draws}
        for each in draws:
            names.setdefault(id(each.place.generator), set()).add(each.place.name)
        self.generators = [*generators.values()]
        self._twisters = [Twister.of(generator, names[key]) for key, generator in generators.items()]
        self._here = threading.local()  # with the positions of this thread's call

    def begin(self) -> None:
        """A call draws from now on."""
        self._here.positions = positions = Positions()
        for generator, twister in zip(self.generators, self._twisters, strict=True):
            if twister is not None and twister.is_current:
                positions.keep_words(twister)
            else:
                positions.keep(generator)

    def around(self, call: Callable[[Any], Any], clock: Any, miss: Any) -> Callable[[Any], Any]:
        """``call``, which begins to draw once it is seen that it may be for its arguments."""
        if not self.generators:
            return call

        def drawing(leaves: Any) -> Any:
            count, self._here.positions = clock.count, Positions()
            try:
                result = call(leaves)
            except BaseException:
                if clock.count == count:
                    self._here.positions.put_back()
                raise
            if result is miss:
                self._here.positions.put_back()
            return result

        return drawing
