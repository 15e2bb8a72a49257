"""What a plan is made to run on: a value that is handed to the pipeline.

A target writes the kernels of a plan (``emit``) and makes them executable (``load``): its runner allocates
scratch memory, fills in addresses, loads code and runs it. ``run/targets.py`` has the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.halves import Multiplies
from jtorch.compile.graph.ir import Graph
from jtorch.compile.plan.plan import Place, Plan

if TYPE_CHECKING:
    from jtorch.core.environment import Environment


@dataclass(eq=False, slots=True)
class Binding:
    """Where memory lies that is not the plan's own: at addresses known now, or with an argument of each call.

    ``scratch`` gives (the memory, its address) of so many bytes; by default each plan has some of its own.
    ``release_gil``: other Python threads run meanwhile; callers see to it that none runs a plan over the same
    memory.
    """

    scratch: Callable[[int], tuple[Any, int]] | None = None
    release_gil: bool = False
    fixed: dict[Place, int] = field(default_factory=dict)  # the addresses of places known now
    dynamic: dict[Place, int] = field(default_factory=dict)  # which argument brings a place
    numbers: dict[int, int] = field(default_factory=dict)  # which one is a number -> the address of its word
    n_arguments: int = 0
    keep: list[Any] = field(default_factory=list)  # arrays whose addresses are in use
    resident: set[Place] = field(default_factory=set)  # of the fixed ones, those in a device's memory

    def fix(self, place: Place, array: np.ndarray) -> None:
        """``place`` is the memory of ``array``, of which the first to say so counts."""
        self.keep.append(array)
        self.fixed.setdefault(place, address_of(array))

    def fix_there(self, place: Place, array: Any, address: int) -> None:
        """The same of an array in a device's memory."""
        self.keep.append(array)
        self.resident.add(place)
        self.fixed.setdefault(place, address)

    def bring(self, *places: Place) -> None:
        """Each is what comes with one more argument."""
        for place in places:
            self.dynamic[place] = self.n_arguments
            self.n_arguments += 1

    def bring_number(self, place: Place) -> np.ndarray:
        """``place`` is a word, which is given back, that one more argument is stored to."""
        word = np.zeros((), np.float64)
        self.fix(place, word)
        self.numbers[self.n_arguments] = address_of(word)
        self.n_arguments += 1
        return word


def address_of(array: np.ndarray) -> int:
    """Where an array's first element lies."""
    return array.__array_interface__["data"][0]


@dataclass(frozen=True, slots=True)
class Target:
    """``load(code, graph, binding)`` gives a ``Runner``; ``graph`` is the one that was recorded.
    ``of_sizes(env, names)`` gives the target of plans over symbols, None where it runs none.
    ``multiplies``: what its products do with floats of 16 bits."""

    name: str
    emit: Callable[[Plan], Code]
    load: Callable[[Code, Graph, Binding], Any]
    of_sizes: Callable[[Environment, Sequence[str]], Target] | None = None
    multiplies: Multiplies = Multiplies.WIDE
