"""The end of a recording: the graph of its results and of every effect that a replay must have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from jtorch.compile.graph.ir import Atom, Graph
from jtorch.compile.record import loops
from jtorch.compile.record.inputs import ArrayInput, GradInput, of
from jtorch.compile.record.returned import ViewOf
from jtorch.compile.record.shared_memory import disjoint, owners
from jtorch.compile.record.sym import Sym
from jtorch.compile.record.tensor_indices import check_tape
from jtorch.core.errors import CompileError, user_source

if TYPE_CHECKING:
    from jtorch.compile.record.trace import Tracer


class SharedGrad(NamedTuple):
    """``grad``, whose memory is there after the call, is the gradient of ``tensor``; ``shown`` is how a
    replay makes it, where it is a view that the function took."""

    tensor: Any
    grad: Any
    shown: ViewOf | None = None


@dataclass
class Effects:
    """What replaying the graph must do besides computing: filled by ``close``."""

    writes: list[ArrayInput] = field(default_factory=list)  # outside arrays that get new content
    grad_writes: list[GradInput] = field(default_factory=list)  # gradients changed in place
    grads: list[tuple[Any, Atom | None]] = field(default_factory=list)  # (tensor, its new grad)
    shared_grads: list[SharedGrad] = field(default_factory=list)
    advances: dict[int, int] = field(default_factory=dict)  # id of a version cell -> how far a call moves it
    draws: list[tuple[Any, int]] = field(default_factory=list)  # (generator, random ops drawn)
    seeds: list[tuple[Any, tuple[int, int]]] = field(default_factory=list)  # (generator, where it is put)


def close(tracer: Tracer, results: Sequence[Atom], shown: Iterable[Any] = ()) -> tuple[Graph, Effects]:
    """Close the trace: the graph of ``results`` and of every effect, in that order. ``shown`` are the
    tensors that the call gives, each over memory that is made for it."""
    check_tape(tracer.written_picks)
    tracer.put_off.check()
    tracer.open = False
    effects = Effects()
    outputs = list(results)
    effects.writes = [entry for entry in of(ArrayInput, tracer.inputs) if entry.written]
    effects.grad_writes = [entry for entry in of(GradInput, tracer.inputs) if entry.written]
    for written in effects.grad_writes:
        _check_apart(tracer, written)
        written.advances = int(tracer.grads[id(written.tensor)][1]._cell[0])
    outputs += [entry.sym.storage.current for entry in effects.writes]
    outputs += [entry.sym.storage.current for entry in effects.grad_writes]
    outside = [(t, before, now) for t, before, now in tracer.grads.values() if not tracer.made(t)]
    owned = Counter(id(getattr(now._data, "storage", None)) for _, _, now in outside if now is not None)
    held = {id(t._data.storage): t for t in shown if isinstance(getattr(t, "_data", None), Sym)}
    for tensor, at_entry, now in outside:
        if now is at_entry:
            continue
        if now is not None and _stays(tracer, now):
            effects.shared_grads.append(SharedGrad(tensor, now))
            continue
        if id(now) in tracer.shown_grads:
            effects.shared_grads.append(SharedGrad(tensor, now, tracer.shown_grads[id(now)]))
            continue
        if now is not None:
            if now._requires_grad:
                tracer.refuse(
                    "leaves a .grad that has a graph of its own (backward(create_graph=True))",
                    "Take it by autograd.grad(create_graph=True), or set it to None before the end.",
                )
            _check_own(tracer, now, owned, held)
        atom = None if now is None else tracer.read(tracer.lift(now._data))
        effects.grads.append((tensor, atom))
        if atom is not None:
            outputs.append(atom)
    effects.draws = [(g.generator, g.drawn) for g in tracer.generators.entries.values()]
    effects.seeds = list(tracer.generators.seeded.values())
    loops.check_apart(tracer, outputs)
    graph = Graph(tracer.name, tuple(i.var for i in tracer.inputs), tuple(tracer.eqns), tuple(outputs))
    return graph, effects


def _check_own(tracer: Tracer, grad: Any, owned: Mapping[int, int], held: Mapping[int, Any]) -> None:
    """Raise where memory that the function made is the gradient of two tensors, or of one and also that of
    another tensor that it gives; ``owned`` counts gradients by the ids of their storages, ``held`` are those
    tensors."""
    storage = id(tracer.lift(grad._data).storage)
    if storage in held and held[storage] is not grad:
        raise CompileError(
            f"'{tracer.name}' makes a view of a tensor of shape {tuple(grad.shape)} a gradient, and gives "
            "the tensor, too: a replay would make two. Give the gradient a .clone() of its own."
        )
    if owned[storage] > 1:
        raise CompileError(
            f"'{tracer.name}' makes one tensor of shape {tuple(grad.shape)} the gradient of two, of which "
            "a replay would make two tensors. Give each a .clone() of its own."
        )


def _check_apart(tracer: Tracer, written: GradInput) -> None:
    """Raise where a gradient that changes in place is memory of another input's, too."""
    inputs = [*of(ArrayInput, tracer.inputs), *of(GradInput, tracer.inputs)]
    if not disjoint((written.now(),), owners(e.now() for e in inputs if e is not written)):
        raise CompileError(
            f"{user_source()}: '{tracer.name}' adds to the gradient of a tensor of shape "
            f"{written.var.shape}, whose memory it uses under another name, too: it can't tell when "
            "which sees the sum. Read it as the tensor's .grad, or give the gradient memory of its own."
        )


def _stays(tracer: Tracer, tensor: Any) -> bool:
    """Whether ``tensor`` is there after the call: an argument, or one from outside."""
    return id(tensor) in tracer.places or not tracer.made(tensor)
