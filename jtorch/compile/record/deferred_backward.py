"""What the way back finds outside, where ``backward()`` comes later than the call that it goes back through.

``backward`` of a custom ``Function``, hooks and the second run of a checkpoint find in eager mode what is
there when somebody goes backward. A recording runs them when the call is recorded. So what they read is noted
apart, and must be the same when the pass comes; tensors that they alone use are read when it comes; and what
a later pass would have to do by itself (draw random numbers, write, branch) is an error: ``Tracer.only_now``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jtorch.compile.graph.access import is_alias
from jtorch.compile.graph.faults import fault_in
from jtorch.compile.graph.ir import Eqn, Var
from jtorch.compile.observe.fact_guards import ArrayRead
from jtorch.compile.observe.guards import PLAIN, AttributeRead, Read, test_of
from jtorch.compile.observe.kinds import is_users
from jtorch.compile.observe.library import see_module
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.reading import became
from jtorch.compile.observe.relied import facts_of_module
from jtorch.compile.record.tape import nodes_under
from jtorch.compile.record.trace import Tracer
from jtorch.core import dtypes, watch
from jtorch.core.device_array import ARRAYS
from jtorch.core.errors import CompileError, Source
from jtorch.eager.function import FunctionNode
from jtorch.eager.tensor import Tensor
from jtorch.nn.module import Module


class LaterError(CompileError):
    """The way back raises an error, which in eager mode is that of a later backward(): the call runs as plain
    Python. Where it cannot, as something has run that may not run twice, this is said."""

    def __init__(self, tracer: Tracer, error: Exception) -> None:
        self.what = f"the way back raises {type(error).__name__}: {error}"
        super().__init__(f"{tracer.line()}: {self.what}. Call '{tracer.name}' uncompiled, or mend that.")


@dataclass
class Later:
    """What the way back through the function ``name`` has found."""

    name: str
    reads: list[Read] = field(default_factory=list)
    modules: list[tuple[Any, list[watch.Fact]]] = field(default_factory=list)  # with what they held
    tensors: list[tuple[Tensor, np.ndarray]] = field(default_factory=list)  # that it uses, with their memory
    alone: set[Var] = field(default_factory=set)  # the inputs that nothing else uses
    shared: list[Tensor] = field(default_factory=list)  # tensors that the function uses before, too
    _hold: Callable[[], bool] | None = None
    _dtype: Any = field(default_factory=dtypes.get_default_dtype)

    def renew(self, other: Later) -> None:
        """Another recording gave the same program: what it found is what must be as it was from now on."""
        self.reads, self.modules = other.reads, other.modules
        self._hold, self._dtype = None, other._dtype

    def check(self) -> None:
        """Raise CompileError where something is another one than when the call was recorded."""
        if self._hold is None:
            self._hold = test_of(self.reads)
        if not self._hold():
            for read in self.reads:
                if not read.holds():
                    self._refuse(f"{read.label()} ({became(read)})", read.source)
        for fact in (fact for _, facts in self.modules for fact in facts):
            if not fact.holds(watch.WHOLE):
                self._refuse(fact.label(watch.WHOLE))
        for tensor, array in self.tensors:
            if tensor._data is not array:
                self._refuse(f"the memory of a tensor of shape {tuple(array.shape)} (.data was set)")
        if self._dtype is not dtypes.get_default_dtype():
            self._refuse("the default dtype")

    def _refuse(self, what: str, source: Source | None = None) -> None:
        raise CompileError(
            f"{f'{source}: ' if source else ''}on the way back through '{self.name}' something has changed "
            f"since the call: {what}. Its gradient was recorded with what was there then. Keep it on ctx in "
            "forward, or call backward() inside."
        )


@contextmanager
def way_back(tracer: Tracer, observer: Observer, outs: list[Tensor]) -> Iterator[Later]:
    """Within this block the way back from ``outs`` is recorded. Raises CompileError for what cannot be put
    off."""
    found, before = Later(tracer.name), _Before(tracer, observer, outs)
    reads, modules, questions = observer.reads, observer.modules, observer.questions
    observer.reads, observer.modules, observer.questions = {}, {}, {}
    observer.on_the_way_back = tracer.on_the_way_back = True
    try:
        _see_functions(tracer, observer, outs)
        yield found
        asked = bool(observer.questions)
    except Exception as error:
        if isinstance(error, CompileError) or fault_in(error, tracer.name) is not None:
            raise
        raise LaterError(tracer, error) from error
    finally:
        new_reads, new_modules = observer.reads, observer.modules
        observer.reads, observer.modules = {**new_reads, **reads}, {**new_modules, **modules}
        observer.questions = questions
        observer.on_the_way_back = tracer.on_the_way_back = False
    if asked or before.is_changed():
        raise tracer.too_early("asks something of an argument" if asked else "changes what is outside")
    if tracer.ran_again:  # what the first run read, the second one reads, too
        for function in tracer.ran_again:
            if isinstance(owner := getattr(function, "__self__", function), Module):
                see_module(observer, None, owner)
        new_reads, new_modules = _not_written(observer), observer.modules
    found.reads = list(new_reads.values())
    found.modules = [(m, [*facts_of_module(m)]) for m in new_modules.values()]
    _sort_tensors(found, tracer, before)


def _not_written(observer: Observer) -> dict[Any, Read]:
    """The reads but for those of places that the function itself writes: to read these on the way back is an
    error by itself, and else they are not read there."""
    known = observer.effects.known
    return {
        identity: read
        for identity, read in observer.reads.items()
        if not (isinstance(read.key, (*PLAIN, Tensor)) and (id(read.container), read.key) in known)
    }


def _see_functions(tracer: Tracer, observer: Observer, outs: list[Tensor]) -> None:
    """``backward`` of a Function may be replaced; between calls the class tells of that. One with several
    outputs gets None, or zeros, by which of the results somebody goes back from, and may ask for that."""
    for out in outs:
        for node in nodes_under(out._node) if out._node is not None else ():
            if isinstance(node, FunctionNode):
                cls: Any = node.function
                if len(outs) > 1 and len(node.metadata) > 1 and is_users(cls):
                    if not node.materializes:
                        raise tracer.too_early("gets None for outputs that no gradient reaches")
                    tracer.gets_zeros = True
                observer.read(AttributeRead, None, cls, "backward", cls.backward, guarded=False)


class _Before:
    """How far the recording was when the way back began."""

    def __init__(self, tracer: Tracer, observer: Observer, outs: list[Tensor]) -> None:
        self.tracer, self.observer = tracer, observer
        self.inputs, self.eqns = len(tracer.inputs), len(tracer.eqns)
        self._storages = [tracer.lift(out._data).storage for out in outs]
        self._done = self._count()

    def _count(self) -> list[int]:
        made = self.tracer.made
        changed = [o for o in self.observer.journal.owners() if not (isinstance(o, Tensor) and made(o))]
        versions = (storage.version for storage in self._storages)
        given = len(self.observer.given_changed)
        return [len(self.observer.effects.written), len(changed), given, *versions]

    def is_changed(self) -> bool:
        self.observer.noted.check(self.tracer.name)
        return self._count() != self._done


def _sort_tensors(found: Later, tracer: Tracer, before: _Before) -> None:
    """What the way back uses of tensors and arrays outside: alone, or as the function before it does."""
    new = {e.var for e in tracer.inputs[before.inputs :]}
    captured = [e for e in tracer.arrays.values() if e.argument is None]
    used = _used(tracer.eqns, before.eqns, {e.sym.storage.current for e in captured})
    found.alone = {e.var for e in captured if e.var in new}
    by_memory = {id(e.array): e for e in captured if e.var in new or e.sym.storage.current in used}
    tensors = [t for t in _tensors_in(found) if id(t._data) in by_memory]
    found.tensors = [(t, t._data) for t in tensors]
    found.shared = [t for t in tensors if by_memory[id(t._data)].var not in new]
    arrays = [r.container for r in found.reads if isinstance(r, ArrayRead)]
    arrays += [r.value for r in found.reads if isinstance(r.value, np.ndarray)]
    for entry in by_memory.values():
        if entry.var not in new and any(np.may_share_memory(entry.array, a) for a in arrays):
            raise CompileError(
                f"'{tracer.name}' uses a NumPy array of shape {entry.array.shape} on the way back, too, "
                "which comes later and may find other elements: keep a tensor of them on ctx in forward."
            )


def _used(eqns: list[Eqn], start: int, variables: set[Any]) -> set[Any]:
    """Those of ``variables`` that equations from number ``start`` on read, views of them included."""
    origin = {v: v for v in variables}
    used = set()
    for k, eqn in enumerate(eqns):
        for atom in eqn.inputs:
            if k >= start and isinstance(atom, Var) and atom in origin:
                used.add(origin[atom])
        if is_alias(eqn) and isinstance(eqn.inputs[0], Var) and eqn.inputs[0] in origin:
            origin.update(dict.fromkeys(eqn.outputs, origin[eqn.inputs[0]]))
    return used


def _tensors_in(found: Later) -> Iterable[Tensor]:
    """The tensors outside that the way back came upon."""
    values = [part for r in found.reads for part in (r.value if isinstance(r.value, tuple) else (r.value,))]
    for module, _ in found.modules:
        values += [*module._parameters.values(), *module._buffers.values()]
    known = {id(t): t for t in values if isinstance(t, Tensor) and t._data.__class__ in ARRAYS}
    return known.values()
