"""Loops over time as ops of a recording, which holds one as a single equation, whatever the number of steps,
and has one turn compiled. They are not in the table: where ops run at once, composites call the turns.
"""

from __future__ import annotations

from collections.abc import Callable

from jtorch.core.op import Kind, Op, Scan


def scan(turn: Callable, name: str, *, outputs: int, carried: tuple[int, ...], shapes: Callable) -> Op:
    """The loop of this ``turn``, see ``Scan``, which has so many ``outputs``.

    ``shapes(carries, constants, xs, *options)`` are those of its outputs, given those of its inputs.
    """
    loop = Scan(turn, carried)

    def shape(*given, constants, reverse, options):
        carries, fixed, xs = loop.parted(given, constants)
        steps = xs[0][0]
        found = [(steps, *one) for one in shapes(carries, fixed, [x[1:] for x in xs], *options)]
        return found if outputs > 1 else found[0]

    def body(xp, *values, constants, reverse, options):
        carries, fixed, xs = loop.parted(values, constants)
        found: dict[int, tuple] = {}
        order = range(xs[0].shape[0])
        for t in reversed(order) if reverse else order:
            found[t] = turn(xp, carries, fixed, [x[t] for x in xs], *options)
            carries = [found[t][k] for k in carried]
        rows = ([xp.unsqueeze(part, axes=(0,)) for part in found[t]] for t in order)
        made = tuple(xp.cat(*parts, axis=0) for parts in zip(*rows, strict=True))
        return made if outputs > 1 else made[0]

    facts = {"name": name, "n_outputs": outputs, "dtype": "as_is", "shape": shape}
    return Op(Kind.SCAN, body, scan=loop, public=None, differentiable=False, **facts)


def scanned(xp, op, *values, **facts):
    """The outputs of the loop ``op``, in a namespace that ``records``."""
    return xp._tracer.record(op, *values, **facts)
