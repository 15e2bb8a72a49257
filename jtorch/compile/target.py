"""What a plan is made to run on: a value that is handed to the pipeline.

A target writes the kernels of a plan (``emit``) and makes them executable (``load``): its runner allocates
scratch memory, fills in addresses, loads code and runs it. ``run/targets.py`` has the list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.ir import Graph
from jtorch.compile.plan.plan import Place, Plan


@dataclass(frozen=True, slots=True)
class Binding:
    """Where memory lies that is not the plan's own.

    ``fixed`` has the addresses of places known now, ``dynamic`` the position of those that come with each of
    ``n_arguments`` arguments, ``numbers`` the address of the word that each runtime scalar is stored to.
    ``scratch`` gives (the memory, its address) of so many bytes; by default each plan has some of its own.
    ``release_gil``: other Python threads run meanwhile; callers see to it that none runs a plan over the same
    memory.
    """

    fixed: dict[Place, int]
    dynamic: dict[Place, int]
    n_arguments: int
    numbers: dict[int, int]
    scratch: Callable[[int], tuple[Any, int]] | None = None
    release_gil: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """``load(code, graph, binding)`` gives a ``Runner``; ``graph`` is the one that was recorded."""

    name: str
    emit: Callable[[Plan], Code]
    load: Callable[[Code, Graph, Binding], Any]
