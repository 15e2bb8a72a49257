"""What ``jtorch.compiler`` offers, where the compiler is loaded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.compile.record import trials
from jtorch.compile.record.callees import record
from jtorch.compile.record.sizing import mark
from jtorch.compiler import is_compiling
from jtorch.core.environment import LEAST
from jtorch.core.op import CONTEXT
from jtorch.nn.module import Module
from jtorch.ops.axes import one


def disabled(function: Callable, reason: str | None) -> Callable:
    """``function``, which runs eagerly, in the middle of a compiled function, too."""
    if isinstance(function, Module):
        raise NotImplementedError("disable takes a function: decorate the module's forward")
    name = getattr(function, "__qualname__", type(function).__name__)

    why = f" ({reason})" if reason else ""

    @functools.wraps(function)
    def run_eagerly(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return record(CONTEXT.get().evaluator, function, f"{name}{why}", args, kwargs)
        trial = trials.CURRENT.get()
        if trial is not None:
            return trial.run(function, f"{name}{why}", args, kwargs)
        return function(*args, **kwargs)

    run_eagerly._jtorch_disabled = True  # type: ignore[attr-defined]
    return run_eagerly


def mark_dynamic(t: Any, index: int | Sequence[int], low: int | None, high: int | None) -> None:
    """Have sizes of ``t`` be symbols, from ``low`` to ``high``."""
    for axis in index if isinstance(index, (tuple, list)) else (index,):
        place = one(axis, t.ndim)
        n, least = t.shape[place], LEAST if low is None else max(low, LEAST)
        if n < least or (high is not None and n > high):
            given = f"{LEAST if low is None else low} to {'any' if high is None else high}"
            raise ValueError(f"size {place} is {n}, which is not from {given}")
        mark(t, place, (least, high))


def reset() -> None:
    """Forget the recordings of all compiled functions."""
    from jtorch.compile.api import FUNCTIONS

    for function in list(FUNCTIONS):
        function.reset()


def held_from_now_on() -> list[Any]:
    """A list that gets each compiled function that is made."""
    from jtorch.compile.api import HOLDERS

    HOLDERS.append([])
    return HOLDERS[-1]


def explain(function: Callable) -> Callable[..., Any]:
    """``explain(f)(*args)`` calls ``f`` compiled and tells what became of it."""
    from jtorch.compile.api import CompiledFunction

    known = getattr(function, "_compiled", function)
    compiled = known if isinstance(known, CompiledFunction) else CompiledFunction(function)

    def run(*args: Any, **kwargs: Any) -> Any:
        compiled(*args, **kwargs)
        return compiled.explain()

    return run
