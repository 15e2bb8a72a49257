"""The whole pipeline as one function: graph -> passes -> fuse -> plan -> emit -> load."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jtorch.compile import debug
from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.finalise import through_passes
from jtorch.compile.graph.halves import Multiplies
from jtorch.compile.graph.ir import Graph, check
from jtorch.compile.graph.passes import Fuel
from jtorch.compile.plan.fuse import fuse
from jtorch.compile.plan.memory import plan_memory
from jtorch.compile.plan.plan import Destination, Plan
from jtorch.compile.target import Binding, Target
from jtorch.compile.timings import Timings
from jtorch.core import config
from jtorch.core.collector import seldom_collected
from jtorch.core.errors import CompileError


@dataclass(eq=False)
class Program:
    """A graph compiled for ``target``: the optimised graph, its plan, the kernels, and what runs them."""

    target: Target
    graph: Graph
    plan: Plan
    code: Code
    runner: Any


def compile_graph(
    graph: Graph, destinations: Sequence[Destination], target: Target, binding: Binding, timings: Timings
) -> Program:
    """Compile ``graph`` for ``target``."""
    dump = debug.Dump(graph.name)
    with seldom_collected():
        plan = planned(graph, destinations, timings, target.multiplies, dump)
        with timings.measure("emit"), _deep(graph.name):
            code = target.emit(plan)
        dump("kernels", lambda: debug.kernel_text(code), "py")
        with timings.measure("build"):
            runner = target.load(code, graph, binding)
            timings.kernels_compiled += runner.compiled
    return Program(target, plan.fused.graph, plan, code, runner)


@contextmanager
def _deep(name: str) -> Iterator[None]:
    """Formulas are gone through from their results to what they read, a call for each step: a sum that a loop
    adds to may have hundreds. Raises CompileError where it has too many even so."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    except RecursionError as error:
        raise CompileError(
            f"'{name}' computes a formula of more steps than can be compiled as one, such as a sum that a "
            "long loop adds to: collect the parts in a list, and add up jtorch.stack(parts)."
        ) from error
    finally:
        sys.setrecursionlimit(before)


_DEPTH = 6000  # of Python's calls


def planned(
    graph: Graph, destinations: Sequence[Destination], timings: Timings,
    multiplies: Multiplies = Multiplies.WIDE, dump: debug.Dump | None = None,
) -> Plan:  # fmt: skip
    """The plan of ``graph``, of which a target need know no more than what its products do with floats of 16
    bits."""
    dump = dump or debug.Dump(graph.name)
    fuel = Fuel(int(config.get("FUEL")))
    dump("trace", lambda: str(graph))
    with timings.measure("passes"), _deep(graph.name):
        graph = through_passes(graph, fuel, multiplies, lambda name, g, s: dump(name, lambda: str(g)))
        if config.get("CHECK"):
            check(graph)
    dump("final", lambda: str(graph))
    with timings.measure("fuse"), _deep(graph.name):
        fused = fuse(graph, fuel)
    with timings.measure("plan"), _deep(graph.name):
        plan = plan_memory(graph, fused, destinations)
    dump("plan", lambda: debug.plan_text(plan))
    return plan
