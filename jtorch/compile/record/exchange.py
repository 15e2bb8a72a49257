"""Collectives between processes in a recording: each is one equation, which runs in the background.

Its inputs are packed behind each other into its output (``collective.parts`` times their size: into the part
of number ``collective.place``), where the collective works in place. As in eager mode
the processes must come to the same collectives in the same order; each keeps the order of the program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import Kind, Op


class Finished:
    """What waits for nothing."""

    def wait(self) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def record(tracer: Any, collective: Any, values: Sequence[Any]) -> Any:
    """Append the equation of ``collective`` over ``values``; its result, flat."""
    tracer.only_now("talks to other processes")
    atoms = [tracer.read(tracer.lift(v)) for v in values]
    before = [*tracer.branches.checks]  # a plan that goes another way must not have begun it
    statics = {"number": len(tracer.exchanges), "collective": str(collective)}
    tracer.exchanges.append(collective)
    (out,) = tracer.emit(_op_of(collective, len(atoms)), [*atoms, *before], statics)
    return tracer.fresh(out)


def _op_of(collective: Any, count: int) -> Op:
    """The op that packs its first ``count`` inputs; the others only come first."""

    def start(out: np.ndarray, *inputs: np.ndarray) -> Any:
        begin = collective.place * (out.size // collective.parts)
        for value in inputs[:count]:
            end = begin + value.size
            out[begin:end].reshape(value.shape)[...] = value
            begin = end
        return collective.start(out) if out.size else Finished()

    def body(xp, *inputs, number, collective):
        out = np.empty(size(*(v.shape for v in inputs)), inputs[0].dtype)
        start(out, *inputs).wait()
        return out

    def size(*shapes: tuple[int, ...]) -> int:
        return collective.parts * sum(math.prod(s) for s in shapes[:count])

    return Op(
        Kind.OPAQUE,
        body,
        name=collective.name,
        shape=lambda *shapes, **_: (size(*shapes),),
        dtype=lambda dtypes, _: dtypes[0],
        start=start,
        differentiable=False,
        public=None,
    )


def refuse_elements(tracer: Any) -> None:
    """Raise CompileError where elements are wanted while recording, once something was exchanged: to know
    them it would have to be exchanged, and again by the replay."""
    if tracer.exchanges:
        raise CompileError(
            f"{user_source()}: a branch on the elements of a tensor, or a function that is disabled for "
            f"compiling, after {tracer.exchanges[-1]} between processes in one compiled function: do that "
            "before, or outside."
        )
