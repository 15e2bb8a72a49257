"""Why a plan over symbols does not take a call's sizes, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from jtorch.compile.record.sizing import sizes_of
from jtorch.core.environment import LEAST, SizeGuard

_WAYS = "each answer is a program of its own, recorded once: jtorch.where has both in one"
_NUMBER = (
    "the number itself is needed there (as by range(), a key, a text or a list of parts), so each "
    "is recorded: compute with x.shape[0] itself, and repeat by ops over the whole tensor"
)
_SMALL = "sizes of 0 and 1 have plans of their own, recorded once"
_OWN = "a size that is one of the program's own as well has a plan of its own, recorded once"


class SizeChange(NamedTuple):
    """What sizes answer otherwise, and what may be done about it."""

    what: str
    advice: str


def size_change(plan: Any, leaves: Sequence[Any], labels: Sequence[str]) -> SizeChange | None:
    """The first guard about sizes that these arguments do not pass; None where they pass all, or where other
    facts than sizes tell them apart."""
    sizing = plan.capture.sizing
    if any(k >= len(leaves) for k in sizing.texts):
        return None
    shapes: list[tuple[int, Any]] = [(k, sizes_of(leaves[k])) for k in sizing.texts]
    if any(shape is None or len(shape) != len(sizing.texts[k]) for k, shape in shapes):
        return None

    def name_of(k: int, axis: int) -> str:
        argument = labels[k] if k < len(labels) else "an argument"
        return argument if leaves[k].__class__ is int else f"{argument}.shape[{axis}]"

    names = {text: name_of(k, axis) for k, _ in reversed(shapes) for axis, text in enumerate(sizing.texts[k])}
    for k, shape in shapes:
        for axis, text in enumerate(sizing.texts[k]):
            if text.isdecimal() and shape[axis] != int(text):
                return SizeChange(f"{name_of(k, axis)} is {shape[axis]}, and no more {text}", _SMALL)
    space = sizing.space(leaves) | plan.counts.missed
    names |= dict.fromkeys(sizing.counts, "the number of elements of a mask")
    for name, limits in zip(sizing.env.symbols, sizing.env.limits, strict=True):
        if not eval(limits, {name: space[name]}):
            advice = _SMALL if space[name] < LEAST else "other sizes than were marked have plans of their own"
            return SizeChange(f"{names[name]} is {space[name]}", advice)
    for k, shape in shapes:
        for axis, text in enumerate(sizing.texts[k]):
            if not text.isdecimal() and shape[axis] != space[text]:
                what = f"{name_of(k, axis)} is no more {names[text]}"
                return SizeChange(what, "equal sizes are one symbol, different ones two, each recorded once")
    failing = next((g for g in sizing.env.guards.values() if not _holds(g, space)), None)
    if failing is None:
        return None
    told = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: names.get(m[0], m[0]), failing.text)
    if failing.source is None:
        return SizeChange(f"{told} holds no longer", _OWN)
    file = failing.source.file.replace("\\", "/").rsplit("/", 1)[-1]
    asked = f"{told} holds no longer, asked at {file}:{failing.source.line}"
    return SizeChange(asked, _NUMBER if failing.pins else _WAYS)


def _holds(guard: SizeGuard, space: dict[str, Any]) -> bool:
    try:
        return bool(eval(guard.text, dict(space)))
    except ZeroDivisionError:
        return False
