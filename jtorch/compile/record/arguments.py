"""The arguments of a call as the function sees them while it is recorded: stand-ins for tensors, numbers that
each call brings, arrays."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.compile.record.arrays import Lent, LentNumber
from jtorch.compile.record.inputs import LARGEST, ScalarInput
from jtorch.compile.record.numpy_arrays import NumpyArray
from jtorch.compile.record.sizing import Sizing
from jtorch.eager.evaluate import EAGER
from jtorch.eager.tensor import Tensor

if TYPE_CHECKING:
    from jtorch.compile.record.attempts import Known
    from jtorch.compile.record.trace import Tracer


class Arguments:
    """``leaves``, those that the function sees as something else (``traced``, by their position), and what it
    sees (``shown``).

    Stand-ins are tensors of their own over arrays of their own, so that a use of the very tensor that was
    passed, found by another way than the arguments, is noticed.
    """

    def __init__(self, tracer: Tracer, known: Known, sizing: Sizing | None) -> None:
        self.tracer, self.known, self.sizing = tracer, known, sizing
        self.leaves: list[Any] = []
        self.first_drawn = sys.maxsize  # the position from which on they are drawn by each call
        self.traced: dict[int, Any] = {}
        self.shown: list[Any] = []
        self._arrays: dict[int, np.ndarray] = {}
        self._first: dict[int, int] = {}

    def add(
        self, leaves: Iterable[Any], brought: int, decide: bool = False, deciding: Container[int] = ()
    ) -> list[Any]:
        """More of them, and what the function sees; integers from position ``brought`` on come with each
        call, and may ``decide`` about branches, all of them or those ``deciding``."""
        start = len(self.leaves)
        self.leaves += leaves
        for k in range(start, len(self.leaves)):
            self._trace(k, self.leaves[k], k >= brought, decide or k in deciding)
        for k in range(start, len(self.leaves)):
            leaf = self.leaves[k]
            if k in self.traced and isinstance(leaf, Tensor):
                self.tracer.argument_arrays[id(leaf._data)] = k
                self.tracer.argument_tensors[id(leaf)] = k
            self.shown.append(self._seen(k, self.traced.get(k, leaf), k < brought or decide or k in deciding))
        return self.shown[start:]

    def _trace(self, k: int, leaf: Any, is_brought: bool, decides: bool) -> None:
        known, tracer = self.known, self.tracer
        if type(leaf) is LentNumber and k in known.exact:
            return
        if isinstance(leaf, Tensor) and k not in known.fixed:
            same = self._first.setdefault(id(leaf), k)
            self.traced[k] = self._twin(k, leaf) if same == k else self.traced[same]
        elif leaf.__class__ is int:
            if k in known.exact:
                if self.sizing is not None and k in self.sizing.shapes:
                    (self.traced[k],) = self.sizing.shapes[k]
            elif (is_brought or k in known.integers) and abs(leaf) <= LARGEST:
                self.traced[k] = tracer.leaf(k, leaf, decides)
        elif leaf.__class__ is bool and (is_brought or k in known.integers) and k not in known.exact:
            self.traced[k] = tracer.leaf(k, leaf, decides)
        elif leaf.__class__ is float and k not in known.exact:
            entry = ScalarInput(None, (), leaf, argument=k)
            entry.drawn = k >= self.first_drawn
            self.traced[k] = tracer.runtime_scalar(entry)

    def _twin(self, k: int, leaf: Tensor) -> Tensor:
        tracer = self.tracer
        array = self._arrays.setdefault(id(leaf._data), leaf._data.view())
        shape = None if self.sizing is None else self.sizing.shapes.get(k)
        if shape is not None:
            tracer.shapes[id(array)] = shape
        sym = tracer.lift(array)
        twin = _stand_in(leaf, array if shape is None else sym)
        tracer.places[id(twin)] = k
        tracer.tensors_given[k] = weakref.ref(leaf)
        tracer.begun.pop(id(twin), None)  # the function has not made it
        entry = sym.storage.source
        if entry.argument is None:
            entry.argument = k
        return twin

    def _seen(self, k: int, argument: Any, decides: bool) -> Any:
        """What the function gets for an argument: for a lent array an array, over the stand-in's memory, and
        for a number of NumPy's one that each call brings, which it may branch on where it ``decides``."""
        if type(argument) is LentNumber:
            if k in self.known.exact:
                return argument.lent
            self.tracer.numpy_numbers.add(k)
            return NumpyArray(self.tracer.lift(argument._data), is_number=True, few=decides)
        if type(argument) is not Lent:
            return argument
        array = argument._data
        if id(array) not in self.tracer.places:
            self.tracer.places[id(array)] = k
            self.tracer.lent.append(array)
        return array


def _stand_in(leaf: Tensor, array: np.ndarray) -> Tensor:
    """``leaf`` while traced: off its outside graph, which is not this function's to walk."""
    twin = object.__new__(type(leaf))
    twin.hold(array, leaf._requires_grad)
    twin._cell, twin._base, twin._hooks = leaf._cell, leaf._base, leaf._hooks
    # what is written to a view would reach its base, which is not passed: but a leaf refuses any write itself
    twin._how = leaf._how if leaf._base is not None and leaf._requires_grad and leaf.is_leaf else None
    twin._grad = EAGER.get_grad(leaf)
    if leaf._node is not None:
        twin._base = twin._hooks = None
    return twin
