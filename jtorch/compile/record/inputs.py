"""What a graph's inputs are: where each value comes from when the graph is replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Type, Var
from jtorch.compile.observe.guards import same

_F64, _U64, _I64 = (np.dtype(d) for d in (np.float64, np.uint64, np.int64))

LARGEST = 2**61  # integers beyond are too large to count on with int64


class Input:
    """One input of a graph."""

    var: Var


class ArrayInput(Input):
    """An array from outside: an argument's, or one that the function reached by itself."""

    def __init__(self, var: Var, array: np.ndarray) -> None:
        self.var = var
        self.array = array
        self.sym: Any = None
        self.argument: int | None = None  # its place among the tensor arguments, None for a captured one
        self.written = False
        self.cells: dict[int, Any] = {}  # version cells of the tensors that were written through
        self.overlaps: list[ArrayInput] = []


class ConstantInput(Input):
    """Data written down in the program: the plan keeps its own copy."""

    def __init__(self, var: Var, array: np.ndarray) -> None:
        self.var = var
        self.array = array


class GradInput(Input):
    """The ``grad`` a tensor has when the call begins; ``present`` says whether it had one, ``written``
    whether the function changes that memory in place."""

    def __init__(self, var: Var, tensor: Any, present: bool, argument: int | None = None) -> None:
        self.var = var
        self.tensor = tensor
        self.present = present
        self.advances = 1  # how far the function moves its version, where it changes it
        self.argument = argument  # whose grad it is: the place of an argument, None for a captured tensor
        self.sym: Any = None

    @property
    def written(self) -> bool:
        return self.sym is not None and self.sym.storage.version > 0


class ScalarInput(Input):
    """A float that is read anew at each call: an argument, or ``container[path[0]][path[1]]...``.

    ``guards`` are tests of it that the trace relied on: (comparison, other number, outcome).
    """

    def __init__(self, container: Any, path: tuple, value: float, argument: int | None = None) -> None:
        self.container = container
        self.path = path
        self.argument = argument
        self.value = value
        self.guards: list[tuple[Callable, float, bool]] = []
        hint = "_".join(str(k) for k in path) if argument is None else f"arg{argument}"
        self.var = Var(Type(_F64, ()), hint)

    @property
    def identity(self) -> Any:
        return (id(self.container), self.path, self.argument)

    @staticmethod
    def of(container: Any, key: Any) -> ScalarInput:
        """A hyper-parameter ``container[key]``; a tuple is a path of keys."""
        path = key if isinstance(key, tuple) else (key,)
        value = container
        for k in path:
            value = value[k]
        return ScalarInput(container, path, float(value))

    def changed(self) -> bool:
        """Whether ``container`` has another number by now."""
        if self.argument is not None:
            return False
        return not same(ScalarInput.of(self.container, self.path).value, self.value)


@dataclass(frozen=True)
class LeafPlace:
    """The place of an integer that comes with each call: its position among the arguments."""

    argument: int

    @property
    def identity(self) -> tuple[str, int]:
        return "argument", self.argument

    @property
    def key(self) -> str:
        return f"arg{self.argument}"


class NumberInput(Input):
    """A Python number that is read at each call, an int64 or a float64: one outside that the function
    replaces, or a leaf of a container outside, see ``opened``."""

    def __init__(self, place: Any, value: int | float) -> None:
        self.place = place
        self.argument = place.argument if isinstance(place, LeafPlace) else None
        self.kind = type(value)
        self.value = value
        self.var = Var(Type(_F64 if self.kind is float else _I64, ()), str(place.key))


class CounterInput(Input):
    """An integer of a generator's state."""

    def __init__(self, generator: Any, attribute: str, name: str) -> None:
        self.generator = generator
        self.attribute = attribute
        self.var = Var(Type(_U64, ()), name)


class GeneratorInput:
    """A generator's two numbers, and how many random ops the graph draws from it."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.seed = CounterInput(generator, "key", "rng_seed")
        self.call = CounterInput(generator, "call", "rng_call")
        self.drawn = 0
        self.drew = False  # even if it was put back since
