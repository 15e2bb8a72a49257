"""``jtorch.compiler.disable``: a callee that runs eagerly at its place in a compiled function.

It is one equation of the recording, a library call between two native segments: it gets tensors with the
elements of this call and gives tensors of the shapes and dtypes it gave when it was recorded, and Python
numbers, which only a replay knows, as those of ``.item()``. All that
happens in it is its own affair (prints, files, counters), as long as the compiled part does not rest on it;
what it does behind the plan's back (gradients through it, writes into tensors that the plan uses, reads of
tensors that the plan has changed by then, random draws from the plan's generator) is refused by name.

Recording runs it once, and the first replay takes what it gave then: so each call of the compiled function
runs it once.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Type
from jtorch.compile.observe.guards import PLAIN, by_value, test_of
from jtorch.compile.observe.observer import quietly
from jtorch.compile.observe.reach import reached
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.record.answers import LOGGED, Answer
from jtorch.compile.record.handed import Handed, Kept, Known, is_kept, with_arguments
from jtorch.compile.record.inputs import LARGEST
from jtorch.compile.record.items import Item
from jtorch.compile.record.numpy_arrays import NumpyArray
from jtorch.compile.record.tree import flatten, rebuild, unflatten
from jtorch.core import op as op_module, watch
from jtorch.core.device_array import ARRAYS, DeviceArray, copied, on_host
from jtorch.core.devices import CPU, META
from jtorch.core.environment import Exact
from jtorch.core.errors import CompileError, Source, noting, user_source
from jtorch.core.op import Context, Kind, Op
from jtorch.eager.evaluate import EAGER, Eager
from jtorch.eager.on_device import memory_of
from jtorch.eager.tensor import Tensor, wrap

DRAWS = (
    "draws from the random generator that the compiled function draws from, too",
    "Give one of them a generator of its own, or draw outside.",
)
_TOKEN = np.zeros((), np.int64)  # an output that only says that the call was made


class Callee:
    """One call of a disabled function: ``fixed`` are its arguments other than tensors and numbers that change
    from call to call; those are the equation's inputs, in the order of ``places``. What the user knows as an
    object is handed over as that object: ``known`` gives the tensor at a leaf, of the arguments of a call.
    Tensors at the leaves ``there`` lie on ``device``."""

    def __init__(
        self, function: Callable, name: str, source: Source, fixed: list[Any], structure: Any
    ) -> None:
        self.function = function
        self.name = name
        self.source = source
        self.structure = structure
        self.fixed = [_held(value) for value in fixed]
        self.places: list[tuple[int, bool | None]] = []  # (leaf, requires grad; None for a number)
        self.known: dict[int, Known] = {}  # at which leaf is which tensor that the user knows
        self.there: set[int] = set()
        self.device: Any = None
        self.again: dict[int, int] = {}  # at which leaf is the tensor of an earlier one
        context = op_module.CONTEXT.get()
        self.grad, self.casting = context.grad, context.casting
        self.first: list[Any] = []  # what it gave when it was recorded, arrays where they lay
        self.result: Any = None  # the structure of that
        self.guard = Watchful(self)
        self.reads_hold: Callable[[], bool] = lambda: True

    def error(self, does: str, way_out: str) -> CompileError:
        return CompileError(
            f"{self.source}: '{self.name}', which is disabled for compiling and called here by a compiled "
            f"function, {does}. {way_out}"
        )

    def run(self, values: Sequence[Any]) -> tuple[list[Any], Any]:
        """Call the function with these inputs, arrays of the host or the device: (its tensors' elements where
        they lie, and its numbers, the structure around them with the class of each)."""
        leaves = [self._release(held) for held in self.fixed]
        handed = []
        for (k, needs_grad), value in zip(self.places, values, strict=True):
            if needs_grad is None:
                leaves[k] = value.item()
                continue
            value = memory_of(self.device).uploaded(value) if k in self.there else on_host(value)
            handed.append(Handed(value, needs_grad, self.known.get(k), self.guard.stale))
            leaves[k] = handed[-1].tensor
        for k, earlier in self.again.items():
            leaves[k] = leaves[earlier]
        (args, kwargs), containers = rebuild(self.structure, leaves)
        kept = Kept(containers, args, kwargs)
        before = op_module.CONTEXT.get()
        inside = Context(self.guard, self.grad, casting=self.casting.replace(cache={}))
        try:  # before the change: Ctrl-C may come right after it
            for each in handed:
                each.lend()
            op_module.CONTEXT.set(inside)
            with noting() as refused, watch.listening() as heard:
                returned = [self.function(*args, **kwargs)]
            changes_mode = op_module.CONTEXT.get().mode != inside.mode
        finally:
            op_module.CONTEXT.set(before)
            for each in handed:
                each.take_back()
        if refused:  # which it caught
            raise refused[0]
        for each in handed:
            self._check(each)
        self.check_call((args, kwargs), leaves, heard, kept, changes_mode)
        if not self.reads_hold():
            raise self.error(
                "changes something that the compiled function reads", "Pass it in and return the new one."
            )
        return self.results(returned, [each.tensor for each in handed])

    def _check(self, handed: Handed) -> None:
        if handed.is_written:
            raise self.writes_argument()
        if handed.has_other_grad:
            raise self.error(
                "calls backward() on what it is passed",
                "Call backward() in the compiled function, or on what is detached.",
            )
        if handed.is_made and handed.tensor.__dict__:
            raise self.sets_attribute()

    def check_call(
        self, tree: Any, leaves: list[Any], heard: watch.Listener, kept: Kept, changes_mode: bool
    ) -> None:
        """Raise where the function has changed its arguments, of which there were these ``leaves``, or
        ``kept`` some, or has changed modules and modes, as was ``heard``."""
        now, structure = flatten(tree)
        if structure != self.structure or any(a is not b for a, b in zip(now, leaves, strict=True)):
            raise self.error("changes a list or dict among its arguments", "Return what is new instead.")
        if kept.has_more():
            raise self.error(
                "keeps a list or dict of its arguments, which a replay makes anew", "Keep a copy of it."
            )
        if changes_mode or not heard.is_as_before():
            raise self.error(
                "changes a module, an optimizer or a mode", "Do that before or after the compiled function."
            )

    def sets_attribute(self) -> CompileError:
        return self.error("sets an attribute on a tensor that it is passed", "Return it instead.")

    def writes_argument(self) -> CompileError:
        return self.error("changes its argument in place", "Return the new tensor instead.")

    def _release(self, held: Any) -> Any:
        value = held() if isinstance(held, weakref.ref) else held
        if value is None and isinstance(held, weakref.ref):
            raise self.error(
                "is passed an object that the compiled function makes, which a recording would not do again",
                "Make it outside, or inside the callee.",
            )
        return value

    def results(self, returned: list[Any], tensors: list[Tensor]) -> tuple[list[Any], Any]:
        """(the elements of its tensors where they lie, and its numbers, the structure around them with the
        class of each) of the one object in ``returned``. Raises CompileError for what no plan gives;
        ``tensors`` are its arguments."""
        leaves, structure = flatten(returned[0])
        # while it is recorded, the recording holds what is made, too
        kept = [self.result is not None and is_kept(leaves, k) for k in range(len(leaves))]
        found: list[Any] = []
        for k, leaf in enumerate(leaves):
            if leaf is None:
                continue
            if type(leaf) in (float, bool) or (type(leaf) is int and abs(leaf) <= LARGEST):
                found.append(np.asarray(leaf))
                continue
            if not isinstance(leaf, Tensor):
                raise self.error(
                    f"returns a {type(leaf).__name__}, which may be another at each call",
                    "Return tensors, numbers or None.",
                )
            if leaf.device == META:
                raise self.error("gives a tensor on the device meta", "Give one that has elements.")
            if leaf._requires_grad:
                raise self.error(
                    "gives a tensor that requires grad, and gradients do not go through it",
                    "Run it under jtorch.no_grad(), .detach() what it is passed, or write it as a custom "
                    "Function.",
                )
            if any(np.may_share_memory(leaf._data, t._data) for t in tensors):
                raise self.error("returns its argument or a view of it", "Return its .clone().")
            if not leaf._data.flags.c_contiguous:
                raise self.error(
                    "returns a tensor whose elements do not lie row by row", "Return it as .contiguous()."
                )
            if kept[k]:
                raise self.returns_kept()
            self.check_apart(leaf._data)
            self.guard.returned.append(leaf._data)
            found.append(copied(leaf._data))
        return found, (structure, tuple(_kind_of(leaf) for leaf in leaves))

    def check_apart(self, array: Any) -> None:
        """Raise where ``array``, which was returned, is memory that the plan uses."""
        if any(np.may_share_memory(array, a) for a in self.guard.used):
            raise self.returns_kept()

    def returns_kept(self) -> CompileError:
        return self.error(
            "returns a tensor that is there outside, too, and may be written there", "Return its .clone()."
        )

    def body(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """What a replay runs: the callee, or what it gave while this call was recorded."""
        log = LOGGED.get()
        if log:
            found = log.pop(0)
        else:
            found, structure = self.run([_array(v) for v in inputs[: len(self.places)]])
            types = [(a.dtype, a.shape) for a in found]
            expected = [(a.dtype, a.shape) for a in self.first]
            if structure != self.result or types != expected:
                raise self.error(
                    f"gave {_told(self.first)} when it was recorded and now {_told(found)}",
                    "Give the same shapes and dtypes at each call, or leave the caller uncompiled.",
                )
        return (_TOKEN, *found)


def _array(value: Any) -> Any:
    return value if value.__class__ is DeviceArray else np.asarray(value)


def _kind_of(leaf: Any) -> type:
    """What is made of it where a replay gives it: a tensor, one on a device, a number, or nothing."""
    if isinstance(leaf, Tensor):
        return DeviceArray if leaf._data.__class__ is DeviceArray else Tensor
    return type(leaf)


def _told(arrays: list[Any]) -> str:
    texts = [f"{Type(a.dtype, a.shape)}{_place_of(a)}" for a in arrays]
    return ", ".join(texts) or "no tensors"


def _place_of(array: Any) -> str:
    return f" on {array.device}" if array.__class__ is DeviceArray else ""


def _held(value: Any) -> Any:
    """``value`` without keeping it alive, where it is an object: one that dies with the recording was made by
    it."""
    if isinstance(value, (*PLAIN, np.dtype, types.ModuleType)) or value is None:
        return value
    try:
        return weakref.WeakMethod(value) if isinstance(value, types.MethodType) else weakref.ref(value)
    except TypeError:
        raise CompileError(
            f"{user_source()}: a disabled function is passed a {type(value).__name__}, of which nobody can "
            "tell whether it is the same at each call: pass tensors, numbers, strings or objects."
        ) from None


class Watchful(Eager):
    """The evaluator of a callee, which makes the errors: eager mode that looks at which memory is touched."""

    def __init__(self, callee: Any, tracer: Any = None) -> None:
        super().__init__()
        self.callee = callee
        self.table = [self._looking(run) for run in EAGER.table]
        self.stale: list[Any] = []  # what the plan has written by then, in the program's order
        self.used: list[Any] = []  # what the plan reads or writes
        self.grads: set[int] = set()  # tensors whose gradients the plan works on
        self.generators: set[int] = set()
        if tracer is not None:
            self.look_after(tracer)
        self.written: list[Any] = []
        self.returned: list[Any] = []
        self.asked: list[Any] = []
        self.drawn: list[Any] = []

    def look_after(self, tracer: Any) -> None:
        """The plan is what ``tracer`` has recorded until now."""
        self.stale = [e.array for e in tracer.arrays.values() if e.written]
        self.used = [e.array for e in tracer.arrays.values()]
        self.grads = set(tracer.grads)
        self.generators = set(tracer.generators.entries)

    def _looking(self, run: Callable) -> Callable:
        def looked(*values: Any, **statics: Any) -> Any:
            for value in values:
                self._look(value)
            return run(*values, **statics)

        return looked

    def _look(self, value: Any) -> None:
        if isinstance(value, (tuple, list)):
            for part in value:
                self._look(part)
        elif isinstance(value, ARRAYS) and any(np.may_share_memory(value, a) for a in self.stale):
            raise self.callee.error(
                "reads a tensor that the compiled function has changed by then, which is written when the "
                "call ends",
                "Pass it as an argument.",
            )

    def write(self, tensor: Any, value: Any) -> None:
        self.check_written(tensor._data)
        self.written.append(tensor._data)
        super().write(tensor, value)

    def check_written(self, array: np.ndarray) -> None:
        if any(np.may_share_memory(array, a) for a in self.used):
            raise self.callee.error(
                "changes a tensor that the compiled function uses, too", "Change it in the compiled function."
            )

    def move(self, value: Any, device: Any, later: bool = False) -> Any:
        self._look(value)
        return super().move(value, device, later)

    def concrete(self, value: Any, wanted_by: str) -> np.ndarray:
        self._look(value)
        return super().concrete(value, wanted_by)

    def get_grad(self, tensor: Any) -> Any:
        self.check_grad(tensor)
        self.asked.append(tensor)
        return super().get_grad(tensor)

    def set_grad(self, tensor: Any, grad: Any) -> None:
        self.check_grad(tensor)
        self.asked.append(tensor)
        super().set_grad(tensor, grad)

    def check_grad(self, tensor: Any) -> None:
        if id(tensor) in self.grads:
            raise self.callee.error(
                "uses the gradient of a tensor that the compiled function gives one",
                "Pass it as an argument.",
            )

    def next_call(self, generator: Any) -> tuple[int, int]:
        self.check_drawn(generator)
        self.drawn.append(generator)
        return super().next_call(generator)

    def check_drawn(self, generator: Any) -> None:
        if id(generator) in self.generators:
            raise self.callee.error(*DRAWS)


# -- recording -----------------------------------------------------------------------------------------------


def record(tracer: Any, function: Callable, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run ``function`` on the values of this recording, and append its equation."""
    if tracer.has_symbols:  # it would run once more where these very sizes have to be recorded
        raise Exact(f"it calls {name}, which is disabled for compiling")
    if tracer.seen is not None:
        tracer.seen.check(function, not tracer.callees and not tracer.log)
    tracer.only_now("calls a function that is disabled for compiling")
    tracer.leave_turn("calls a function that is disabled for compiling")
    leaves, structure = flatten((args, kwargs))
    for value in leaves:
        if type(value) is NumpyArray:
            raise value.refuse(f"a call of {name}, which is disabled for compiling,")
    traced: dict[int, Any] = {k: v for k, v in enumerate(leaves) if isinstance(v, (Tensor, Scalar))}
    fixed = [None if k in traced else v for k, v in enumerate(leaves)]
    callee = Callee(function, name, user_source(), fixed, structure)
    first: dict[int, int] = {}
    callee.again = {k: n for k, v in traced.items() if (n := first.setdefault(id(v), k)) != k}
    if (written := reached((function, fixed), tracer.written_places())) is not None:
        raise callee.error(
            f"can reach {written.label()}, which the compiled function has written by then and a replay "
            "writes when the call ends",
            "Write it after the call, or pass the callee what it needs.",
        )
    tracer.generators.check_apart(callee.name)
    atoms: list[Atom] = []
    for k, value in traced.items():
        if k in callee.again:
            continue
        number = isinstance(value, Scalar)
        callee.places.append((k, None if number else value.requires_grad and callee.grad))
        lifted = None if number else tracer.lift(value._data)
        atoms.append(value.var if number else tracer.read(lifted))
        if not number and tracer.device_of(lifted) != CPU:
            callee.there.add(k)
        known = None if number else _known(tracer, value, callee)
        if known is not None:
            callee.known[k] = known
    callee.device = tracer.device
    callee.guard.look_after(tracer)
    values = tracer.branches.values_of(atoms)
    place = len(tracer.callees)
    if place < len(tracer.log):  # recorded before, for these very arguments
        _, callee.first, callee.result = tracer.log[place]
    else:
        # not watched: what it reads and changes is its own affair
        tracer.called_out.append(name)
        try:
            run = with_arguments(lambda _: callee.run([np.asarray(v) for v in values]))
            given = {k: held() for k, held in tracer.tensors_given.items()}
            callee.first, callee.result = quietly(run)(given)
        except Exception as error:
            tracer.raised.append((callee, error))
            raise
        tracer.log.append(Answer(function, callee.first, callee.result))
    after = [*tracer.branches.checks]  # branches and calls before this one come first at each replay
    op = _op_of(callee)
    key = tuple(map(by_value, fixed))
    outputs = tracer.emit(op, [*atoms, *after], {"call": place, "arguments": key})
    tracer.branches.know(outputs, [_TOKEN, *map(on_host, callee.first)])
    tracer.branches.checks.append(outputs[0])
    tracer.callees.append(callee)
    return _rebuilt(tracer, callee, outputs[1:])


