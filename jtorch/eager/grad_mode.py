"""Grad modes, as context managers and decorators.

Source: https://docs.pytorch.org/docs/stable/autograd.html#locally-disabling-gradient-computation
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from jtorch.core import op as op_module


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
        tokens = getattr(self, "_tokens", ())
        try:
            self._tokens = [*tokens, op_module.CONTEXT.set(context.replace(**self.changes))]
        except BaseException:  # Ctrl-C, right after the change: nobody would call __exit__
            op_module.CONTEXT.set(context)
            raise

    def __exit__(self, *exception: Any) -> None:
        op_module.CONTEXT.reset(self._tokens.pop())

    def __call__(self, function: Callable) -> Callable:
        if inspect.isgeneratorfunction(function):
            return _between_yields(self, function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            changed = self.fresh()
            before = op_module.CONTEXT.get()
            # Not ``with``: Ctrl-C may come between the end of its block and the first line of __exit__.
            try:
                changed.__enter__()
                return function(*args, **kwargs)
            finally:
                op_module.CONTEXT.set(before)

        return wrapped

    def fresh(self) -> _Mode:
        """A mode of its own for each call: a decorated function may run in several threads at once."""
        return object.__new__(type(self))


def _between_yields(mode: Any, function: Callable) -> Callable:
    """The generator function with the mode on while its own code runs, and off for whoever consumes it."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with mode.fresh():
            generator = function(*args, **kwargs)
        resume, given = generator.send, None
        while True:
            try:
                with mode.fresh():
                    value = resume(given)
            except StopIteration as end:
                return end.value
            try:
                resume, given = generator.send, (yield value)
            except GeneratorExit:
                with mode.fresh():
                    generator.close()
                raise
            except BaseException as error:
                resume, given = generator.throw, error  # type: ignore[assignment]

    return wrapped


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
    """Ops record, also inside ``no_grad``; not inside ``inference_mode``.

    >>> import jtorch
    >>> x = jtorch.ones(1, requires_grad=True)
    >>> with jtorch.no_grad(), jtorch.enable_grad():
    ...     print((2 * x).requires_grad)
    True
    """

    changes: ClassVar[dict[str, Any]] = {"grad": True}


class inference_mode(_Mode):  # noqa: N801
    """Like ``no_grad``; ``inference_mode(False)`` records, also inside it.

    >>> import jtorch
    >>> x = jtorch.ones(1, requires_grad=True)
    >>> with jtorch.inference_mode():
    ...     print((2 * x).requires_grad)
    False
    """

    changes: ClassVar[dict[str, Any]] = {"grad": False, "inference": True}
    mode: bool = True

    def __new__(cls, mode: bool | Callable = True) -> Any:
        if callable(mode):
            return super().__new__(cls, mode)
        made = super().__new__(cls)
        made.mode = bool(mode)
        return made

    def __init__(self, mode: bool | Callable = True) -> None:
        if not self.mode:
            self.changes = {"grad": True, "inference": False}  # type: ignore[misc]

    def fresh(self) -> _Mode:
        return type(self)(self.mode)


class set_grad_enabled:  # noqa: N801
    """Set the grad mode by a bool: takes effect at once; as a context manager it is undone at the end.

    >>> import jtorch
    >>> x = jtorch.ones(1, requires_grad=True)
    >>> with jtorch.set_grad_enabled(False):
    ...     print((2 * x).requires_grad)
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = op_module.CONTEXT.get()
        self.__enter__()

    def __enter__(self) -> None:
        op_module.CONTEXT.set(op_module.CONTEXT.get().replace(grad=self.mode))

    def __exit__(self, *exception: Any) -> None:
        op_module.CONTEXT.set(self._before)

    def __call__(self, function: Callable) -> Callable:
        """As a decorator it changes the mode inside ``function`` alone."""
        self.__exit__()
        return (enable_grad if self.mode else no_grad)(function)


def is_grad_enabled() -> bool:
    """Whether gradients are on: outside of inference mode ops record then."""
    return op_module.CONTEXT.get().enabled


def is_inference_mode_enabled() -> bool:
    """Whether ``inference_mode`` is on."""
    return op_module.CONTEXT.get().inference
