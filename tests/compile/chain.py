"""The links of the chain of equal results: one traced function, computed in every way there is.

    eager -> eager by NumPy alone -> interpreted as traced -> optimised -> with copies
    -> generated source as plain Python -> machine code

``links(function, leaves)`` gives the results of each; ``assert_chain`` compares neighbours and names the link
that breaks. Outputs and scratch memory are filled with garbage before a run, so that what a kernel
does not write, or reads before it was written, shows.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.finalise import turned, with_copies
from jtorch.compile.graph.interpret import interpret
from jtorch.compile.graph.ir import Graph, check
from jtorch.compile.graph.passes import Fuel, optimise
from jtorch.compile.plan.fuse import fuse
from jtorch.compile.plan.memory import plan_memory
from jtorch.compile.plan.plan import Destination, Place, Plan, Use, Where
from jtorch.compile.record.capture import Capture, capture
from jtorch.compile.record.inputs import ArrayInput
from jtorch.compile.record.returned import Output, Part
from jtorch.compile.record.tree import flatten
from jtorch.compile.run.cuda import CudaRunner
from jtorch.compile.run.targets import CPU, PYTHON
from jtorch.compile.run.unjitted import Unjitted
from jtorch.compile.target import Binding, Target
from jtorch.core import op as op_module
from jtorch.core.generator import default_generator
from jtorch.eager import formulas
from jtorch.eager.evaluate import EAGER
from jtorch.eager.tensor import Tensor, leaf

GARBAGE = 0xCB  # as a float a huge negative number, as an integer far out of every range


def trace(function: Callable, leaves: Sequence[Any], name: str = "program") -> Capture:
    """One recorded run of ``function(*leaves)``."""
    flat, structure = flatten((tuple(leaves), {}))
    return capture(function, flat, structure, op_module.CONTEXT.get(), name)


def arguments_of(made: Capture) -> list[np.ndarray]:
    """What the inputs of a captured graph are now."""
    return [np.array(entry.now(), entry.var.dtype, order="C") for entry in made.inputs]


def planned(graph: Graph, destinations: Sequence[Destination] | None = None, fuel: int = -1) -> Plan:
    """The plan of an optimised and finalised graph; its outputs are results unless
    ``destinations`` say else."""
    wanted = list(destinations or (Destination(Use.RESULT, k) for k in range(len(graph.outputs))))
    return plan_memory(graph, fuse(graph, Fuel(fuel)), wanted)


class Machine:
    """A plan over memory of its own: ``inputs`` and ``outputs`` are arrays, ``run()`` gives a status."""

    def __init__(self, plan: Plan, target: Target, arguments: Sequence[Any]) -> None:
        graph = plan.fused.graph
        self.inputs = [np.array(a, v.dtype, order="C") for a, v in zip(arguments, graph.inputs, strict=True)]
        binding = Binding()
        for k, array in enumerate(self.inputs):
            binding.fix(Place(Where.INPUT, k), array)
        self.outputs: list[np.ndarray] = []
        for var, destination in zip(graph.outputs, plan.destinations, strict=True):
            new = np.empty(var.shape, var.dtype)  # type: ignore[union-attr]
            new.reshape(-1).view(np.uint8)[...] = GARBAGE
            self.outputs.append(self.inputs[destination.index] if destination.kind is Use.WRITE else new)
            binding.fix(destination.place, new)
        self.runner = target.load(target.emit(plan), graph, binding)
        if not isinstance(self.runner, CudaRunner):  # whose memory is a device's, and garbage when it is new
            memory = self.runner.memory if isinstance(self.runner, Unjitted) else self.runner.addresses.memory
            memory[...] = GARBAGE

    def run(self) -> int:
        return self.runner.run()


def execute(plan: Plan, target: Target, arguments: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of a plan that has no failing step: results, and inputs that it wrote."""
    machine = Machine(plan, target, arguments)
    status = machine.run()
    assert status == 0, machine.runner.failure(status)
    return machine.outputs


def values_of(outs: Any) -> list[np.ndarray]:
    """Tensors among what a function returned, as arrays."""
    return [np.array(t._data) for t in flatten(outs)[0] if isinstance(t, Tensor)]


def copies(leaves: Sequence[Any]) -> list[Any]:
    """The same arguments in memory of their own."""
    return [leaf(np.array(t._data), t._requires_grad) if isinstance(t, Tensor) else t for t in leaves]


def destinations_of(made: Capture) -> list[Destination]:
    """Results as results, changed arguments as writes."""
    index_of = {id(e): k for k, e in enumerate(made.inputs)}
    destinations = [Destination(Use.RESULT, k) for k in range(made.n_results)]
    destinations += [Destination(Use.WRITE, index_of[id(e)]) for e in made.effects.writes]
    return destinations + [Destination(Use.GRAD, k) for k in range(len(_new_grads(made)))]


def _decisions(made: Capture) -> list[int]:
    """Which outputs of the graph are its checks of branches: 1 for arguments that go the recorded way. Other
    results that nobody sees are there for an error that they might be."""
    maker = {v: eqn for eqn in made.graph.eqns for v in eqn.outputs}
    unseen = range(_n_values(made), made.n_results)
    return [k for k in unseen if maker[made.graph.outputs[k]].op.name == "expect"]  # type: ignore[index]