def _known(tracer: Any, tensor: Tensor, callee: Callee) -> Known | None:
    """How to find the object that the user knows ``tensor`` by, if there is one: an argument of the compiled
    function, or a tensor from outside."""
    place = tracer.places.get(id(tensor))
    if place is not None:
        return lambda arguments: arguments[place]
    if isinstance(tensor._data, ARRAYS) and not tracer.began(tensor):
        held = weakref.ref(tensor)
        return lambda arguments: held()
    if tensor.__dict__:
        raise callee.error(
            "is passed a tensor with attributes that the compiled function sets", "Pass them, too."
        )
    return None


def _rebuilt(tracer: Any, callee: Callee, outputs: tuple) -> Any:
    structure, kinds = callee.result
    given = iter(zip(outputs, callee.first, strict=True))
    leaves: list[Any] = []
    for kind in kinds:
        if kind not in (Tensor, DeviceArray):
            leaves.append(None if kind is type(None) else Item(tracer, next(given)[0], LARGEST))
            continue
        var, array = next(given)
        tracer.lies(var, array.device if kind is DeviceArray else CPU)
        sym = tracer.fresh(var)
        sym.storage.lent = callee.name
        leaves.append(wrap(sym))
    return unflatten(structure, leaves)


def _op_of(callee: Callee) -> Op:
    def there(xp, *inputs, call, arguments):
        found = callee.body(inputs)
        return found if len(found) > 1 else _TOKEN

    def body(xp, *inputs, call, arguments):
        found = there(xp, *inputs, call=call, arguments=arguments)
        return found if one else tuple(map(on_host, found))

    shapes = ((), *(a.shape for a in callee.first))
    dtypes = (_TOKEN.dtype, *(a.dtype for a in callee.first))
    one = len(shapes) == 1
    return Op(
        Kind.OPAQUE,
        body,
        name=callee.name.rpartition(".")[2].strip("<>"),
        n_outputs=len(shapes),
        shape=lambda *_, **__: shapes[0] if one else shapes,
        dtype=lambda *_: dtypes[0] if one else dtypes,
        differentiable=False,
        public=None,
        there=there,
    )


