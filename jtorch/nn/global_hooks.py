"""Hooks of all modules at once, and those told of each registration. For debugging and profiling.

Source: https://docs.pytorch.org/docs/stable/nn.html#global-hooks-for-module
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from jtorch.core import watch
from jtorch.eager.public import RemovableHandle, add_hook

FORWARD_PRE: OrderedDict[int, Callable] = OrderedDict()
FORWARD: OrderedDict[int, Callable] = OrderedDict()
BACKWARD_PRE: OrderedDict[int, Callable] = OrderedDict()
BACKWARD: OrderedDict[int, Callable] = OrderedDict()
WITH_KWARGS: set[int] = set()
ALWAYS: set[int] = set()
CALLS: list[OrderedDict] = []  # those of the four that hold a hook: what each call of a module asks
REGISTRATION: dict[str, OrderedDict[int, Callable]] = {
    kind: OrderedDict() for kind in ("module", "parameter", "buffer")
}


_CALLED = (FORWARD_PRE, FORWARD, BACKWARD_PRE, BACKWARD)


def _registered() -> tuple[tuple, ...]:
    return tuple(tuple(hooks.items()) for hooks in _CALLED)


_known = _registered()


def _know() -> None:
    """Note which hooks there are now."""
    global _known
    CALLS[:] = [hooks for hooks in _CALLED if hooks]
    _known = _registered()


def _add(hooks: OrderedDict[int, Callable], hook: Callable) -> RemovableHandle:
    def changed() -> None:
        before = _known
        _know()
        watch.tell_all("hooks of all modules", lambda: before == _registered())

    return add_hook(hooks, hook, changed)[1]


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """``hook(module, args)`` before every ``forward``; may return new args. Returns a removable handle."""
    return _add(FORWARD_PRE, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """``hook(module, args, output)`` after every ``forward``; may return another output."""
    handle = _add(FORWARD, hook)
    if with_kwargs:
        WITH_KWARGS.add(handle.id)
    if always_call:
        ALWAYS.add(handle.id)
    return handle


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """``hook(module, grad_output)`` before the gradients of every module."""
    return _add(BACKWARD_PRE, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """``hook(module, grad_input, grad_output)`` after the gradients of every module."""
    return _add(BACKWARD, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """``hook(module, name, submodule)`` at each registration; may return what to register instead."""
    return add_hook(REGISTRATION["module"], hook)[1]


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """``hook(module, name, parameter)`` at each registration; may return what to register instead."""
    return add_hook(REGISTRATION["parameter"], hook)[1]


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """``hook(module, name, buffer)`` at each registration; may return what to register instead."""
    return add_hook(REGISTRATION["buffer"], hook)[1]


def registering(kind: str, module: Any, name: str, value: Any) -> Any:
    """What the registration hooks make of ``value``."""
    for hook in REGISTRATION[kind].values():
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value
