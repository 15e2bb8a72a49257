"""One recorded run of a function: its graph, where inputs come from, and what its result looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jtorch import op as op_module
from jtorch.compile.inputs import ArrayInput, Input, ScalarInput
from jtorch.compile.ir import Atom, Graph, Type, Var
from jtorch.compile.plain import PlainRead, plain_reads
from jtorch.compile.scalar import Scalar
from jtorch.compile.trace import Effects, Sym, Tracer
from jtorch.compile.tree import flatten, unflatten
from jtorch.eager import engine
from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor
from jtorch.errors import CompileError
from jtorch.op import Context


@dataclass
class Result:
    """One leaf of what the function returned. ``kind``: "tensor" (output ``index``), "number" (output
    ``index`` as a float), "view" (memory of an outside array), "same" (``value`` itself)."""

    kind: str
    index: int = -1
    value: Any = None
    requires_grad: bool = False
    source: ArrayInput | None = None
    chain: tuple = ()


@dataclass
class Capture:
    """What tracing found. Where results are differentiated outside, ``graph`` is the joint graph:
    it also takes
    cotangents of those results and returns gradients of ``leaves``."""

    name: str
    graph: Graph
    inputs: list[Input]
    effects: Effects
    results: list[Result]
    structure: Any
    plain: list[PlainRead]  # numbers outside that the function may have read
    n_results: int  # graph outputs that are results, before the effects
    leaves: list[Tensor] = field(default_factory=list)  # to differentiate for, in a backward outside
    cotangents: list[Var] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)  # the leaves that get a gradient, the last outputs
    differentiable: list[int] = field(default_factory=list)  # results that carry a graph outside


def capture(function: Callable, leaves: list[Any], structure: Any, context: Context, name: str) -> Capture:
    """Run ``function`` once on traced values."""
    tracer = Tracer(name)
    plain = plain_reads(function)
    arguments, stand_ins = _arguments(tracer, leaves)
    args, kwargs = unflatten(structure, arguments)
    token = op_module.CONTEXT.set(context.replace(evaluator=tracer))
    try:
        returned = function(*args, **kwargs)
        outs, out_structure = flatten(returned)
        results, atoms, alive = _results(tracer, outs)
        found = _differentiate(tracer, alive, stand_ins) if context.grad and alive else None
        graph, effects = tracer.finish(atoms)
    finally:
        tracer.open = False
        op_module.CONTEXT.reset(token)
    _check_stand_ins(effects, stand_ins, name)
    _check_plain(plain, name)
    made = Capture(name, graph, tracer.inputs, effects, results, out_structure, plain, len(atoms))
    if found is not None:
        made.leaves, made.cotangents, gradients = found
        made.wanted = [k for k, g in enumerate(gradients) if g is not None]
        made.graph = graph.replace(
            inputs=(*graph.inputs, *made.cotangents),
            outputs=(*graph.outputs, *(g for g in gradients if g is not None)),
        )
        made.differentiable = [k for k, r in enumerate(results) if r.requires_grad]
    return made


def _arguments(tracer: Tracer, leaves: list[Any]) -> tuple[list[Any], dict[int, Tensor]]:
    """The leaves as the function sees them while traced, and stand-ins for tensors of an outside graph."""
    arguments: list[Any] = []
    stand_ins: dict[int, Tensor] = {}
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            entry = tracer.lift(leaf._data).storage.source
            if entry.argument is None:
                entry.argument = k
            if leaf._node is not None:  # the outside graph is not this function's to walk
                leaf = Tensor(leaf._data, leaf._requires_grad)
                stand_ins[id(leaf)] = leaf
        elif leaf.__class__ is float:
            leaf = tracer.runtime_scalar(ScalarInput(None, (), leaf, argument=k))
        elif isinstance(leaf, np.ndarray):
            raise CompileError(
                f"'{tracer.name}' got a NumPy array as an argument, which compiled code cannot follow: pass "
                "jtorch.from_numpy(array)."
            )
        arguments.append(leaf)
    return arguments, stand_ins


def _results(tracer: Tracer, outs: list[Any]) -> tuple[list[Result], list[Atom], list[Tensor]]:
    results: list[Result] = []
    atoms: list[Atom] = []
    alive: list[Tensor] = []
    for out in outs:
        if isinstance(out, Tensor) and isinstance(out._data, Sym):
            source = out._data.storage.source
            wants = out._requires_grad and not _is_freed(out._node)
            if source is not None:
                results.append(Result("view", source=source, chain=out._data.chain))
                if wants:
                    raise CompileError(
                        f"'{tracer.name}' returns a view of a tensor from outside that requires grad: return "
                        "its .clone()"
                    )
                continue
            results.append(Result("tensor", len(atoms), requires_grad=wants))
            atoms.append(tracer.read(out._data))
            if wants:
                alive.append(out)
        elif isinstance(out, Scalar):
            results.append(Result("number", len(atoms)))
            atoms.append(out.var)
        else:
            results.append(Result("same", value=out))
    return results, atoms, alive


def _is_freed(node: Any) -> bool:
    """Whether ``backward()`` already went through the graph under ``node``: a second pass is an error."""
    seen: set[Any] = set()
    stack = [node]
    while stack:
        found = stack.pop()
        if isinstance(found, Node) and found not in seen:
            if found.saved is None:
                return True
            seen.add(found)
            stack += [e[0] for e in found.edges if e is not None]
    return not seen


def _differentiate(
    tracer: Tracer, outputs: list[Tensor], stand_ins: dict[int, Tensor]
) -> tuple[list[Tensor], list[Var], list[Atom | None]]:
    """Record the backward pass of ``outputs`` for a ``backward()`` that comes from outside."""
    leaves = _leaves_under(outputs)
    cotangents = []
    for out in outputs:
        var = Var(Type(out._data.dtype, tuple(out._data.shape)), "g")
        cotangents.append(var)
    seeds = [Tensor(tracer._fresh(v)) for v in cotangents]
    run = engine._Run(False, True)
    found = run.play(outputs, seeds, leaves)
    return leaves, cotangents, [None if g is None else tracer.read(tracer.lift(g)) for g in found]


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


def _check_plain(plain: list[PlainRead], name: str) -> None:
    changed = next((read for read in plain if not read.holds()), None)
    if changed is not None:
        raise CompileError(
            f"'{name}' changes the number {changed.key!r} that it reads from outside "
            f"({changed.value!r} became {changed.now()!r}): a recording would not. Pass the number in "
            "and return the new one."
        )


def _check_stand_ins(effects: Effects, stand_ins: dict[int, Tensor], name: str) -> None:
    for tensor, _ in effects.grads:
        if id(tensor) in stand_ins:
            raise CompileError(
                f"backward() inside '{name}' reaches an argument that was computed outside, whose "
                "graph is not part of the function. Call backward() outside, or pass the tensor detached."
            )
