"""What the usual way of an op asks before anything is computed."""

from __future__ import annotations

from jtorch.core.op import CONTEXT, Context
from jtorch.eager.evaluate import EAGER
from jtorch.eager.unusual import ONLY_COMPLEX, WATCHERS

EAGER_TABLE, HOST_TABLE = EAGER.table, EAGER.on_host


def usual_context() -> Context | None:
    """The context of a call that runs at once and that nothing watches; else None."""
    context = CONTEXT.get()
    if context.table is not EAGER_TABLE or (WATCHERS and WATCHERS != ONLY_COMPLEX):
        return None
    if context.level is not None:
        return None
    return context


def uncast_context() -> Context | None:
    """The same for an op that autocast has a class for: not where that is on."""
    context = CONTEXT.get()
    if context.table is not EAGER_TABLE or (WATCHERS and WATCHERS != ONLY_COMPLEX):
        return None
    if context.autocast is not None or context.level is not None:
        return None
    return context
