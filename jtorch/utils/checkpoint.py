"""Checkpointing: forget what a function saved for its gradient, and run it again in backward.

    y = checkpoint(block, x, use_reentrant=False)

Source: https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from jtorch.eager.public import is_grad_enabled
from jtorch.utils.checkpoint_frame import METADATA, CheckpointError, Frame
from jtorch.utils.checkpoint_reentrant import Reentrant

_SELECTIVE = (
    "SAC_IGNORED_OPS", "CheckpointPolicy", "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
)  # fmt: skip

__all__ = [  # noqa: F822 - some are imported when asked for
    "CheckpointError", "CheckpointPolicy", "SelectiveCheckpointContext", "checkpoint",
    "checkpoint_sequential", "create_selective_checkpoint_contexts", "noop_context_fn",
    "set_checkpoint_early_stop",
]  # fmt: skip

_SAY_WHICH = (
    "torch.utils.{where}: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, "
    "calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, "
    "but "
    "if you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs "
    "for "
    "more details on the differences between the two variants."
)
_EARLY_STOP: ContextVar[bool | None] = ContextVar("jtorch_checkpoint_early_stop", default=None)


def noop_context_fn() -> tuple[AbstractContextManager, AbstractContextManager]:
    """Contexts of the two runs that do nothing."""
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether the second run ends once all that backward needs is there, whatever the calls inside say."""
    before = _EARLY_STOP.get()
    try:  # before the change: Ctrl-C may come right after it
        _EARLY_STOP.set(enable)
        yield
    finally:
        _EARLY_STOP.set(before)


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[AbstractContextManager, AbstractContextManager]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)`` that keeps its arguments, not its intermediate results, for backward.

    Backward runs ``function`` again to get them, with the same random numbers unless ``preserve_rng_state``
    is False. ``function`` must compute the same both times. Raises CheckpointError where the second run saves
    other tensors. With ``use_reentrant=True`` the second run is a backward pass of its own, and ``args`` must
    hold a tensor that requires grad.
    Source: https://docs.pytorch.org/docs/stable/checkpoint.html#torch.utils.checkpoint.checkpoint
    """
    if use_reentrant is None:
        warnings.warn(_SAY_WHICH.format(where="checkpoint"), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        _no_keywords(kwargs)
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return Reentrant.apply(function, preserve, *args)
    if debug:
        raise NotImplementedError("checkpoint(debug=True) is not there: it would log every op of both runs")
    if determinism_check not in METADATA:
        raise ValueError(f"determinism_check should be one of {list(METADATA)}, but got {determinism_check}")
    first, second = context_fn()
    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    forced = _EARLY_STOP.get()
    frame = Frame(function, second, METADATA[determinism_check], early_stop if forced is None else forced)
    frame.keep(args, kwargs)
    with frame.first_run(preserve), first:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run ``functions`` (a Sequential or a list) one after another in ``segments`` checkpointed pieces.

    The last piece is not checkpointed: backward needs it at once.
    Source: https://docs.pytorch.org/docs/stable/checkpoint.html#torch.utils.checkpoint.checkpoint_sequential
    """
    if use_reentrant is None:
        warnings.warn(_SAY_WHICH.format(where="checkpoint.checkpoint_sequential"), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    _no_keywords(kwargs)
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    length = len(steps) // segments
    done = length * (segments - 1)
    for start in range(0, done, length or 1):
        piece = _in_turn(steps[start : start + length])
        input = checkpoint(piece, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return _in_turn(steps[done:])(input)


def _in_turn(steps: list[Callable]) -> Callable:
    def run(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return run


def _no_keywords(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))


def __getattr__(name: str) -> Any:
    """What ops are called is only asked for by who chooses among them."""
    if name in _SELECTIVE:
        from jtorch.utils import checkpoint_selective

        return getattr(checkpoint_selective, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
