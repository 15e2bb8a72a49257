"""What attempts at a recording find out that the next one must know: each ends with a ``Restart``."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jtorch.compile.observe.draws import Shuffling
from jtorch.compile.observe.effects import Counting, Filling, Place, Replacing
from jtorch.compile.observe.questions import ArgumentReached
from jtorch.compile.observe.scalar import Digits
from jtorch.compile.observe.stand_ins import Closed
from jtorch.compile.observe.texts import ErrorText
from jtorch.compile.record.answers import Answer
from jtorch.compile.record.caches import Filled
from jtorch.compile.record.inputs import LeafPlace
from jtorch.compile.record.opened import LEAF, Opened, with_opened
from jtorch.compile.record.rebound import Rebinding
from jtorch.compile.record.shared_memory import MemoryShared, owner
from jtorch.compile.record.sizing import APART, Masks, Sizings
from jtorch.compile.record.tree import Leaves
from jtorch.core.environment import Exact
from jtorch.core.errors import CompileError, CountNeeded, Restart
from jtorch.eager.tensor import Tensor

_REFILLS = 2  # what is cached for a tensor, of which each recording has another one, is never found again


@dataclass
class Known:
    """What is known when an attempt begins; ``filled`` takes back what was put into caches."""

    filled: ExitStack
    fixed: frozenset[int] = frozenset()  # arguments that the function also holds: recorded as captured
    counts: dict[Any, Place] = field(default_factory=dict)  # numbers that it replaces
    replaced: dict[Any, Place] = field(default_factory=dict)  # tensors that it replaces
    rebound: dict[int, Any] = field(default_factory=dict)  # tensors that it gives other memory, by id
    exact: frozenset[int] = frozenset()  # numbers among the arguments that it must know
    opened: dict[Any, Place] = field(default_factory=dict)  # what changes from call to call: ``opened``
    closed: frozenset[Any] = frozenset()  # identities of such places that had to be left as they are
    spans: list[Opened] = field(default_factory=list)  # those of the latest attempt, as they were opened
    digits: set[Any] = field(default_factory=set)  # numbers that it counts on, and must know
    wholes: dict[int, Any] = field(default_factory=dict)  # memory of several tensors, that is written
    log: list[Answer] = field(default_factory=list)  # what its disabled callees gave
    readings: list[Any] = field(default_factory=list)  # of clocks, in the latest attempt
    called_out: list[str] = field(default_factory=list)  # those that have begun to run
    seen: Any = None  # where they were tried before, if they must be: see ``trials``
    refills: int = 0  # how often caches of functools were filled
    sizing: Sizings | None = None  # says which sizes are symbols
    integers: frozenset[int] = frozenset()  # that change from call to call
    of_numpy: frozenset[int] = frozenset()  # NumPy's numbers among the arguments of the latest attempt
    why_exact: str = ""  # why sizes must be numbers
    shuffles: bool = False  # whether it shuffles an array that it makes
    ranges_by_sizes: bool = False  # whether it makes arrays to count by sizes that may be symbols
    draws_by_sizes: bool = False  # whether the arguments of a draw are sizes that may be symbols
    masks: Masks = APART  # what they are counted as, where that is asked
    counting: CountNeeded | None = None  # where it was
    may_wait: bool = False  # whether the call may run eagerly, and a later one be recorded
    whole: bool = True  # whether a call that cannot be recorded is an error

    @property
    def may_refill(self) -> bool:
        return self.refills < _REFILLS

    @property
    def numbers(self) -> frozenset[int]:
        """The integers and NumPy's numbers among the arguments that each call brings."""
        return (self.integers | self.of_numpy) - self.exact

    def learn(self, found: Restart, leaves: list[Any]) -> None:
        """Know what an attempt has ``found``, once all else is as it was; raise what ends the recording."""
        if isinstance(found, ArgumentReached):
            whole = with_opened(with_replaced(leaves, self.replaced.values()), self.spans)
            array = whole[found.place]._data
            self._fix(k for k, a in enumerate(whole) if isinstance(a, Tensor) and a._data is array)
        elif isinstance(found, MemoryShared):
            self.wholes[id(found.whole)] = found.whole
        elif isinstance(found, Filled):
            self.refills += 1
        elif isinstance(found, Shuffling):
            self.shuffles = True
        elif isinstance(found, Counting):
            self.counts[found.place.identity] = found.place
        elif isinstance(found, Replacing):
            self._forget_positions()
            self.replaced[found.place.identity] = found.place
        elif isinstance(found, Rebinding):
            self.rebound |= {id(tensor): tensor for tensor in found.tensors}
        elif isinstance(found, Digits):
            inside = [place.argument for place in found.places if isinstance(place, LeafPlace)]
            self.exact |= self._with_their_like(found.arguments.union(inside), leaves)
            self.digits |= {place.identity for place in found.places}
            self.counts = {k: place for k, place in self.counts.items() if k not in self.digits}
        elif isinstance(found, Closed):
            self.closed |= {found.place.identity}
            del self.opened[found.place.identity]
            self._forget_positions()
        elif isinstance(found, Filling):
            if self.may_wait and not self.called_out:
                raise found
            self.filled.callback(found.place.snapshot())
            found.place.put(found.value)
        elif isinstance(found, CountNeeded) and self.counting is None:
            self.counting = found
        elif isinstance(found, Exact) and self.sizing is not None:
            self.sizing, self.refills, self.why_exact = None, 0, str(found)
        elif isinstance(found, CountNeeded):
            raise CompileError(found.refusal)
        elif isinstance(found, Exact) and self.counting is not None and (closer := self.masks.closer(found)):
            self.masks = closer
        elif isinstance(found, ErrorText) and (self.called_out or not self.may_wait):
            raise CompileError(found.refusal)
        else:
            raise found

    def fix_parts(self, leaves: Iterable[Any]) -> None:
        """Have arguments recorded as captured that lie in the memory of several tensors, of which an element
        has one name: as an argument it would have another."""
        if self.wholes:
            tensors = ((k, a) for k, a in enumerate(leaves) if isinstance(a, Tensor))
            self._fix(k for k, a in tensors if id(owner(a._data)) in self.wholes)

    def _fix(self, places: Iterable[int]) -> None:
        """Have these arguments recorded as captured. An array outside that somebody replaces is no tensor
        that is the same at each call: its place is left as it is."""
        fixed = frozenset(places)
        of_arrays = [
            o.place for o in self.spans if o.form == LEAF and o.start in fixed and _is_array(o.place.find())
        ]
        for place in of_arrays:
            self.closed |= {place.identity}
            self.opened.pop(place.identity, None)
        if of_arrays:
            self._forget_positions()
        else:
            self.fixed |= fixed

    def _forget_positions(self) -> None:
        """The leaves of what is open will lie at other positions."""
        if self.spans:
            first = self.spans[0].start
            self.fixed = frozenset(k for k in self.fixed if k < first)
            self.exact = frozenset(k for k in self.exact if k < first)

    def _with_their_like(self, arguments: frozenset[int], leaves: list[Any]) -> frozenset[int]:
        """``arguments``, and all leaves of the containers that they lie in, of flags the flags: what a
        function does to one number of a list it mostly does to all, and each would be an attempt."""
        whole = with_opened(with_replaced(leaves, self.replaced.values()), self.spans)
        flags = frozenset(k for k, leaf in enumerate(whole) if leaf.__class__ is bool)
        like = set(arguments)
        if arguments & flags & self.integers:
            like |= flags & self.integers
        for span in (frozenset(range(o.start, o.start + o.n)) for o in self.spans):
            if here := span & arguments:
                like |= span & flags if here <= flags else span
        return frozenset(like)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def with_replaced(leaves: Iterable[Any], places: Iterable[Place]) -> list[Any]:
    """``leaves`` and the tensors that are at ``places``."""
    return Leaves((*leaves, *(place.find() for place in places)), getattr(leaves, "containers", []))
