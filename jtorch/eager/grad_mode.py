"""Grad modes, as context managers and decorators.

Source: https://docs.pytorch.org/docs/stable/autograd.html#locally-disabling-gradient-computation
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from jtorch import op as op_module


class _Mode:
    """Enters a changed context; used as ``with mode():`` or ``@mode()`` (or ``@mode``)."""

    changes: ClassVar[dict[str, Any]]

    def __new__(cls, function: Callable | None = None, *args: Any) -> Any:
        mode = super().__new__(cls)
        if callable(function):
            mode.__init__()  # type: ignore[misc]
            return mode(function)
        return mode

    def __enter__(self) -> None:
        context = op_module.CONTEXT.get()
        self._tokens = [*getattr(self, "_tokens", ()), op_module.CONTEXT.set(context.replace(**self.changes))]

    def __exit__(self, *exception: Any) -> None:
        op_module.CONTEXT.reset(self._tokens.pop())

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _fresh(self):
                return function(*args, **kwargs)

        return wrapped


def _fresh(mode: _Mode) -> _Mode:
    """A mode of its own for each call: a decorated function may run in several threads at once."""
    return object.__new__(type(mode))


class no_grad(_Mode):  # noqa: N801
    """Ops record nothing; results don't require grad.

    >>> import jtorch
    >>> w = jtorch.ones(2, requires_grad=True)
    >>> with jtorch.no_grad():
    ...     (w * 2).requires_grad
    False
    """

    changes: ClassVar[dict[str, Any]] = {"grad": False}


class enable_grad(_Mode):  # noqa: N801
    """Ops record, also inside ``no_grad``."""

    changes: ClassVar[dict[str, Any]] = {"grad": True}


class inference_mode(_Mode):  # noqa: N801
    """Like ``no_grad``."""

    changes: ClassVar[dict[str, Any]] = {"grad": False, "inference": True}


class set_grad_enabled:  # noqa: N801
    """Set the grad mode by a bool: takes effect at once; as a context manager it is undone at the end."""

    def __init__(self, mode: bool) -> None:
        self._before = op_module.CONTEXT.get()
        op_module.CONTEXT.set(self._before.replace(grad=bool(mode)))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        op_module.CONTEXT.set(self._before)


def is_grad_enabled() -> bool:
    """Whether ops record now."""
    return op_module.CONTEXT.get().grad


def is_inference_mode_enabled() -> bool:
    return op_module.CONTEXT.get().inference