def _n_values(made: Capture) -> int:
    """How many outputs of the graph results are made of: those that lie in another order are views."""
    return 1 + max((getattr(r, "index", -1) for r in made.results), default=-1)


def _shown(made: Capture, outputs: list[np.ndarray]) -> list[np.ndarray]:
    """``outputs`` of the graph with results as their users see them."""
    results = []
    for result in made.results:
        value = outputs[result.index]
        for op, statics in getattr(result, "chain", ()):
            value = op.body(EAGER.xp, value, **statics)
        results.append(value)
    return results + [outputs[k] for k in _decisions(made)] + outputs[made.n_results :]


def _new_grads(made: Capture) -> list[int]:
    """The arguments that get a gradient."""
    arguments = {id(e.array): e.argument for e in made.inputs if isinstance(e, ArrayInput)}
    return [arguments[id(t._data)] for t, atom in made.effects.grads if atom is not None]  # type: ignore[misc]


def optimised(graph: Graph, fuel: int = -1) -> Graph:
    """The graph after all passes, checked."""
    result = optimise(graph, Fuel(fuel), lambda name, g, s: check(g))
    check(result)
    return result


def links(
    function: Callable, leaves: Sequence[Any], jit: bool = True, fuel: int = -1
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """(name, results) of every link, eager first. Arguments that the function changes, and gradients that it
    sets on arguments, are results, too."""
    made = trace(function, copies(leaves))
    if made.error is not None:
        raise made.error
    assert all(isinstance(r, (Output, Part)) for r in made.results), made.results
    arguments = arguments_of(made)
    yield "eager", _eager(made, function, leaves)
    with by_numpy():
        yield "by NumPy", _eager(made, function, leaves)
    graph = made.graph
    check(graph)
    yield "interpreted", _shown(made, interpret(graph, arguments))
    graph = optimised(graph, fuel)
    yield "optimised", _shown(made, interpret(graph, arguments))
    graph = with_copies(graph)
    check(graph)
    yield "copied", _shown(made, interpret(graph, arguments))
    graph = turned(graph)
    check(graph)
    yield "turned", _shown(made, interpret(graph, arguments))
    plan = planned(graph, destinations_of(made), fuel)
    yield "unjitted", _shown(made, execute(plan, PYTHON, arguments))
    if jit:
        yield "numba", _shown(made, execute(plan, CPU, arguments))


def _eager(made: Capture, function: Callable, leaves: Sequence[Any]) -> list[np.ndarray]:
    """What a call of ``function`` gives and leaves behind."""
    given = copies(leaves)
    position = default_generator.position()
    found = values_of(function(*given))
    default_generator.move_to(position)
    atoms = [made.graph.outputs[k] for k in _decisions(made)]
    found += [np.ones(a.shape, a.dtype) for a in atoms]  # type: ignore[union-attr]
    found += [np.array(given[e.argument]._data) for e in made.effects.writes]
    return found + [np.array(given[k].grad._data) for k in _new_grads(made)]


@contextlib.contextmanager
def by_numpy() -> Iterator[None]:
    """Eager mode sends no formula to kernels here."""
    names = ("LEAST_SMALL", "LEAST", "LEAST_SIMPLE")
    before = [getattr(formulas, name) for name in names]
    for name in names:
        setattr(formulas, name, sys.maxsize)
    try:
        yield
    finally:
        for name, least in zip(names, before, strict=True):
            setattr(formulas, name, least)


EXACT = {"interpreted", "optimised", "copied"}  # the same NumPy calls in the same order
TOLERANCE = {"float32": (1e-5, 1e-6), "float64": (1e-12, 1e-13), "float16": (2e-3, 1e-4)}


def assert_chain(
    function: Callable, leaves: Sequence[Any], jit: bool = True, fuel: int = -1, exact: bool = True,
    signs: bool = False,
) -> None:  # fmt: skip
    """Every link gives what the one before gives; a failure names the link. ``exact``: to the bit,
    as long as NumPy computes. (It adds up permuted arrays in another order than copies of them.)
    ``signs``: those of zeros,
    too."""
    before: tuple[str, list[np.ndarray]] | None = None
    for name, results in links(function, leaves, jit, fuel):
        if before is not None:
            assert_link(f"{before[0]} -> {name}", before[1], results, exact and name in EXACT)
            if signs:
                _assert_signs(f"{before[0]} -> {name}", before[1], results)
        before = name, results


def assert_link(link: str, expected: list[np.ndarray], found: list[np.ndarray], exact: bool = False) -> None:
    assert len(expected) == len(found), f"{link}: {len(expected)} results against {len(found)}"
    for k, (a, b) in enumerate(zip(expected, found, strict=True)):
        where = f"link {link}, result {k}"
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        if exact or a.dtype.kind != "f":
            np.testing.assert_array_equal(b, a, err_msg=where)
        else:
            rtol, atol = TOLERANCE[a.dtype.name]
            np.testing.assert_allclose(b, a, rtol=rtol, atol=atol, err_msg=where)


def _assert_signs(link: str, expected: list[np.ndarray], found: list[np.ndarray]) -> None:
    for a, b in zip(expected, found, strict=True):
        zeros = (a == 0) & (b == 0)
        np.testing.assert_array_equal(
            np.signbit(b[zeros]), np.signbit(a[zeros]), err_msg=f"{link}: signs of zeros"
        )
