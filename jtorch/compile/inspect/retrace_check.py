"""Recording a function once more and comparing: what traced differently rests on something nobody guards."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from jtorch.compile.graph.ir import text
from jtorch.compile.record.answers import one_recording
from jtorch.compile.record.capture import capture
from jtorch.core.errors import CompileError
from jtorch.core.op import Context


def difference(plan: Any, function: Any, leaves: list[Any], structure: Any, context: Context) -> str:
    """The first line in which another recording of the call differs from that of ``plan``; "" if none does.

    The names of values count through, so that an equation more moves those after it: the first is meant.
    """
    try:
        with one_recording():
            places = [each.place for each in plan.capture.opened]
            made = capture(function, leaves, structure, context, plan.capture.name, places)
            made.journal.undo()
    except CompileError as error:
        return f"it cannot be recorded again: {error}"
    before = text(plan.graph_for(plan.capture.whole(leaves)))
    pairs = zip_longest(before.splitlines(), text(made.graph).splitlines(), fillvalue="")
    for before, after in pairs:
        if before != after:
            return (
                "recorded again, it differs: something that nobody guards decides what is recorded.\n"
                f"  then: {before.strip()}\n  now:  {after.strip()}"
            )
    return ""
