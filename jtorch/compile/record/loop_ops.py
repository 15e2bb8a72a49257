"""Loops as ops of a recording: equations that were cut out of it, run once for each step."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph import passes
from jtorch.compile.graph.interpret import interpret
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Type, Var, repeated
from jtorch.compile.graph.reads import may_stop
from jtorch.core.errors import user_source
from jtorch.core.op import BY_NAME, Kind, Op, Scan

_CLONE, _SLICE, _RESHAPE = (BY_NAME[name] for name in ("clone", "slice", "reshape"))


class Cut:
    """Equations that were cut out of a recording, as a graph of their own: of what is ``carried`` from step
    to step, of what it reads otherwise (``free``), and of what is ``moving`` on."""

    def __init__(self, eqns: list[Eqn], carried: Sequence[Var], moving: Sequence[Var]) -> None:
        self.eqns, self.carried, self.moving = list(eqns), list(carried), list(moving)
        self.outputs: list[Var] = []
        self.free: list[Var] = []

    def produced(self) -> list[Var]:
        return [var for eqn in self.eqns for var in eqn.outputs]

    def own(self, atom: Atom) -> Var:
        """``atom`` as an output that is no other one, and none of the inputs."""
        made = {var for eqn in self.eqns for var in eqn.outputs}
        if isinstance(atom, Literal):
            out = Var(Type(atom.dtype, ()))
            self.eqns.append(repeated(atom, out))
        elif atom in made and atom not in self.outputs:
            out = atom
        else:
            out = Var(atom.type)
            self.eqns.append(Eqn(_CLONE, (atom,), {}, (out,), user_source()))
        self.outputs.append(out)
        return out

    def unread_checks(self) -> list[Var]:
        """What may be an error and is needed for none of the outputs."""
        return passes.unread_checks(Graph("", (), tuple(self.eqns), tuple(self.outputs)))

    def zeros(self, type: Type) -> Var:
        out = Var(type)
        self.eqns.append(repeated(Literal(0.0, type.dtype), out))
        return out

    def finish(self, finals: list[Var], others: list[Var]) -> list[Var]:
        """All outputs; what is read and not made is known from now on."""
        made = {*self.produced(), *self.carried, *self.moving}
        used = (a for eqn in self.eqns for a in eqn.inputs if isinstance(a, Var))
        self.free = [v for v in dict.fromkeys(used) if v not in made]
        return [*finals, *others]

    def emit(
        self, tracer: Any, name: str, outputs: list[Var], begin: list[Atom], moving: list[Atom], steps: Any,
        reverse: bool, ends: bool = False, skipped: Atom | None = None,
    ) -> tuple[Var, ...]:  # fmt: skip
        """Those of the loop's equation: of what is carried the two latest ones, the last one first. Which
        steps are taken: see ``Scan``."""
        first = [] if skipped is None else [Var(Type(np.dtype(np.int64), ()))]
        constants: list[Atom] = [*self.free] if skipped is None else [skipped, *self.free]
        graph = Graph(
            name, (*self.carried, *first, *self.free, *self.moving), tuple(self.eqns), tuple(outputs)
        )
        op = loop_of(graph, len(self.carried), ends=ends, skips=skipped is not None)
        statics = {"constants": len(constants), "reverse": reverse, "options": (), "steps": steps}
        return tracer.emit(op, [*begin, *constants, *moving], statics)


def loop_of(
    graph: Graph, n_carried: int, checked: tuple[int, ...] | None = None, ends: bool = False,
    skips: bool = False,
) -> Op:  # fmt: skip
    """The op that runs ``graph`` for each step; the first of its outputs are what is carried, those that are
    ``checked`` may be errors, or say that it ``ends``."""
    types = [atom.type for atom in graph.outputs if isinstance(atom, Var)]
    several = len(types) > 1

    def length(k: int, steps: Any) -> Any:
        if k < n_carried:
            return 2
        return 1 if ends and k == n_carried else steps

    def shape(*given: Any, constants: int, reverse: bool, options: Any, steps: Any) -> Any:
        found = [(length(k, steps), *type.shape) for k, type in enumerate(types)]
        return found if several else found[0]

    def dtype(*given: Any) -> Any:
        found = tuple(type.dtype for type in types)
        return found if several else found[0]

    def body(
        xp: Any, *values: Any, constants: int, reverse: bool, options: Any, steps: int
    ) -> tuple[np.ndarray, ...] | np.ndarray:
        carries, fixed, moving = scan.parted(values, constants)
        made = [np.zeros((length(k, steps), *t.shape), t.dtype) for k, t in enumerate(types)]
        for step in range(int(fixed[0]) if skips else 0, steps):
            t = steps - 1 - step if reverse else step
            found = interpret(graph, [*carries, *fixed, *(x[t] for x in moving)])
            for k, (out, value) in enumerate(zip(made, found, strict=True)):
                out[(steps - 1 - step) % 2 if k < n_carried else min(t, len(out) - 1)] = value
            carries = found[:n_carried]
            if ends and found[n_carried] < 0:
                break
        return tuple(made) if several else made[0]

    if checked is None:
        made_by: dict[Any, Eqn] = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
        others = enumerate(graph.outputs[n_carried:], start=n_carried)
        checked = tuple(k for k, var in others if may_stop(made_by[var]) or (ends and k == n_carried))
    like = functools.partial(loop_of, n_carried=n_carried, ends=ends, skips=skips)
    scan = Scan(body, tuple(range(n_carried)), graph, checked, like, ends, skips)
    return Op(
        Kind.SCAN, body, name=graph.name, scan=scan, n_outputs=len(types), shape=shape, dtype=dtype,
        public=None, differentiable=False,
    )  # fmt: skip


def latest(tracer: Any, pair: Var, before: int = 0) -> Any:
    """The last one of what is carried, as traced memory of its own, or the one ``before`` that."""
    shape = pair.shape
    n = len(shape)
    start, stop, step = (before, *(0,) * (n - 1)), (before + 1, *shape[1:]), (1,) * n
    one = tracer.record(_SLICE, tracer.fresh(pair), start=start, stop=stop, step=step)
    return tracer.fresh(tracer.read(tracer.record(_RESHAPE, one, shape=shape[1:])))
