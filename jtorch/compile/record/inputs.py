"""What a graph's inputs are: where each value comes from when the graph is replayed.

Who treats the kinds apart, as the wiring and the generated caller do, is a ``Visitor``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from jtorch.compile.graph.ir import Type, Var
from jtorch.compile.observe.guards import in_words, same
from jtorch.compile.observe.scalar import FormulaTest, NumberTest
from jtorch.eager.evaluate import EAGER

_F64, _U64, _I64 = (np.dtype(d) for d in (np.float64, np.uint64, np.int64))

LARGEST = 2**61  # integers beyond are too large to count on with int64


T = TypeVar("T")


class Visitor(Generic[T]):
    """What does another thing with each kind of input; a kind without a method is none that it meets."""

    def array(self, entry: ArrayInput) -> T:
        raise NotImplementedError

    def constant(self, entry: ConstantInput) -> T:
        raise NotImplementedError

    def grad(self, entry: GradInput) -> T:
        raise NotImplementedError

    def scalar(self, entry: ScalarInput) -> T:
        raise NotImplementedError

    def number(self, entry: NumberInput) -> T:
        raise NotImplementedError

    def counter(self, entry: CounterInput) -> T:
        raise NotImplementedError


class Input:
    """One input of a graph."""

    var: Var
    argument: int | None = None  # the place of the argument that it comes with, None for what lies outside
    written: Any = False  # whether each call changes it

    def value(self, leaves: Sequence[Any]) -> Any:
        """What it is in a call with ``leaves``."""
        raise NotImplementedError

    def now(self) -> Any:
        """What it holds in a recording that is under way: an argument stands for itself."""
        return self.value(())

    @property
    def identity(self) -> Any:
        """Equal for the inputs of two recordings that read the same thing."""
        raise NotImplementedError

    def label(self, named: Any) -> str:
        """What to call it; ``named`` knows the names of tensors."""
        raise NotImplementedError

    def visit(self, visitor: Visitor[T]) -> T:
        raise NotImplementedError


OneKind = TypeVar("OneKind", bound=Input)


def of(kind: type[OneKind], inputs: Iterable[Input]) -> list[OneKind]:
    """Those of one kind."""
    return [entry for entry in inputs if isinstance(entry, kind)]


def captured(inputs: Iterable[Input]) -> list[ArrayInput]:
    """The arrays that the function reached by itself, and that lie where they lay."""
    return [entry for entry in of(ArrayInput, inputs) if entry.argument is None and entry.rebound is None]


def grad_array(tensor: Any) -> np.ndarray | None:
    """The memory of its gradient, if it has one that is dense."""
    grad = EAGER.get_grad(tensor)
    return None if grad is None or grad.is_sparse else grad._data


class ArrayInput(Input):
    """An array from outside: an argument's, or one that the function reached by itself; ``rebound`` is the
    tensor whose memory it is where each call gives that another one."""

    def __init__(self, var: Var, array: np.ndarray, rebound: Any = None) -> None:
        self.var = var
        self.array = array
        self.sym: Any = None
        self.argument: int | None = None  # its place among the tensor arguments, None for a captured one
        self.rebound = rebound
        self.written = False
        self.cells: dict[int, Any] = {}  # version cells of the tensors that were written through
        self.overlaps: list[ArrayInput] = []

    def value(self, leaves: Sequence[Any]) -> Any:
        if self.rebound is not None:
            return self.rebound._data
        return self.array if self.argument is None else leaves[self.argument]._data

    def now(self) -> Any:
        return self.array

    @property
    def identity(self) -> Any:
        if self.rebound is not None:
            return ("rebound", id(self.rebound))
        return ("array", id(self.array)) if self.argument is None else ("argument", self.argument)

    def label(self, named: Any) -> str:
        if self.rebound is not None:
            return named.name_of(self.rebound) or "a tensor without a name"
        return named.name_of_array(self.array) or "a tensor without a name"

    def visit(self, visitor: Visitor[T]) -> T:
        return visitor.array(self)


class ConstantInput(Input):
    """Data written down in the program: the plan keeps its own copy."""

    def __init__(self, var: Var, array: np.ndarray) -> None:
        self.var = var
        self.array = array

    def value(self, leaves: Sequence[Any]) -> Any:
        return self.array

    @property
    def identity(self) -> Any:
        return ("constant", self.array.tobytes())

    def label(self, named: Any) -> str:
        return "a constant"

    def visit(self, visitor: Visitor[T]) -> T:
        return visitor.constant(self)


class GradInput(Input):
    """The ``grad`` a tensor has when the call begins; ``present`` says whether it had one, ``written``
    whether the function changes that memory in place."""

    def __init__(self, var: Var, tensor: Any, present: bool, argument: int | None = None) -> None:
        self.var = var
        self.tensor = tensor
        self.present = present
        self.takes_sums = True  # whether its memory does: see core.strides
        self.advances = 1  # how far the function moves its version, where it changes it
        self.argument = argument  # whose grad it is: the place of an argument, None for a captured tensor
        self.sym: Any = None

    @property
    def written(self) -> bool:  # type: ignore[override]
        return self.sym is not None and self.sym.storage.version > 0

    def owner(self, leaves: Sequence[Any]) -> Any:
        """The tensor whose gradient it is in a call with ``leaves``."""
        return self.tensor if self.argument is None else leaves[self.argument]

    def value(self, leaves: Sequence[Any]) -> Any:
        return self._of(self.owner(leaves))

    def now(self) -> Any:
        return self._of(self.tensor)

    def _of(self, tensor: Any) -> np.ndarray:
        grad = grad_array(tensor) if self.present else None
        return np.zeros(tensor._data.shape) if grad is None else grad

    @property
    def identity(self) -> Any:
        who = id(self.tensor) if self.argument is None else ("argument", self.argument)
        return ("grad", who, self.present)

    def label(self, named: Any) -> str:
        return f"{named.name_of(self.tensor) or 'a tensor without a name'}.grad"

    def visit(self, visitor: Visitor[T]) -> T:
        return visitor.grad(self)


class ScalarInput(Input):
    """A float that is read anew at each call: an argument, or ``container[path[0]][path[1]]...``.

    ``guards`` are tests of it that the trace relied on. What is ``drawn`` by each call decides branches.
    """

    drawn = False

    def __init__(self, container: Any, path: tuple, value: float, argument: int | None = None) -> None:
        self.container = container
        self.path = path
        self.argument = argument
        self.recorded = value
        self.guards: list[NumberTest | FormulaTest] = []
        hint = "_".join(str(k) for k in path) if argument is None else f"arg{argument}"
        self.var = Var(Type(_F64, ()), hint)

    @property
    def origin(self) -> Any:
        """Where it is read."""
        return (id(self.container), self.path, self.argument)

    @property
    def identity(self) -> Any:
        return ("scalar", self.origin, tuple(self.guards))

    @staticmethod
    def of(container: Any, key: Any) -> ScalarInput:
        """A hyper-parameter ``container[key]``; a tuple is a path of keys."""
        path = key if isinstance(key, tuple) else (key,)
        return ScalarInput(container, path, _at(container, path))

    def value(self, leaves: Sequence[Any]) -> Any:
        return _at(self.container, self.path) if self.argument is None else leaves[self.argument]

    def now(self) -> Any:
        return self.recorded

    def changed(self) -> bool:
        """Whether ``container`` has another number by now."""
        return self.argument is None and not same(self.value(()), self.recorded)

    def label(self, named: Any) -> str:
        return "".join(f"[{in_words(k)}]" for k in self.path)

    def visit(self, visitor: Visitor[T]) -> T:
        return visitor.scalar(self)


def _at(container: Any, path: tuple) -> float:
    for k in path:
        container = container[k]
    return float(container)


@dataclass(frozen=True)
class LeafPlace:
    """The place of an integer that comes with each call: its position among the arguments. Whether a
    comparison of it ``decides`` which way a call goes, as a branch does: else its value is known then."""

    argument: int
    decides: bool = False

    @property
    def identity(self) -> tuple[str, int]:
        return "argument", self.argument

    @property
    def key(self) -> str:
        return f"arg{self.argument}"


_DTYPES = {float: _F64, int: _I64, bool: np.dtype(np.bool_)}


class NumberInput(Input):
    """A Python number that is read at each call, an int64, a float64 or a bool: one outside that the function
    replaces, or a leaf of a container outside, see ``opened``."""

    written = True

    def __init__(self, place: Any, value: int | float) -> None:
        self.place = place
        self.argument = place.argument if isinstance(place, LeafPlace) else None
        self.kind = type(value)
        self.recorded = value
        self.var = Var(Type(_DTYPES[self.kind], ()), str(place.key))

    def value(self, leaves: Sequence[Any]) -> Any:
        return self.place.get() if self.argument is None else leaves[self.argument]

    def now(self) -> Any:
        return self.recorded

    @property
    def identity(self) -> Any:
        return ("number", self.place.identity, self.kind)

    def label(self, named: Any) -> str:
        return str(self.place.key)

    def visit(self, visitor: Visitor[T]) -> T:
        return visitor.number(self)


class CounterInput(Input):
    """An integer of a generator's state."""

    def __init__(self, generator: Any, attribute: str, name: str) -> None:
        self.generator = generator
        self.attribute = attribute
        self.written = attribute == "call"
        self.var = Var(Type(_U64, ()), name)

    def value(self, leaves: Sequence[Any]) -> Any:
        return getattr(self.generator, self.attribute)

    @property
    def identity(self) -> Any:
        return ("counter", id(self.generator), self.attribute)

    def label(self, named: Any) -> str:
        return f"generator.{self.attribute}"

    def visit(self, visitor: Visitor[T]) -> T:
        return visitor.counter(self)


class GeneratorInput:
    """A generator's two numbers, and how many random ops the graph draws from it."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.seed = CounterInput(generator, "key", "rng_seed")
        self.call = CounterInput(generator, "call", "rng_call")
        self.drawn = 0
        self.drew = False  # even if it was put back since
