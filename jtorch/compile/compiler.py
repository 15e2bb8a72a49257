"""What ``jtorch.compiler`` offers, where the compiler is loaded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jtorch.compile.record.callees import record
from jtorch.compiler import is_compiling
from jtorch.core.op import CONTEXT
from jtorch.nn.module import Module


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
        return function(*args, **kwargs)

    run_eagerly._jtorch_disabled = True  # type: ignore[attr-defined]
    return run_eagerly


def reset() -> None:
    """Forget the recordings of all compiled functions."""
    from jtorch.compile.api import FUNCTIONS

    for function in list(FUNCTIONS):
        function.reset()


def explain(function: Callable) -> Callable[..., Any]:
    """``explain(f)(*args)`` calls ``f`` compiled and tells what became of it."""
    from jtorch.compile.api import CompiledFunction

    known = getattr(function, "_compiled", function)
    compiled = known if isinstance(known, CompiledFunction) else CompiledFunction(function)

    def run(*args: Any, **kwargs: Any) -> Any:
        compiled(*args, **kwargs)
        return compiled.explain()

    return run
