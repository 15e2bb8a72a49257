"""The tracer: an evaluator that records ops instead of computing them.

Eager mode runs unchanged on traced values (``Sym``), so the tape, the engine, the modules and the
optimizers are captured with no code of their own. What the step touches is discovered: see ``memory.py``.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jtorch.compile.graph.faults import fault_in
from jtorch.compile.graph.ir import Atom, Var
from jtorch.compile.observe import effects as plain_state
from jtorch.compile.observe.guards import OptionRead, Read
from jtorch.compile.observe.observer import quietly
from jtorch.compile.observe.questions import ArgumentReached
from jtorch.compile.observe.scalar import (
    Digits,
    Scalar,
    check_arithmetic,
    computed,
    expect_real,
    formula_of,
    with_pythons_sign,
)  # fmt: skip
from jtorch.compile.observe.texts import check_text
from jtorch.compile.record import exchange, items, loops, while_loops
from jtorch.compile.record.branches import Branches
from jtorch.compile.record.generators import Generators
from jtorch.compile.record.graphs import Graphs, check_uses_gradient
from jtorch.compile.record.inputs import (
    LARGEST,
    GradInput,
    LeafPlace,
    NumberInput,
    ScalarInput,
    of,
)
from jtorch.compile.record.items import Item
from jtorch.compile.record.layouts import order_of, order_of_copy
from jtorch.compile.record.memory import Memory, tensor_type
from jtorch.compile.record.operands import broadcast, check_operands
from jtorch.compile.record.put_off import PutOff
from jtorch.compile.record.sym import Sym
from jtorch.core import op as op_module, watch
from jtorch.core.device_array import ARRAYS
from jtorch.core.dim import is_symbolic
from jtorch.core.environment import Exact
from jtorch.core.errors import CompileError, Source, user_source
from jtorch.core.narrow import evaluated
from jtorch.core.op import BY_NAME, TABLE, Kind, Op
from jtorch.core.strides import has_spread_axis, takes_sums
from jtorch.eager.evaluate import EAGER

_UNSQUEEZE, _PERMUTE = BY_NAME["unsqueeze"], BY_NAME["permute"]
_POW, _REMAINDER = BY_NAME["pow"], BY_NAME["remainder"]


class Tracer(Memory):
    """Records one run of a function. ``eqns`` and ``inputs`` grow; ``graph`` closes it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.table = [self._recorder(op) for op in evaluated()]
        self.xp = _Namespace(self)
        self.shown_grads: dict[int, Any] = {}  # id of a gradient over outside memory -> how it shows that
        self.grads: dict[int, tuple[Any, Any, Any]] = {}  # id of tensor -> (tensor, at entry, now)
        self.generators = Generators(self)
        self.put_off = PutOff(self)
        self.argument_tensors: dict[int, int] = {}  # and for the very tensors
        self.scalars: dict[Any, Scalar] = {}
        self.advances: dict[int, int] = {}  # id of such a cell -> by how much it moved on
        self.options: list[Read] = []  # flags that decided what was recorded
        self.branches = Branches(self)
        self.graphs = Graphs(self)
        self.callees: list[Any] = []  # calls of disabled functions, see ``callees``
        self.written_places: Callable[[], list[Any]] = list  # what was written outside so far
        self.exchanges: list[Any] = []  # collectives between processes, see ``exchange``
        self.log: list[Any] = []  # what such calls gave in an earlier attempt at this recording
        self.seen: Any = None  # where such functions were tried, if they must be: see ``trials``
        self.readings: list[Any] = []  # of clocks
        self.called_out: list[str] = []  # their names, as they begin to run
        self.raised: list[Any] = []  # those that raised an error, with the error
        self.on_the_way_back = False  # while code runs that a later backward() would run: see ``later``
        self.flowing: dict[Any, tuple[bool, ...]] | None = None  # by node: which inputs get a gradient
        self.several_results = False  # whether a later backward() may come from some of them alone
        self.gets_zeros = False  # a Function may, for outputs that nobody goes back from
        self.ran_again: list[Callable] = []  # what checkpoints ran then
        self.plain_effects = plain_state.Effects()  # what is written outside, besides tensors
        self.called_at = user_source()  # the line of the call that is recorded
        self.going_back_through: Source | None = None  # the line that made the node whose gradient is asked

    # -- recording -------------------------------------------------------------------------------------

    def _recorder(self, op: Op) -> Any:
        run = self._run_composite if op.kind is Kind.COMPOSITE else self.record
        return quietly(functools.partial(self._run, run, op))

    def _run(self, run: Callable, op: Op, *values: Any, **statics: Any) -> Any:
        """``run`` for an op of the user's; a fault of ours counts, whatever they do with exceptions."""
        begin = len(self.eqns)
        try:
            found = run(op, *values, **statics)
        except Exception as error:
            fault = fault_in(error, self.name)
            if fault is None:
                raise
            raise fault from fault.origin
        self.graphs.nodes.begin = begin  # of a composite, too, whose ops came before
        return found

    def _run_composite(self, op: Op, *values: Any, **statics: Any) -> Any:
        return op.body(self.xp, *map(self.lift, values), **statics)

    runs_nodes = False
    narrows = True
    reads_elements = False

    @property
    def counts_masks(self) -> bool:  # type: ignore[override]
        return self.branches.masks is not None

    def places_of_mask(self, mask: Any) -> Any:
        return self.branches.places_of_mask(mask)

    def repeated_places(self, repeats: Any) -> Any:
        return self.branches.repeated_places(repeats)

    def walk(self, targets: Iterable[Any]) -> None:
        self.graphs.walk(targets)

    def limit(self, wanted: Sequence[Any], targets: Iterable[Any]) -> None:
        if self.flowing is None:  # else it is what a backward() outside will do
            self.graphs.limit(wanted, targets)

    def backward(self, node: Any, xp: Any, g: Any) -> Any:
        """A node's gradient with everything it saved as traced values: arithmetic among saved arrays must be
        recorded, too."""
        self.going_back_through = self.graphs.made.get(node)
        start = len(self.eqns)
        if node.foreign:
            found = node.backward(xp, g)
            if self.several_results and not node.linear:
                check_uses_gradient(self, node, g, found, self.eqns[start:])
        else:
            found = quietly(node.vjp)(xp, g, *map(self.lift, node.check_saved()))
        if self.flowing is not None:
            parts = found if isinstance(found, tuple) else (found,)
            self.flowing[node] = tuple(part is not None for part in parts)
        self.graphs.nodes.went_back(node, start)
        return found

    def record(self, op: Op, *values: Any, **statics: Any) -> Any:
        """Append the equation of a primitive and return its traced result."""
        self.check_open(*values)
        statics = {k: normal(v) for k, v in (op.defaults | statics).items()}
        if op.kind is Kind.VIEW and op.aliases:
            return self._view(op, self.lift(values[0]), statics)
        if op.kind is Kind.ELEMENTWISE:
            values = tuple(map(self._number_or_lift, values))
            scalars = [v for v in values if isinstance(v, Scalar)]
            numbers = scalars and op.dtype != "static" and not any(isinstance(v, Sym) for v in values)
            if op.beside_numbers is not None and not numbers:  # which have Python's powers
                found = op.beside_numbers(self.xp, *values)
                if found is not None:
                    return found
            if numbers and any(isinstance(v, Item) for v in scalars):
                return items.arithmetic(self, op, values)
            check_operands(op, values, statics)
            atoms = broadcast(self, op, values, statics)
            if numbers:
                return self._arithmetic(op, values, atoms)
        else:
            atoms = [self.read(self.lift(v)) for v in values]
        if statics.get("keepdims"):  # one form in the graph: reduce, then put the axes back
            kept = self.record(op, *values, **statics | {"keepdims": False})
            return self.record(_UNSQUEEZE, kept, axes=statics["axis"])
        outputs = self.emit(op, atoms, statics)
        made = tuple(self._laid_out(op, v, values, statics) for v in outputs)
        return made if op.n_outputs > 1 else made[0]

    def _laid_out(self, op: Op, var: Var, values: tuple, statics: dict[str, Any]) -> Sym:
        """A result as traced memory, in the order in which eager mode has it: see ``layouts``."""
        along_axes = op.kind is Kind.REDUCTION and "axis" in statics
        if op.layout == "rows" or (op.kind is Kind.REDUCTION and not along_axes):
            return self.fresh(var)
        operands = [v for v in map(self.lift, values) if isinstance(v, Sym)]
        if all(v.in_order for v in operands):
            return self.fresh(var)
        reduced = statics["axis"] if along_axes else ()
        shape = operands[0].shape if along_axes else var.shape
        if op.layout == "copy":
            order = order_of_copy(operands[0].element_strides)
        else:
            order = order_of([(v.shape, v.element_strides) for v in operands], shape, reduced)
        if order is None:
            return self.fresh(var)
        stored = self.fresh(self.emit(_PERMUTE, [var], {"axes": order})[0])
        made = self._view(_PERMUTE, stored, {"axes": tuple(np.argsort(order).tolist())})
        made.known = (0, var)
        return made

    def _arithmetic(self, op: Op, values: tuple, atoms: list[Atom]) -> Any:
        """An op among runtime scalars and numbers: again a runtime scalar."""
        complex_root = check_arithmetic(op.name, *values, *[None] * (2 - len(values)))
        if complex_root is not None:
            return complex_root
        if (
            op is _POW and values[1].__class__ is float and abs(values[1]) == 0.5
        ):  # as a number beside it PyTorch takes a root: see ``_root``
            atoms = [atoms[0], self.read(self.new(np.asarray(values[1], np.float64)))]
        (var,) = self.emit(op, atoms, {})
        if op is _REMAINDER:
            signed = self.read(with_pythons_sign(self, self.fresh(var), values[1]))
            assert isinstance(signed, Var)
            var = signed
        scalars = [v for v in values if isinstance(v, Scalar)]
        origins = tuple(dict.fromkeys(o for s in scalars for o in s.origins))
        sizes = (*(n for s in scalars for n in s.sizes), *filter(is_symbolic, values))
        known = tuple({n.text: n for n in sizes}.values())
        value = float(computed(op, values))
        made = Scalar(self, var, value, origins, formula_of(op, values), known)
        expect_real(self, op.name, values, made)
        return made

    def _number_or_lift(self, value: Any) -> Any:
        return value if isinstance(value, (bool, int, float, Scalar)) else self.lift(value)

    # -- the evaluator's other duties ------------------------------------------------------------------------

    def concrete(self, value: np.ndarray, wanted_by: str) -> np.ndarray:
        return self.lift(value).concrete(wanted_by)

    def check_text(self) -> None:
        if self.open and self.observer is not None:
            check_text(self.observer)

    @contextmanager
    def outside(self, owner: Any = None) -> Iterator[None]:
        if self.observer is not None and id(owner) in self.observer.inside:
            yield
            return
        if owner is None and self.has_symbols:  # these very sizes may have to be recorded, once more
            raise Exact("a module takes its shapes from its first call, which is done once")
        with self._eagerly():
            yield

    @contextmanager
    def _eagerly(self) -> Iterator[None]:
        before = op_module.CONTEXT.get()
        try:  # before the change: Ctrl-C may come right after it
            op_module.CONTEXT.set(before.replace(evaluator=EAGER))
            yield
        finally:
            op_module.CONTEXT.set(before)

    def scalar(self, container: Any, key: Any) -> Any:
        value = container
        for k in key if isinstance(key, tuple) else (key,):
            value = value[k]
        if hasattr(value, "_data") and self._is_written(value._data):
            return value.item()  # computed by the function itself
        if (id(container), key) in self.plain_effects.known:
            return value  # which it has put there
        self._check_known(container, key)
        with self._eagerly():  # a rate that is a tensor of one element is read at once
            entry = ScalarInput.of(container, key)
        return self.runtime_scalar(entry)

    def _is_written(self, data: Any) -> bool:
        """Whether a tensor over ``data`` has other elements than at the beginning of the call."""
        if not isinstance(data, ARRAYS):
            return True
        return any(e.written and np.may_share_memory(e.array, data) for e in self.arrays.values())

    def option(self, container: Any, key: Any) -> Any:
        if (id(container), key) not in self.plain_effects.known:
            self.options.append(OptionRead(container, key, container[key]))
        return container[key]

    def keep(self, container: Any, key: Any, value: Any) -> None:
        self.plain_effects.write(plain_state.Place(container, key), value)
        container[key] = value

    def afterwards(
        self, function: Callable, owner: Any, arguments: tuple, named: dict[str, Any], changes: Callable
    ) -> Any:
        """Have each call end with ``function(owner, ...)``, as plain Python: what a scheduler's step computes
        is not recorded."""
        if self.observer is None or id(owner) in self.observer.inside:
            return function(owner, *arguments, **named)
        self.only_now(f"calls {function.__name__}() of a {type(owner).__name__}")
        if not plain_state.may_be_written((*arguments, named)):
            self.refuse(
                f"hands {function.__name__}() of a {type(owner).__name__} more than tensors and numbers",
                "Call it outside.",
            )
        self.put_off.note(f"{function.__name__}() of a {type(owner).__name__}", owner)
        place = plain_state.Afterwards(owner, function, changes=changes)
        self.plain_effects.put_off(place, (arguments, named), changes())
        return None

    def _check_known(self, container: Any, key: Any) -> None:
        """Raise for what a scheduler will have set, but only when the call has ended."""
        if id(container) in self.plain_effects.unsettled:
            raise CompileError(
                f"{self.line()}: '{self.name}' reads {key!r} after a call of a scheduler's step(), or of a "
                "scaler's update(), that changes it. A compiled function makes these calls when it has "
                "ended: put them last."
            )

    def scan(self, steps: Any, count: int, reverse: bool) -> Any:
        return loops.record(self, steps, count, reverse)

    def while_loop(self, turns: Any, bound: int) -> Any:
        return while_loops.record(self, turns, bound)

    def unrolls(self, what: str, times: int, way_out: str) -> None:
        here = self.line()
        place = (here.file, here.line)
        if times > MANY and place not in _WARNED:
            _WARNED.add(place)
            text = (
                f"'{self.name}' runs {what} {times} times, one after the other, and its recording holds "
                f"each: recording and compiling take as many times as long. {way_out}"
            )
            warnings.warn_explicit(text, UserWarning, *place)

    def refuse(self, what: str, way_out: str) -> None:
        does = f"'{self.name}' {what}, which a recording would do once"
        raise CompileError(f"{user_source()}: {does}. {way_out}")

    def only_now(self, does: str) -> None:
        """Raise CompileError for what follows where a backward() would do it that comes later."""
        if self.on_the_way_back:
            raise self.too_early(does)

    def too_early(self, does: str) -> CompileError:
        """The error of code on the way back that ``does`` what only a later backward() could do."""
        here = self.line()
        return CompileError(
            f"{here}: on the way back through '{self.name}' backward of a custom Function, a hook or the "
            f"second run of a checkpoint {does}. That belongs to the backward() that comes later, outside. "
            "Call backward() inside (for a checkpoint with use_reentrant=True use_reentrant=False may do, "
            "too); or do it in forward, and keep on ctx what is needed."
        )

    def line(self) -> Source:
        """The user's line that is running; on the way back, where none is, that of the node gone through."""
        here = user_source()
        return self.going_back_through or here if here == self.called_at else here

    def runs_again(self, function: Callable, goes_back: bool = False) -> None:
        if goes_back:
            self.only_now("is a backward pass of its own (a checkpoint with use_reentrant=True)")
        if self.on_the_way_back:
            self.ran_again.append(function)

    def runtime_scalar(self, entry: ScalarInput) -> Scalar:
        self.only_now("reads a number that is another one at each call")
        found = self.scalars.get(entry.origin)
        if found is None:
            self.inputs.append(entry)
            found = Scalar(self, entry.var, entry.recorded, (entry,))
            self.scalars[entry.origin] = found
        return found

    def number(self, place: Any) -> Item:
        """The number at ``place`` as one that changes from call to call."""
        self.only_now("reads a number that is another one at each call")
        value = place.get()
        if abs(value) > LARGEST and isinstance(value, int):
            raise CompileError(
                f"'{self.name}' counts on from {value}, which is too large for compiled code "
                "(more than 2**61): keep it outside."
            )
        return self._counted(NumberInput(place, value))

    def leaf(self, argument: int, value: int, decides: bool) -> Item:
        """An integer or a bool that comes with each call: of one that is compared the value counts, unless
        it ``decides``."""
        return self._counted(NumberInput(LeafPlace(argument, decides), value))

    def _counted(self, entry: NumberInput) -> Item:
        self.inputs.append(entry)
        return Item(self, entry.var, LARGEST, (entry.place,))

    def runtime_numbers(self, among: list[Scalar]) -> Digits | None:
        """What has a recording begin again with plain numbers: those that ``among`` were computed from, or
        all of this one, where it is empty. None where there are none."""
        places = {e.place.identity: e.place for e in of(NumberInput, self.inputs)}
        arguments = {e.argument for e in of(ScalarInput, self.inputs) if e.argument is not None}
        arguments |= set() if among else self.numpy_numbers
        if among:
            found = {p.identity for number in among for p in getattr(number, "places", ())}
            places = {identity: place for identity, place in places.items() if identity in found}
            arguments &= {origin.argument for number in among for origin in number.origins}
        return Digits(places.values(), arguments) if places or arguments else None

    def check_stranger(self, tensor: Any) -> None:
        """Record again where ``tensor``, reached by another way than the arguments, is one of them."""
        if id(tensor) in self.argument_tensors:
            raise ArgumentReached(self.argument_tensors[id(tensor)])

    def takes_grad(self, leaf: Any) -> bool:
        """What stands for an argument with a graph is a leaf here, and may be off that graph by now."""
        if leaf._requires_grad:
            return True
        detached = () if self.observer is None else self.observer.journal.owners(watch.DETACHED)
        return any(leaf is tensor for tensor in detached) and self.graphs.has_graph_outside(leaf)

    def get_grad(self, tensor: Any) -> Any:
        self.check_stranger(tensor)
        if not self.made(tensor):
            self.only_now("asks for the gradient of a tensor")
        found = self.grads.get(id(tensor))
        if found is None:
            # a tensor that the function makes starts without a gradient
            at_entry = None if self.made(tensor) else self._grad_at_entry(tensor)
            found = self.grads[id(tensor)] = (tensor, at_entry, at_entry)
        return found[2]

    def _grad_at_entry(self, tensor: Any) -> Any:
        from jtorch.eager.tensor import wrap

        grad = EAGER.get_grad(tensor)
        others = [] if grad is None else [EAGER.get_grad(e.tensor) for e in of(GradInput, self.inputs)]
        if grad is not None and (id(grad) in self.argument_tensors or any(grad is g for g in others)):
            self.refuse("works on a .grad that it also has by another name", "Give it a .clone() of its own.")
        if getattr(grad, "is_sparse", False):
            self.refuse("works on a sparse .grad", "Step outside, or make it dense (p.grad.to_dense()).")
        entry = GradInput(Var(tensor_type(tensor)), tensor, grad is not None, self.places.get(id(tensor)))
        self.inputs.append(entry)
        if grad is None:
            return None
        if grad._requires_grad:
            self.refuse(
                "works on a .grad that requires grad", "Detach it outside (p.grad = p.grad.detach())."
            )
        shape, own = grad._data.shape, tensor._data
        if type(own) in ARRAYS and (shape, grad._data.dtype) != (own.shape, own.dtype):
            self.refuse(
                f"works on a .grad of {grad._data.dtype}{list(shape)}, of a tensor that is {own.dtype}"
                f"{list(own.shape)} by now",
                "Set it to None outside (p.grad = None).",
            )
        entry.takes_sums = takes_sums(grad._data)
        entry.sym = self.fresh(entry.var)
        entry.sym.storage.grad = entry
        return wrap(entry.sym)

    def set_grad(self, tensor: Any, grad: Any) -> None:
        self.check_stranger(tensor)
        self.leave_turn("sets the gradient of a tensor")
        if getattr(grad, "is_sparse", False):
            self.refuse("sets a sparse gradient", "Set it outside, and step there with SparseAdam.")
        if not self.made(tensor):
            self.only_now("sets the gradient of a tensor")
        at_entry = self.grads.get(id(tensor), (None, UNREAD))[1]
        self.grads[id(tensor)] = (tensor, at_entry, grad)

    def add_to_grad(self, before: Any, g: Any) -> Any:
        data = before._data
        if data.dtype is not g.dtype or tuple(data.shape) != tuple(g.shape):
            return None
        sym = self.lift(data)
        if not self._takes_sums(sym):
            return None
        self.write(before, sym + g)
        before._cell[0] += 1
        return before

    def _takes_sums(self, grad: Sym) -> bool:
        at_entry = grad.storage.grad
        if at_entry is not None and grad is at_entry.sym:
            return at_entry.takes_sums
        return not has_spread_axis(grad.shape, grad.element_strides)

    def exchange(self, collective: Any, values: Sequence[Any]) -> Any:
        self.leave_turn("exchanges with other processes")
        return exchange.record(self, collective, values)

    def next_call(self, generator: Any) -> tuple[Any, Any]:
        return self.generators.next_call(generator)


MANY = 32  # runs of one function in a recording of which a user is told
_WARNED: set[tuple[str, int]] = set()


UNREAD = object()  # what a gradient was at entry when nobody asked


class _Namespace:
    """``xp`` while tracing: each primitive records itself."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        for op in TABLE:
            if op.kind is not Kind.COMPOSITE:
                setattr(self, op.name, tracer.table[op.index])


def normal(value: Any) -> Any:
    """Static metadata in one form: NumPy's dtypes, tuples of ints."""
    if isinstance(value, (tuple, list)):
        return tuple(normal(v) for v in value)
    if hasattr(value, "numpy") and hasattr(value, "is_floating_point"):
        return value.numpy
    if isinstance(value, str) and value in np.sctypeDict:
        return np.dtype(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value)
    return value.__index__() if isinstance(value, (np.integer, Item)) else value