def finish(tracer: Any, reads: list[Any], raised: BaseException | None) -> None:
    """The function has returned, or ``raised`` an error: check what its callees did against all of it, and
    fit them for replays. What a callee has raised is not raised again by a replay: it is raised here."""
    for callee, error in tracer.raised:
        if raised is not None and error is raised:
            raise raised
        raise callee.error(
            f"raises {type(error).__name__}, which the compiled function catches", "Catch it in the callee."
        ) from error
    if not tracer.callees:
        return
    if any(isinstance(h, weakref.ref) for c in tracer.callees for h in c.fixed):
        gc.collect()  # an object in a cycle outlives the recording that made it
    guarded = [read for read in reads if read.guarded]
    for callee in tracer.callees:
        for held in callee.fixed:
            callee._release(held)
        guard = callee.guard
        guard.used = [e.array for e in tracer.arrays.values() if e.argument is None]
        guard.stale = [a for a in guard.stale if any(a is u for u in guard.used)]
        guard.grads, guard.generators = set(tracer.grads), set(tracer.generators.entries)
        for array in guard.written:
            guard.check_written(array)
        for array in guard.returned:
            callee.check_apart(array)
        for tensor in guard.asked:
            guard.check_grad(tensor)
        for generator in guard.drawn:
            guard.check_drawn(generator)
        guard.written, guard.asked = _Forgetful(), _Forgetful()
        guard.returned, guard.drawn = _Forgetful(), _Forgetful()
        if guarded:
            callee.reads_hold = test_of(guarded)


class _Forgetful(list):
    """What replays do is checked as it happens: nothing needs to be kept."""

    def append(self, item: Any) -> None:
        pass
