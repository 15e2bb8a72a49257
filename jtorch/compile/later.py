"""What the way back finds outside, where ``backward()`` comes later than the call that it goes back through.

``backward`` of a custom ``Function``, and hooks, find in eager mode what is there when somebody goes
backward. A recording runs them when the call is recorded. So what they read is noted apart, and must be the
same when the pass comes; tensors that they alone use are read when it comes; and what a later pass would have
to do by itself (draw random numbers, write) is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from jtorch.compile.guards import Read, test_of
from jtorch.compile.inputs import ArrayInput, ConstantInput, Input
from jtorch.compile.ir import Var
from jtorch.compile.observe import Observer, became
from jtorch.compile.trace import Tracer
from jtorch.eager.tensor import Tensor
from jtorch.errors import CompileError


@dataclass
class Later:
    """``reads`` are those of the way back, ``tensors`` what it found so, with their memory. ``alone`` are the
    inputs that it alone uses; of ``shared`` ones nobody knows which part of the program read them."""

    name: str
    reads: list[Read] = field(default_factory=list)
    tensors: list[tuple[Tensor, np.ndarray]] = field(default_factory=list)
    alone: set[Var] = field(default_factory=set)
    shared: list[Tensor] = field(default_factory=list)
    _hold: Callable[[], bool] | None = None

    def check(self) -> None:
        """Raise CompileError where something is another one than when the call was recorded."""
        if self._hold is None:
            self._hold = test_of(self.reads)
        for tensor, array in self.tensors:
            if tensor._data is not array:
                raise CompileError(
                    f"on the way back through '{self.name}' a tensor of shape {tuple(array.shape)} is used "
                    "that got other memory since the call (its .data was set): change it in place."
                )
        if self._hold():
            return
        for read in self.reads:
            if not read.holds():
                raise CompileError(
                    f"{f'{read.source}: ' if read.source else ''}on the way back through '{self.name}' "
                    f"{read.label()} is read, which has changed since the call ({became(read)}); its "
                    "gradient was recorded with what was there then. Keep it on ctx in forward, or call "
                    "backward() inside."
                )


@contextmanager
def way_back(tracer: Tracer, observer: Observer) -> Iterator[Later]:
    """Within this block the way back is recorded. Raises CompileError for what cannot be put off."""
    found, inputs = Later(tracer.name), len(tracer.inputs)
    reads, modules = observer.reads, observer.modules
    written, done = len(observer.effects.written), _done(tracer)
    observer.reads, observer.modules, observer.on_the_way_back = {}, {}, True
    try:
        yield found
        found.reads = list(observer.reads.values())
    finally:
        observer.reads, observer.on_the_way_back = {**observer.reads, **reads}, False
        observer.modules.update(modules)
    new = tracer.inputs[inputs:]
    if len(observer.effects.written) > written or _done(tracer) != done or not all(map(_can_wait, new)):
        raise CompileError(
            f"'{tracer.name}' returns what has a graph, and on the way back through it a custom Function or "
            "a hook writes outside, draws random numbers or reads a number or a gradient that is another one "
            "at each call, which belongs to a backward() that comes later. Call backward() inside; or do it "
            "in forward, and keep what is read or drawn on ctx."
        )
    found.alone = {e.var for e in new if isinstance(e, ArrayInput) and e.argument is None}
    used = {id(e.array) for e in tracer.arrays.values() if e.argument is None and e.var not in found.alone}
    tensors = [t for t in _tensors_in(found.reads) if t._data.__class__ is np.ndarray]
    found.tensors = [(t, t._data) for t in tensors]
    found.shared = [t for t in tensors if id(t._data) in used]


def _tensors_in(reads: list[Read]) -> list[Tensor]:
    values = [part for r in reads for part in (r.value if isinstance(r.value, tuple) else (r.value,))]
    return list({id(t): t for t in values if isinstance(t, Tensor)}.values())


def _done(tracer: Tracer) -> list[int]:
    """How often the function has drawn and written until now."""
    drawn = [entry.drawn for entry in tracer.generators.values()]
    arrays = [entry.sym.storage.version for entry in tracer.arrays.values() if entry.written]
    return [len(drawn), *drawn, len(arrays), *arrays]


def _can_wait(entry: Input) -> bool:
    return isinstance(entry, (ArrayInput, ConstantInput))
