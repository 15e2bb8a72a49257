"""A compiled forward whose results eager code differentiates: one node on the tape.

The backward pass was recorded together with the forward one and cut off from it; it is compiled
when the first ``backward()`` reaches the node. What it reads of the forward pass leaves the arena
as arrays of their own, since the function may be called many times before anybody goes backward.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.graph.at_sizes import at_sizes
from jtorch.compile.graph.faults import told
from jtorch.compile.graph.ir import Graph, Literal, Type, Var
from jtorch.compile.graph.passes import Fuel, optimise
from jtorch.compile.graph.split import Split, kept, split, without
from jtorch.compile.pipeline import Program, compile_graph
from jtorch.compile.plan.plan import Destination, Place, Use, Where
from jtorch.compile.record.capture import Capture
from jtorch.compile.record.inputs import ArrayInput, of
from jtorch.compile.record.returned import ViewOnTape
from jtorch.compile.record.sizing import Sizing
from jtorch.compile.record.tape import INNER
from jtorch.compile.run.targets import INTERPRETER, of_sizes
from jtorch.compile.target import Binding, Target
from jtorch.compile.timings import Timings
from jtorch.core import config
from jtorch.core.device_array import in_order
from jtorch.core.environment import Exact
from jtorch.core.errors import CompileError, user_source
from jtorch.eager.node import BACKWARD_TWICE, Node
from jtorch.eager.tensor import Tensor


class CompiledFunctionBackward(Node):
    """The node of one call of a compiled function."""

    __slots__ = ("last", "owner", "sizes", "spent")
    foreign = takes_arrays = True
    frees = True
    materializes = False

    def __init__(
        self, owner: Backward, edges: Any, saved: Any, versions: Any, metadata: Any, sizes: tuple[int, ...]
    ) -> None:
        super().__init__(edges, saved, versions, metadata)
        self.owner, self.sizes = owner, sizes  # those that symbols of the recording were in the call
        self.last: frozenset[int] = frozenset()  # the results that the latest pass came from
        self.spent: frozenset[int] = frozenset()  # those whose part of the graph is freed

    def backward(self, xp: Any, g: Any) -> Any:
        arrays = self.check_saved()
        gradients = g if isinstance(g, list) else [g]
        self.last = frozenset(k for k, part in enumerate(gradients) if part is not None)
        if self.last & self.spent:
            raise RuntimeError(BACKWARD_TWICE)
        return self.owner.run(arrays, gradients, self.sizes)

    def refuse(self, name: str) -> None:
        """A pass inside the compiled function ``name`` is about to reach this."""
        owner = self.owner.name
        call = "an earlier call of it" if name == owner else f"a call of '{owner}' outside"
        raise CompileError(
            f"{user_source()}: '{name}' uses a tensor that {call} gave, with its graph, from where it is "
            "kept: a recording ends with its call and can't go on through that graph. Pass the tensor as an "
            "argument and return the new one (backward() outside then goes through all calls), or keep its "
            ".detach()."
        )

    def release(self) -> None:
        """Free what no later pass can ask for: results that share nothing go backward one after another."""
        rivals = self.owner.tape.rivals
        self.spent = self.spent.union(*(rivals[k] for k in self.last))
        if len(self.spent) == len(rivals):
            super().release()

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        raise CompileError(
            f"{user_source()}: create_graph=True goes through the compiled function '{self.owner.name}', "
            "whose backward pass is not on the tape. Compile a function that holds the derivative, too (call "
            "autograd.grad(..., create_graph=True) inside), or leave this one uncompiled."
        )

    def _saved_of(self, cell: Any) -> tuple[Any, str]:
        k = next(k for k in range(0, len(self.versions), 2) if self.versions[k] is cell) // 2
        return self.owner.watched[k], ""


class InnerResult(Node):
    """Above the node of a call of ``function``, or of a view of one of its arguments, for a result that
    another one was computed from. ``past`` is the call's node where it does not lie under this one."""

    __slots__ = ("function", "past")
    function: str
    past: Node | None
    frees = False
    inner = True

    @staticmethod
    def vjp(xp: Any, g: Any) -> Any:
        return g

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return g

    def register_prehook(self, hook: Any) -> Any:
        raise CompileError(INNER.format(name=self.function))

    register_tensor_hook = register_prehook


