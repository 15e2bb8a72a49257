"""``torch.jit``: functions stay Python functions, whose results are the same; the rest is not there.

``script`` on a function gives the function itself. To make it fast, use ``jtorch.compile``.
Source: https://docs.pytorch.org/docs/stable/jit.html
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, NoReturn

from jtorch.nn.module import Module

Final = typing.Final


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """A function as it is. Raises NotImplementedError for modules and classes: use ``jtorch.compile``."""
    if inspect.isfunction(obj) or inspect.ismethod(obj):
        return obj
    kind = type(obj).__name__ if not isinstance(obj, type) else obj.__name__
    raise NotImplementedError(f"torch.jit.script({kind}): jtorch has no TorchScript; see jtorch.compile")


def _absent(name: str) -> Callable[..., NoReturn]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"torch.jit.{name}: jtorch has no TorchScript; see jtorch.compile")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Raises NotImplementedError: jtorch has no TorchScript."
    return refused


trace, trace_module, save, load, freeze = map(_absent, ("trace", "trace_module", "save", "load", "freeze"))
optimize_for_inference, fork, wait = map(_absent, ("optimize_for_inference", "fork", "wait"))


class ScriptModule(Module):
    """A base class for modules whose methods are marked by ``script_method``: a Module, whose Python runs.

    >>> import jtorch
    >>> class Doubled(jtorch.jit.ScriptModule):
    ...     @jtorch.jit.script_method
    ...     def forward(self, x):
    ...         return x + x
    >>> Doubled()(jtorch.ones(2))
    tensor([2., 2.])
    """

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises NotImplementedError: use ``jtorch.save(module.state_dict(), file)``."""
        raise NotImplementedError(
            "ScriptModule.save: jtorch has no TorchScript. Save the state: torch.save(module.state_dict(), f)"
        )


def script_method(fn: Callable) -> Callable:
    """A mark for TorchScript: the method as it is."""
    return fn


class ScriptFunction:
    """What ``isinstance`` is asked about: none is ever made, which raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _absent(type(self).__name__)()


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """A mark for TorchScript: the function as it is."""
    return drop if callable(drop) else lambda function: function


def unused(fn: Callable) -> Callable:
    """A mark for TorchScript: the function as it is."""
    return fn


export = unused


def annotate(the_type: Any, the_value: Any) -> Any:
    """``the_value``."""
    return the_value


def is_scripting() -> bool:
    return False


def is_tracing() -> bool:
    return False


class TracerWarning(Warning):
    """What ``warnings.filterwarnings`` is told to ignore: nobody traces here, so none is ever given."""


class ScriptWarning(Warning):
    """The same of scripted functions."""


def script_if_tracing(fn: Callable) -> Callable:
    """The function as it is: nobody traces."""
    return fn


def interface(obj: Any) -> Any:
    """A mark for TorchScript: the class as it is."""
    return obj
