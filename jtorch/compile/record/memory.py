"""The memory of a recording: what outside arrays and traced values are, read and written.

The first touch of an outside array makes it an input, each in-place change becomes an output that is written
back. Reading a ``Sym`` gives the IR variable that holds its value now; writing it replaces its storage's
variable, through the views. So in-place programs become pure graphs.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from jtorch.compile.graph.ir import Atom, Eqn, Literal, Type, Var, types_of
from jtorch.compile.observe.questions import ArgumentReached
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.record.arrays_of_recording import NumpyArrays
from jtorch.compile.record.inputs import ArrayInput, ConstantInput, Input
from jtorch.compile.record.leaks import leaked
from jtorch.compile.record.numpy_arrays import NumpyArray
from jtorch.compile.record.operands import typed
from jtorch.compile.record.rebound import Memory as TensorMemory, may_be_rebound
from jtorch.compile.record.shared_memory import FOREIGN, MemoryShared, common_whole, overlap, owner, part_of
from jtorch.compile.record.sym import Storage, Sym
from jtorch.compile.record.tensor_indices import Pick
from jtorch.compile.record.view_chains import by_strides, direct
from jtorch.core.device_array import ARRAYS, DeviceArray, address_of
from jtorch.core.devices import CPU, META
from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import BY_NAME, Evaluator, Op
from jtorch.core.sizes import integer, shape_of
from jtorch.core.strides import contiguous_strides, is_crowded
from jtorch.eager.batching.values import ESCAPED, Batched
from jtorch.eager.begun import Begun
from jtorch.eager.on_device import COMPUTE, MIXED
from jtorch.eager.tensor import Tensor, wrap
from jtorch.ops.slicing import OVERLAPPING

CROWDED = (
    "{source}: '{name}' changes a tensor in place of which several elements lie at one place in memory (an "
    "expanded one, or overlapping windows): change the memory itself, and take the view of it inside."
)
OVERLAP = (
    "{source}: a tensor is changed in place whose memory overlaps another tensor that this function uses. "
    "Pass one of them and take the other as a view of it inside."
)

_CLONE = BY_NAME["clone"]


class Memory(Evaluator):
    """``eqns`` and ``inputs`` grow as memory is read and written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.xp: Any = None  # what records ops
        self.eqns: list[Eqn] = []
        self.inputs: list[Input] = []
        self.arrays: dict[int, ArrayInput] = {}  # id of an outside array -> its input
        self.by_owner: dict[int, list[ArrayInput]] = {}  # the same by whose memory they are
        self.has_symbols = False  # whether sizes or integers are symbols
        self.shapes: dict[int, tuple] = {}  # id of an array argument -> its shape with symbols
        self.places: dict[int, int] = {}  # id of a tensor argument -> which one it is
        self.tensors_given: dict[int, Any] = {}  # which one -> a weak reference to what the caller passed
        self.wholes: dict[int, np.ndarray] = {}  # id of memory of which several tensors are views -> it
        self.windows: dict[int, tuple[np.ndarray, Sym]] = {}  # id of an outside array -> it, as a part of one
        self.argument_arrays: dict[int, int] = {}  # id of memory that callers passed -> of which argument
        self.versions: dict[int, tuple[list, int]] = {}  # cells of written tensors, and what they held before
        self.written_picks: list[tuple[Any, Any]] = []  # tensors that were written through, and where
        self.rebound: dict[int, Any] = {}  # by its id, a tensor from outside that gets other memory
        # by its id, the array of each, and the tensor
        self.own_arrays: dict[int, tuple[np.ndarray, Any]] = {}
        self.begun: Begun = {}  # tensors over plain memory that began inside
        self.lent: list[np.ndarray] = []  # arrays among the arguments, as the function sees them
        self.numpy_arrays = NumpyArrays()
        self.numpy_numbers: set[int] = set()  # places of NumPy's numbers among the arguments
        self.device: Any = None  # on which tensors from outside lie, if any do
        self.on_device: set[Any] = set()  # variables that lie there in eager mode
        self.on_host: set[Any] = set()  # those that come from tensors of the host
        self.open = True
        self.turn: Any = None  # what a turn has made that is recorded: see ``loops``
        self.of_turns: set[Var] = set()  # what those have made that are over
        self.observer: Any = None  # who watches the recording, if anybody does

    def only_now(self, does: str) -> None:
        """Raise where code that a later backward() runs does what must be done by then."""
        raise NotImplementedError

    def emit(self, op: Op, atoms: Sequence[Atom], statics: dict[str, Any]) -> tuple[Var, ...]:
        outputs = tuple(Var(t) for t in types_of(op, atoms, statics))
        for v in outputs:
            check_dtype(v.dtype)
        self._place(op, atoms, outputs)  # on no device yet: what it gives may meet one
        self.eqns.append(Eqn(op, tuple(atoms), statics, outputs, user_source()))
        if self.turn is not None:
            self.turn.update(outputs)
        return outputs

    def _place(self, op: Op, atoms: Sequence[Atom], outputs: Sequence[Var]) -> None:
        """Note where ``outputs`` lie in eager mode, as far as tensors that come from outside say it. Raises
        its error where those lie on two devices. Of a call out of the function they say nothing."""
        if op.there is not None:
            return
        variables = [a for a in atoms if isinstance(a, Var)]
        if not any(v in self.on_device for v in variables):
            if any(v in self.on_host for v in variables):
                self.on_host.update(outputs)
            return
        may_index = op.scatter is not None or op.kind not in COMPUTE
        for v in variables:
            if v in self.on_host and v.shape and not (may_index and v.dtype.kind in "iub"):
                raise RuntimeError(MIXED.format(self.device, CPU))
        self.on_device.update(outputs)

    def lies(self, var: Var, device: Any) -> None:
        """Note where something lies of which what it is computed from does not say that."""
        if device.type == "cpu":
            self.on_device.discard(var)
            self.on_host.add(var)
            return
        self.device = device
        self.on_device.add(var)

    def device_of(self, value: Any) -> Any:
        """Where a traced tensor lies in eager mode."""
        return self.device if value.storage.current in self.on_device else CPU

    def move(self, value: Any, device: Any, later: bool = False) -> Any:
        if device.type == "cuda" and self.device is not None:
            made = self.lift(value)
            if self.read(made) not in self.on_host:  # by a factory
                moved = self.xp.clone(made)
                self.on_device.add(self.read(moved))
                return moved
        return super().move(value, device)

    def leave_turn(self, does: str) -> None:
        """Raise where a turn ``does`` what no loop can do."""
        if self.turn is not None:
            self.turn.leave(does)

    def refuse_later(self, variables: Iterable[Var]) -> None:
        """A turn is over, and what it has made belongs to its steps."""
        self.of_turns.update(variables)

    def fresh(self, var: Atom) -> Sym:
        """A variable as traced memory of its own."""
        assert isinstance(var, Var)
        return Sym(self, Storage(var), var.type)

    def check_open(self, *values: Any) -> None:
        if not self.open:
            raise leaked(self, values)

    def lift(self, value: Any) -> Any:
        """An outside array as a traced one (making it an input), anything else as it is."""
        if isinstance(value, ARRAYS):
            found = self.arrays.get(id(value))
            if found is None and (window := self._window(value)) is not None:
                return window
            if found is None:
                found = self._touch(value)
            return found.sym
        if isinstance(value, (tuple, list)):
            return tuple(map(self.lift, value))
        if type(value) is NumpyArray:
            return value.memory
        return self.new(np.asarray(value)) if isinstance(value, np.generic) else value

    def _window(self, array: Any) -> Sym | None:
        """An outside array as a view of memory that it shares with others, and into which one is written."""
        known = self.windows.get(id(array))
        if known is None:
            whole = self.wholes.get(id(owner(array)))
            if whole is None or whole is array:
                return None
            where = part_of(array, whole)
            if where is None or id(array) in self.argument_arrays:
                return None
            window = self.lift(whole)
            for op, statics in by_strides(whole.size, where):
                window = self._view(op, window, statics)
            known = self.windows[id(array)] = array, window
        return known[1]

    def _refuse_overlap(self, one: ArrayInput, others: Iterable[ArrayInput]) -> NoReturn:
        """``one`` of two arrays that share memory is written: record again with both as views of that memory,
        where that can be done."""
        for other in others:
            whole = common_whole(one.array, other.array)
            if whole is None or id(whole) in self.wholes:
                continue
            for entry in (one, other):  # of others than these very arguments nobody knows what they share
                if entry.argument is not None:
                    raise ArgumentReached(entry.argument)
            raise MemoryShared(whole)
        raise CompileError(OVERLAP.format(source=user_source()))

    def _touch(self, array: Any) -> ArrayInput:
        if id(array) in self.argument_arrays:
            raise ArgumentReached(self.argument_arrays[id(array)])
        check_dtype(array.dtype)
        self._check_parts(array)
        shape = shape_of(self.shapes.get(id(array), array.shape))
        _, rebound = self.own_arrays.get(id(array), (None, None))
        entry = ArrayInput(Var(Type(array.dtype, shape)), array, rebound)
        if array.__class__ is DeviceArray:
            if array.device is META:
                raise CompileError(
                    f"{user_source()}: a tensor on the device meta has no elements to compute with: call the "
                    "function as it is"
                )
            self.device = array.device
            self.on_device.add(entry.var)
        elif isinstance(array, np.ndarray):
            self.on_host.add(entry.var)
        for other in self._rivals(array):
            if array.size and other.array.size and overlap(other.array, array):
                if other.written:  # what was written is not what this tensor would be read as
                    self._refuse_overlap(entry, [other])
                entry.overlaps.append(other)
                other.overlaps.append(entry)
        self.arrays[id(array)] = entry
        self.by_owner.setdefault(id(owner(array)), []).append(entry)
        self.inputs.append(entry)
        strides = tuple(s // array.dtype.itemsize for s in array.strides)
        if id(array) in self.shapes:
            strides = contiguous_strides(shape)
        entry.sym = Sym(self, Storage(entry.var, entry), entry.var.type, strides=strides)
        return entry

    def _rivals(self, array: np.ndarray) -> list[ArrayInput]:
        """The inputs that may share memory with it."""
        whose = owner(array)
        if whose is FOREIGN:
            return list(self.arrays.values())
        return [*self.by_owner.get(id(whose), ()), *self.by_owner.get(id(FOREIGN), ())]

    def _check_parts(self, array: np.ndarray) -> None:
        """A part that NumPy took of an array argument is one of the array of this call."""
        for lent in self.lent:
            if lent is not array and np.may_share_memory(lent, array):
                raise CompileError(
                    f"{user_source()}: '{self.name}' makes a tensor of a part of an array argument, "
                    "or of memory that this shares: make a tensor of all of it (jtorch.from_numpy), and take "
                    "the part of that."
                )

    def follows(self, array: np.ndarray) -> bool:
        """An argument, or an array from outside: what the function made itself is as it was, each time."""
        return self.lends(array) or (self.observer is not None and self.observer.is_outside(array))

    def lends(self, array: np.ndarray) -> bool:
        """Whether it is an argument."""
        return id(array) in self.places

    def read(self, sym: Any) -> Atom:
        """The variable that holds the value of ``sym`` now."""
        if isinstance(sym, (bool, int, float, Scalar)):
            return typed(self, sym, None)
        if isinstance(sym, Batched):  # whose values are read by who knows its axis
            raise RuntimeError(ESCAPED)
        if sym.tracer is not self:  # kept from another recording
            raise leaked(sym.tracer, (sym,))
        storage = sym.storage
        if storage.picked is not None:
            storage.picked.check()
        if sym.known is not None and sym.known[0] == storage.version:
            return sym.known[1]
        atom = storage.current
        for op, statics in sym.chain:
            (atom,) = self.emit(op, [atom], statics)
        if self.turn is None:  # in which it is one of the turn's own
            sym.known = (storage.version, atom)
        return atom

    def _view(self, op: Op, sym: Sym, statics: dict[str, Any]) -> Sym:
        var = Var(Type(sym.dtype, sym.shape))
        (type,) = types_of(op, [var], statics)
        assert op.affine is not None
        moved = op.affine(sym.shape, sym.element_strides, **statics)
        if moved is None:  # a reshape that must copy: new memory
            return self._copied(self.emit(op, [self.read(sym)], statics)[0])
        chain = (*sym.chain, (op, statics))
        strides = op.strides(sym.shape, sym.element_strides, **statics) if op.strides else moved[1]
        return Sym(self, sym.storage, type, chain, tuple(strides), sym.offset + integer(moved[0]))

    def _copied(self, atom: Atom) -> Sym:
        """A copy, which passes may take for what it is a copy of: but a pass backward does not look there."""
        return self.fresh(self.emit(_CLONE, [atom], {})[0])

    def picked(self, tensor: Any, of: Any, indices: tuple, axes: tuple[int, ...]) -> None:
        tensor._data.storage.picked = Pick(self, of, indices, axes)

    def write(self, tensor: Any, value: Any) -> None:
        sym = self.lift(tensor._data)
        storage: Storage = sym.storage
        if self.turn is not None and not self.turn.has_made(storage.current):
            self.leave_turn("writes to a tensor that it has not made")
        if storage.picked is not None:
            storage.picked.check()
            self.written_picks.append((tensor, user_source()))
        if any(tensor._cell is other._cell for other in self.rebound.values()):  # nobody moves its version on
            raise CompileError(
                f"{user_source()}: '{self.name}' changes a tensor in place that it has given other memory "
                "(.data =): change its .data, or compute it before."
            )
        if storage.lent:
            raise CompileError(
                f"{user_source()}: a tensor that '{storage.lent}' gave, which is disabled for compiling, is "
                "changed in place, and nobody can tell who holds it still: change its .clone()."
            )
        if storage.grad is not None:
            self._refuse_crowded(storage.grad.now())
        if storage.source is not None:
            self.only_now("changes a tensor in place")
            if storage.source.overlaps:
                self._refuse_overlap(storage.source, storage.source.overlaps)
            self._refuse_crowded(storage.source.array)
            storage.source.written = True
            storage.source.cells[id(tensor._cell)] = tensor._cell
            self.versions.setdefault(id(tensor._cell), (tensor._cell, int(tensor._cell[0])))
        value = self.lift(value)
        atom = self.read(value) if not isinstance(value, (int, float)) else value
        if isinstance(atom, (Literal, int, float)) or atom.type != Type(sym.dtype, sym.shape):
            raise CompileError(
                f"{user_source()}: '{self.name}' writes what is {getattr(atom, 'type', atom)} over "
                f"{Type(sym.dtype, sym.shape)}: give it this shape and dtype."
            )
        assert isinstance(storage.current, Var)
        chain = direct(storage.current.type, sym.chain)
        if not chain and isinstance(value, Sym) and value.storage.source is not None:
            atom = self.read(self._copied(atom))
        storage.current = self._written_through(storage.current, chain, atom)
        storage.version += 1
        if storage.picked is not None:
            storage.picked.write(self.fresh(storage.current))

    def _refuse_crowded(self, array: np.ndarray) -> None:
        if is_crowded(array.shape, array.strides):
            raise CompileError(CROWDED.format(source=user_source(), name=self.name))
        if not array.flags.writeable:
            raise ValueError("assignment destination is read-only")

    def _written_through(self, base: Atom, chain: tuple, value: Atom) -> Atom:
        """``base`` with ``value`` written through the views of ``chain``."""
        if not chain:
            return value
        (op, statics), rest = chain[0], chain[1:]
        if op.put is None:
            raise RuntimeError(OVERLAPPING)
        if rest:
            (inner,) = self.emit(op, [base], statics)
            value = self._written_through(inner, rest, value)
        assert isinstance(base, Var) and isinstance(value, Var)
        result = op.put(self.xp, self.fresh(base), self.fresh(value), **statics)
        return self.read(result)

    def as_value(self, value: Any) -> Any:
        return self.lift(value)

    def new(self, array: np.ndarray) -> Any:
        entry = ConstantInput(Var(Type(array.dtype, array.shape)), np.array(array, order="C"))
        self.inputs.append(entry)
        self.on_host.add(entry.var)
        return self.fresh(entry.var)

    def own(self, value: Any, given: set[int]) -> Any:
        return self.fresh(self.read(self.lift(value)))

    def made(self, tensor: Any) -> bool:
        """Whether the function made ``tensor``: over traced memory or, e.g. by ``detach()``, over that of a
        tensor from outside."""
        if id(tensor) in self.rebound:
            return False
        if tensor._data.__class__ not in ARRAYS:
            return id(tensor) not in self.places
        entry = self.arrays.get(id(tensor._data))
        given = entry is not None and entry.argument is not None and id(tensor) not in self.places
        return given or self.began(tensor)

    def began(self, tensor: Any) -> bool:
        """Whether ``tensor``, which is over plain memory, was made while this recording ran."""
        begun = self.begun.get(id(tensor))
        return begun is not None and begun[0]() is tensor

    def knows(self, value: Any) -> bool:
        return isinstance(value, Sym) and value.tracer is self

    def window(self, value: Any) -> tuple[Any, int]:
        sym = self.lift(value)
        offset, source = sym.offset * sym.dtype.itemsize, sym.storage.source
        if source is not None and source.argument is None:  # it lies where it lay when this was recorded
            return None, address_of(source.array) + offset
        return sym.storage, offset

    def is_argument(self, tensor: Any) -> bool:
        return id(tensor) in self.places

    def rebinding(self, tensor: Any, value: Any) -> None:
        if tensor._data is value._data and not self._others_share(tensor):
            return
        outside = tensor._data.__class__ in ARRAYS or self.is_argument(tensor)
        is_grad = _is_outer_grad(tensor)
        if id(tensor) not in self.rebound and not (
            is_grad or (outside and (tensor._requires_grad or not self.made(tensor)))
        ):
            return
        self.only_now("gives a tensor other memory")
        self.leave_turn("gives a tensor other memory")
        may_be = not is_grad and not self.is_argument(tensor) and may_be_rebound(tensor, value)
        if self.observer is None or not may_be:
            raise CompileError(
                f"{user_source()}: '{self.name}' gives a tensor from outside other memory (.data =, set_(), "
                "resize_(), an out= of another shape), which a recording would not do again: change its "
                "elements by copy_(), or do it outside."
            )
        self.rebound[id(tensor)] = tensor
        self.observer.rebound[id(tensor._cell)] = tensor._cell
        self.observer.effects.write(TensorMemory(tensor, "data"), wrap(value._data), changes=False)

    def _others_share(self, tensor: Any) -> bool:
        """Whether other tensors from outside have the very array of ``tensor``: to be given that of one of
        them is nothing as long as they do."""
        array = tensor._data
        if array.__class__ not in ARRAYS:
            return False
        holders = (held for held in gc.get_referrers(array) if isinstance(held, Tensor))
        return any(held is not tensor and not self.began(held) for held in holders)


def _is_outer_grad(tensor: Any) -> bool:
    """Whether ``tensor`` is a gradient that was there before."""
    return getattr(getattr(tensor._data, "storage", None), "grad", None) is not None


def check_dtype(dtype: np.dtype) -> None:
    """Raise for the dtypes that kernels don't know: complex numbers."""
    if dtype.kind == "c":
        raise CompileError(
            f"{user_source()}: compiled code has no {dtype} tensors yet: leave this function uncompiled, or "
            "compute in float32."
        )


def tensor_type(tensor: Any) -> Type:
    return Type(tensor._data.dtype, tuple(tensor._data.shape))