class Backward:
    """The backward pass of one capture."""

    def __init__(self, capture: Capture, leaves: list[Any], target: Target) -> None:
        self.target, self.sizing = target, capture.sizing
        self.name = capture.name
        self.capture = capture
        self.results = capture.differentiable
        self.programs: dict[frozenset[int], list[Program]] = {}  # by the results that a pass comes not from
        self.alone = threading.Lock()
        self.timings = Timings()
        self.arguments = self._leaf_arguments(capture)
        assert capture.tape is not None and capture.later is not None
        self.tape, self.later = capture.tape, capture.later
        views = ((k, r) for k, r in enumerate(capture.results) if isinstance(r, ViewOnTape))
        self.inner_views = [k for k, r in views if r.inner]
        self.split = self._cut(capture)
        self.n_saved = len(self.split.saved)
        self.types = [_type(a) for a in self.split.backward.outputs]
        self.types_at = _types_at(capture.sizing, [[v.type for v in capture.cotangents], self.types])
        by_var = {e.var: e for e in of(ArrayInput, capture.inputs)}
        self.passed = [by_var[v] for v in self.split.passed]
        if any(e.rebound is not None for e in self.passed):
            raise CompileError(
                f"'{capture.name}' gives a tensor other memory (.data =) whose elements a later backward() "
                "needs: call backward() inside, or use copy_()."
            )
        entries = [e for e in self.passed if e.var not in self.later.alone]
        self.watched: list[Any] = [e.var for e in entries] + [t._data for t in self.later.shared]

    def _leaf_arguments(self, capture: Capture) -> list[int | None]:
        """For each leaf the argument it is, None for a captured one."""
        return [capture.places.get(id(t)) for t in capture.leaves]

    def _cut(self, capture: Capture) -> Split:
        joint = capture.graph
        n_forward = len(joint.outputs) - capture.n_late
        looked_at = kept(joint, n_forward, capture.cotangents, capture.early)
        if self.target is not INTERPRETER:
            joint = optimise(joint, Fuel(int(config.get("FUEL"))))
        known = {id(t._data) for t in capture.leaves}
        inputs = [e for e in of(ArrayInput, capture.inputs) if not e.written]
        passable = {
            e.var for e in inputs if e.var in looked_at and (e.argument is not None or id(e.array) in known)
        }
        passable |= self.later.alone & {e.var for e in inputs}
        return split(joint, n_forward, capture.cotangents, passable)

    # -- each call -----------------------------------------------------------------------------------------

    def attach(
        self, leaves: tuple, results: list[Any], saved: list[np.ndarray], sizes: tuple[int, ...] = ()
    ) -> None:
        """Hang one node on the tape for a call's results."""
        edges = tuple(self._edge(k, leaves, results) for k in range(len(self.capture.leaves)))
        arrays, versions = [], []
        for entry in self.passed:
            if entry.var in self.later.alone:  # its elements count as they are when the pass comes
                arrays.append(entry.array)
                continue
            tensor = leaves[entry.argument] if entry.argument is not None else self._captured(entry)
            arrays.append(tensor._data)
            versions += [tensor._cell, tensor._cell[0] + 0]
        versions += [part for t in self.later.shared for part in (t._cell, t._cell[0] + 0)]
        outs = [results[k] for k in self.results]
        metadata: Any = [(t._data.shape, t._data.dtype) for t in outs]
        node = CompiledFunctionBackward(
            self, edges, (*arrays, *saved), tuple(versions), metadata if len(outs) > 1 else metadata[0], sizes
        )
        for k, t in enumerate(outs):
            t._node, t._index, t._requires_grad = node, k, True
            if k in self.tape.inner:
                t._node, t._index = self._inner(t, node, k), 0
            if k in self.tape.retaining:
                t.retain_grad()
        for k in self.inner_views:
            t = results[k]
            t._node, t._index = self._inner(t, t._node, t._index, node), 0

    def _inner(self, t: Tensor, node: Node, index: int, past: Node | None = None) -> InnerResult:
        found = InnerResult(((node, index),), (), (), (t._data.shape, t._data.dtype))
        found.function, found.past = self.name, past
        return found

    def _edge(self, k: int, leaves: tuple, results: list[Any]) -> Any:
        own = self.capture.own_leaves.get(k)
        if own is not None:  # a leaf that each call makes; nobody sees one that is no result
            return None if own < 0 else (results[own], 0)
        argument = self.arguments[k]
        tensor = self.capture.leaves[k] if argument is None else leaves[argument]
        return (tensor._node or tensor, tensor._index)

    def _captured(self, entry: ArrayInput) -> Tensor:
        return next(t for t in self.capture.leaves if t._data is entry.array)

    def run(self, arrays: tuple, given: list[np.ndarray | None], sizes: tuple[int, ...]) -> tuple:
        """The leaves' gradients, None where none flows."""
        self.later.check()
        types, made = self.types_at(*sizes)
        pairs = zip(given, types, strict=True)
        gradients = [np.zeros(t.shape, t.dtype) if g is None else g for g, t in pairs]
        absent = frozenset(k for k, g in enumerate(given) if g is None)
        inputs = [in_order(a) for a in (*arrays, *gradients)]
        outs = [np.empty(t.shape, t.dtype) for t in made]
        replay = self._runner(absent, sizes)
        with replay.alone:  # until the error has its name
            status = replay.run(*inputs, *outs)
            if status:
                raise replay.failure(status).error()
        found: list[Any] = [None] * len(self.capture.leaves)
        # what follows the gradients in ``outs`` was computed for its checks alone
        for k, out, sources in zip(self.capture.wanted, outs, self.capture.sources, strict=False):
            if sources - absent:
                found[k] = out
        return tuple(found)

    def _runner(self, absent: frozenset[int], sizes: tuple[int, ...]) -> Any:
        """What runs the pass for a call of these sizes, compiled where nothing there is does."""
        with self.alone:
            programs = self.programs.setdefault(absent, [])
            runners = (p.runner if self.sizing is None else p.runner.at(*sizes) for p in programs)
            found = next((runner for runner in runners if runner is not None), None)
            if found is not None:
                return found
            graph = without(self.split.backward, self.capture.cotangents, absent)
            if self.sizing is None:
                programs.append(self._compile(graph, self.target))
                return programs[-1].runner
            env = self.sizing.env
            space = env.functions | dict(zip(env.symbols, sizes, strict=True))
            try:
                with env.planning_for(space):
                    programs.append(self._compile(graph, of_sizes(self.target, env)))
                return programs[-1].runner.at(*sizes)
            except Exact:  # no plan for any sizes: one for these
                programs.append(self._compile(at_sizes(graph, space), self.target))
                programs[-1].runner = ForSizes(programs[-1].runner, sizes)
                return programs[-1].runner.at(*sizes)

    def _compile(self, graph: Graph, target: Target) -> Program:
        destinations = [Destination(Use.RESULT, k) for k in range(len(graph.outputs))]
        binding = Binding()
        binding.bring(*(Place(Where.INPUT, k) for k in range(len(graph.inputs))))
        binding.bring(*(destination.place for destination in destinations))
        with told(f"{self.name}, its backward pass"):
            return compile_graph(graph, destinations, target, binding, self.timings)


class ForSizes:
    """A runner of a plan for these sizes alone, among some for any."""

    def __init__(self, runner: Any, sizes: tuple[int, ...]) -> None:
        self.runner, self.sizes = runner, sizes

    def at(self, *sizes: int) -> Any:
        return self.runner if sizes == self.sizes else None


def _types_at(sizing: Sizing | None, types: list[list[Type]]) -> Callable[..., list[list[Type]]]:
    """A function of sizes that gives ``types`` with numbers."""
    if sizing is None:
        return lambda: types
    texts = ", ".join(str([t.shape for t in some]) for some in types)
    shapes = eval(f"lambda {', '.join(sizing.env.symbols)}: ({texts}, )", dict(sizing.env.functions))

    def at(*sizes: int) -> list[list[Type]]:
        pairs = zip(types, shapes(*sizes), strict=True)
        return [[Type(t.dtype, shape) for t, shape in zip(a, b, strict=True)] for a, b in pairs]

    return at


def _type(atom: Var | Literal) -> Type:
    return atom.type if isinstance(atom, Var) else Type(atom.dtype, ())
