"""``@jtorch.compile`` as its users call it: what it takes, and what type checkers know of what it gives.

It loads the compiler with the first function that it is given.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import sys
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from jtorch.core import config
from jtorch.core.collector import seldom_collected

if TYPE_CHECKING:
    from jtorch.compile.api import CompiledFunction
    from jtorch.compile.options import Options
    from jtorch.nn.module import Module

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound="Module")


class Keywords(TypedDict, total=False):
    """What may be said beside the function, see ``compile``."""

    fullgraph: bool | None
    dynamic: bool | None
    backend: Any
    mode: str | None
    options: Mapping[str, Any] | None
    disable: bool
    verify: str
    on_retrace: str | None
    max_branches: int


class Decorator(Protocol):
    """What ``compile`` gives where the function comes later."""

    @overload
    def __call__(self, model: M, /) -> M: ...  # type: ignore[overload-overlap] # a Module is callable, too
    @overload
    def __call__(self, model: Callable[P, R], /) -> CompiledFunction[P, R]: ...


@overload
def compile(model: None = None, **keywords: Unpack[Keywords]) -> Decorator: ...
@overload
def compile(model: M, **keywords: Unpack[Keywords]) -> M: ...  # type: ignore[overload-overlap]
@overload
def compile(model: Callable[P, R], **keywords: Unpack[Keywords]) -> CompiledFunction[P, R]: ...
def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool | None = None,
    dynamic: bool | None = None,
    backend: Any = "jtorch",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    verify: str = "off",
    on_retrace: str | None = None,
    max_branches: int = 16,
) -> Any:
    """Make a function (or a Module) run as one native call.

    The function is recorded on its first call: every op, backward pass and optimizer step included. Later
    calls with arguments of the same shapes, dtypes and static values replay the recording. Use it as
    ``@jtorch.compile`` or ``f = jtorch.compile(f)``. Calls that cannot be recorded run eagerly, which an
    ``EagerWarning`` tells once, with the line and the way round; with ``fullgraph=True`` they raise
    ``CompileError``.

    ``mode="interpret"`` runs the recorded graph with NumPy; ``backend="eager"`` and ``disable=True`` run the
    function itself. ``verify="first"`` (or ``"every:100"``) compares replays with eager runs and raises
    ``VerifyError`` where they differ. ``on_retrace`` says what a further recording does beside being noted
    in ``f.retraces``: "warn", "raise" ``RetraceError``, or run that call in "eager" mode. ``options`` may
    hold these two and "budget", the relative error that verifying allows by dtype name.

    The second size of an argument is recorded as a symbol: one plan serves all further ones, and a size never
    seen before costs about as much as an eager call, not a recording. ``dynamic=True`` does so from the first
    call on, ``dynamic=False`` never. What the program asks of a size (``if x.shape[0] > 32``) is checked at
    each call; another answer is another recording. An integer argument is read at each call from its second
    value on, or a symbol as sizes are where more is asked of it than to be computed with.

    ``if tensor:``, ``while tensor:`` and ``assert tensor`` are recorded as the way they go; a call that goes
    another way gets a plan of its own, up to ``max_branches`` of them, and runs eagerly after that.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """
    from jtorch.compile.options import parse

    chosen = parse(fullgraph, dynamic, backend, mode, options, disable, verify, on_retrace, max_branches)
    return functools.partial(_compiled, options=chosen) if model is None else _compiled(model, chosen)


def _load() -> None:
    """Load the compiler, an eighth of which was to look through what it makes, all of which stays."""
    if "jtorch.compile.api" not in sys.modules:
        with seldom_collected():
            importlib.import_module("jtorch.compile.api")


def _compiled(model: Callable, options: Options) -> Any:
    _load()
    from jtorch.compile import made_anew
    from jtorch.compile.api import CompiledFunction
    from jtorch.compile.module import optimized
    from jtorch.compile.observe import frames
    from jtorch.nn.module import Module

    if not callable(model):
        raise TypeError(f"compile takes a function or a Module, got {type(model).__name__}")
    if isinstance(model, (types.FunctionType, types.MethodType)) and hasattr(model, "_jtorch_disabled"):
        options = dataclasses.replace(options, disabled=True)
    if not options.disabled and config.get("COMPILE"):
        frames.require_known()
    if isinstance(model, Module):
        return optimized(model, options)
    made: CompiledFunction = CompiledFunction(model, options)
    made_anew.share(made)
    return made
