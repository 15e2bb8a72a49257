"""The tape of a recording under its results, for one node that stands for all of it on the tape outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jtorch.compile.graph.at_zero import are_zero_at_zero
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Type, Var
from jtorch.compile.record.trace import Tracer
from jtorch.core.errors import CompileError
from jtorch.eager import engine
from jtorch.eager.node import BACKWARD_TWICE, Node
from jtorch.eager.tensor import Tensor, wrap

INNER = (
    "the gradient of a result of the compiled function '{name}' from which another of its results was "
    "computed: of what lies between them nothing is known outside. Compute the second outside, or the "
    "gradient inside."
)


@dataclass(frozen=True)
class Tape:
    """Of each result with a graph: ``rivals`` are those that a backward pass from it spends, itself among
    them if it saves anything; ``inner`` are the results that others are computed from, ``retaining`` those
    of which the function asked for the gradient with ``retain_grad()``."""

    rivals: tuple[frozenset[int], ...]
    inner: frozenset[int]
    retaining: frozenset[int]


def tape_of(outs: Sequence[Tensor], name: str) -> Tape:
    """How the results ``outs`` of the function ``name`` hang together. Raises CompileError where it called
    ``retain_grad()`` for a gradient that nobody outside could give."""
    under = [nodes_under(t._node) for t in outs]
    spent = [{n for n in nodes if n.is_freed_by_a_pass} for nodes in under]
    rivals = tuple(frozenset(j for j, other in enumerate(spent) if mine & other) for mine in spent)
    inner = frozenset(
        j for j, t in enumerate(outs)
        if any(t._node in nodes and outs[i]._node is not t._node for i, nodes in enumerate(under))
    )  # fmt: skip
    retaining = frozenset(j for j, t in enumerate(outs) if t.retains_grad)
    if retaining & inner:
        raise CompileError(f"retain_grad() inside '{name}' asks for {INNER.format(name=name)}")
    return Tape(rivals, inner, retaining)


def nodes_under(node: Any) -> set[Any]:
    found = {node}
    stack = [node]
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and isinstance(edge[0], Node) and edge[0] not in found:
                found.add(edge[0])
                stack.append(edge[0])
    return found


def reached_from(graph: Graph, atoms: Sequence[Atom], variables: Sequence[Var]) -> list[frozenset[int]]:
    """For each of ``atoms`` the numbers of the ``variables`` that it is computed from."""
    made_by = {v: e for e in graph.eqns for v in e.outputs}
    numbers = {v: k for k, v in enumerate(variables)}
    found = []
    for atom in atoms:
        seen: set[Eqn] = set()
        reached, stack = set(), [atom]
        while stack:
            atom = stack.pop()
            if isinstance(atom, Var) and atom in numbers:
                reached.add(numbers[atom])
            eqn = made_by.get(atom) if isinstance(atom, Var) else None
            if eqn is not None and eqn not in seen:
                seen.add(eqn)
                stack += eqn.inputs
        found.append(frozenset(reached))
    return found


def is_freed(node: Any) -> bool:
    """Whether ``backward()`` already went through the graph under ``node``: a second pass is an error."""
    seen: set[Any] = set()
    stack = [node]
    while stack:
        found = stack.pop()
        if isinstance(found, Node) and found not in seen:
            if found.is_released:
                return True
            seen.add(found)
            stack += [e[0] for e in found.edges if e is not None]
    return False


def differentiate_whole(tracer: Tracer, outs: list[Any], results: Sequence[Any]) -> Any:
    """Record the backward pass of the results that have a graph.

    One whose graph needs what the function changed in place since, or is freed, is an error only when
    somebody goes backward from it.
    """
    alive = [k for k, r in enumerate(results) if r.requires_grad]
    try:
        return _differentiate(tracer, [outs[k] for k in alive])
    except RuntimeError as error:
        if isinstance(error, CompileError) or not any(told in str(error) for told in _BROKEN):
            raise
    for k in alive:
        start = len(tracer.eqns)
        try:
            _, cotangents, *_ = _differentiate(tracer, [outs[k]])
            tracer.eqns[start:] = _without(cotangents, tracer.eqns[start:])
        except RuntimeError as error:
            results[k].requires_grad, results[k].broken = False, str(error)
    whole = [outs[k] for k in alive if results[k].requires_grad]
    return _differentiate(tracer, whole) if whole else None


def check_hooks(tracer: Tracer, outs: Sequence[Any], alive: list[Tensor]) -> None:
    """Raise for a hook on a leaf that the function made and whose gradient comes from outside, as a result of
    it or through the graph of those ``alive``: each call gives another leaf."""
    leaves = [out for out in outs if isinstance(out, Tensor) and out._requires_grad and out._node is None]
    if any(leaf._hooks and tracer.made(leaf) for leaf in (*leaves, *_leaves_under(alive))):
        raise CompileError(
            f"'{tracer.name}' registers a hook on a tensor that it makes, for a gradient that comes from a "
            "backward() outside, where a replay would not call it: go backward inside, or register it on "
            "what is returned, outside."
        )


_BROKEN = ("has been modified by an inplace operation", BACKWARD_TWICE)


def _differentiate(
    tracer: Tracer, outputs: list[Tensor]
) -> tuple[list[Tensor], list[Var], list[Atom | None], list[frozenset[int]]]:
    """Record the backward pass of ``outputs`` for a ``backward()`` that comes from outside: the leaves under
    them, the gradients that it begins with and those of the leaves, and which outputs each of these is from,
    also where it is zero whatever theirs are."""
    leaves = _leaves_under(outputs)
    cotangents = []
    for out in outputs:
        if out._node is not None:
            tracer.walk(nodes_under(out._node))  # those that lead to no leaf, too
        var = Var(Type(out._data.dtype, tuple(out._data.shape)), "g")
        cotangents.append(var)
    seeds = [wrap(tracer.fresh(v)) for v in cotangents]
    run = _Run(False, True)
    tracer.several_results = len(outputs) > 1
    flowing: dict[Any, tuple[bool, ...]] = {}
    tracer.flowing = flowing
    hooks = [t._hooks for t in leaves]
    start = len(tracer.eqns)
    try:
        for t in leaves:  # the engine outside runs them, on what this pass gives
            t._hooks = None
        found = run.play(outputs, seeds, leaves)
    except RuntimeError:
        tracer.eqns[start:] = _without(cotangents, tracer.eqns[start:])
        raise
    finally:
        tracer.flowing = None
        for t, h in zip(leaves, hooks, strict=True):
            t._hooks = h
    if tracer.gets_zeros and not are_zero_at_zero(tracer.eqns[start:], cotangents):
        raise tracer.too_early("is not linear in its gradients, some of which may not come")
    fed = [_fed_by(out, flowing) for out in outputs]
    atoms = {
        id(t): None if g is None else tracer.read(tracer.lift(g)) for t, g in zip(leaves, found, strict=True)
    }
    leaves.sort(key=lambda t: run.finished.get(id(t), -1), reverse=True)  # as they lie on the engine's stack
    sources = [frozenset(k for k, some in enumerate(fed) if id(t) in some) for t in leaves]
    return leaves, cotangents, [atoms[id(t)] for t in leaves], sources


class _Run(engine.Run):
    """A pass that notes in which order leaves get their gradients, which their hooks see."""

    def __init__(self, create_graph: bool, retain_graph: bool) -> None:
        super().__init__(create_graph, retain_graph)
        self.finished: dict[int, int] = {}  # id of a leaf -> how many came before it

    def _finish_leaf(self, leaf: Tensor, g: Any) -> None:
        self.finished[id(leaf)] = len(self.finished)
        super()._finish_leaf(leaf, g)


def _fed_by(out: Tensor, flowing: dict[Any, tuple[bool, ...]]) -> set[int]:
    """The ids of the leaves that a pass from ``out`` gives a gradient, where each node hands on what
    ``flowing`` says."""
    found: set[int] = set()
    stack: list[Any] = [out._node or out]
    while stack:
        target = stack.pop()
        if id(target) in found:
            continue
        found.add(id(target))
        if isinstance(target, Node):
            pairs = zip(target.edges, flowing.get(target, ()), strict=False)
            stack += [edge[0] for edge, flows in pairs if edge is not None and flows]
    return found


def _without(cotangents: list[Var], eqns: list[Eqn]) -> list[Eqn]:
    """What a pass that came to nothing, or was a trial, leaves: no graph has its ``cotangents`` among its
    inputs. The rest, views of outside tensors that it read, may be in use."""
    gone: set[Any] = set(cotangents)
    kept = []
    for eqn in eqns:
        if gone.isdisjoint(a for a in eqn.inputs if isinstance(a, Var)):
            kept.append(eqn)
        else:
            gone.update(eqn.outputs)
    return kept


def _leaves_under(outputs: list[Tensor]) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    seen: set[Node] = set()
    stack: list[Any] = [t._node or t for t in outputs]
    while stack:
        target = stack.pop()
        if isinstance(target, Tensor):
            found[id(target)] = target
        elif target not in seen:
            seen.add(target)
            stack += [e[0] for e in target.edges if e is not None]
    return list(found.values())
