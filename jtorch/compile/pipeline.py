"""The whole pipeline as one function: graph -> passes -> fuse -> memory -> source -> replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jtorch.compile import debug
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.ir import Graph, check
from jtorch.compile.graph.passes import Fuel, optimise
from jtorch.compile.plan.fuse import fuse
from jtorch.compile.plan.memory import Place, Plan, Target, plan_memory
from jtorch.compile.run.interpreted import Interpreted
from jtorch.compile.run.replay import Replay
from jtorch.compile.run.unjitted import Unjitted
from jtorch.compile.timings import Timings
from jtorch.core import config


@dataclass(eq=False)
class Program:
    """A graph compiled: the optimised graph, its plan, and what runs it."""

    graph: Graph
    plan: Plan
    replay: Replay | Unjitted | Interpreted


def compile_graph(
    graph: Graph,
    targets: Sequence[Target],
    fixed: dict[Place, int],
    dynamic: dict[Place, int],
    n_arguments: int,
    numbers: dict[int, int],
    timings: Timings,
    dump: debug.Dump | None = None,
    interpreted: bool = False,
) -> Program:
    """Compile ``graph``. ``fixed`` has the addresses of places known now, ``dynamic`` the position of those
    that come with each call, ``numbers`` the words that runtime scalars are stored to. ``interpreted`` plans
    it all and then runs the graph as it came."""
    recorded = graph
    dump = dump or debug.Dump(graph.name)
    fuel = Fuel(int(config.get("FUEL")))
    dump("trace", lambda: str(graph))
    with timings.measure("passes"):
        graph = finalise(optimise(graph, fuel, lambda name, g, s: dump(name, lambda: str(g))))
        if config.get("CHECK"):
            check(graph)
    dump("final", lambda: str(graph))
    with timings.measure("fuse"):
        fused = fuse(graph, fuel)
    with timings.measure("plan"):
        plan = plan_memory(graph, fused, targets)
    dump("plan", lambda: debug.plan_text(plan))
    dump("kernels", lambda: debug.kernel_text(plan), "py")
    with timings.measure("build"):
        replay: Replay | Unjitted | Interpreted
        if interpreted:
            replay = Interpreted(recorded, plan, fixed, dynamic, numbers)
        else:
            runner = Replay if config.jitted() else Unjitted
            replay = runner(plan, fixed, dynamic, n_arguments, numbers)
        timings.kernels_compiled += replay.compiled
    return Program(graph, plan, replay)


def address_of(array: np.ndarray) -> int:
    """Where an array's first element lies."""
    return array.__array_interface__["data"][0]
