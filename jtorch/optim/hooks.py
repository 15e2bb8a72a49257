"""Hooks of an optimizer: around its step, and before and after its state goes out or in."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from jtorch.core import op
from jtorch.eager.public import RemovableHandle

_WHEN = (
    "step_pre", "step_post", "state_dict_pre", "state_dict_post",
    "load_state_dict_pre", "load_state_dict_post",
)  # fmt: skip


class Hooked:
    """What optimizers know of hooks. Source: https://docs.pytorch.org/docs/stable/optim.html"""

    _hooks: dict[str, OrderedDict[int, Callable]]
    _hooks_changed: int
    _opt_called: bool

    def _start_hooks(self) -> None:
        self._hooks = {when: OrderedDict() for when in _WHEN}
        self._hooks_changed = 0
        self._opt_called = False

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new (args, kwargs)."""
        return self._add_hook("step_pre", hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return self._add_hook("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict``."""
        return self._add_hook("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after ``state_dict``; it may return another dict."""
        return self._add_hook("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; it may return another dict."""
        return self._add_hook("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return self._add_hook("load_state_dict_post", hook, prepend)

    def _add_hook(self, when: str, hook: Callable, prepend: bool = False) -> RemovableHandle:
        handle = RemovableHandle(self._hooks[when], self._hooks_were_changed)
        self._hooks[when][handle.id] = hook
        if prepend:
            self._hooks[when].move_to_end(handle.id, last=False)
        self._hooks_were_changed()
        return handle

    def _hooks_were_changed(self) -> None:
        self._hooks_changed += 1  # a compiled step guards this number

    def _passed(self, when: str, value: Any) -> Any:
        """``value`` after the hooks that may replace it."""
        for hook in list(self._hooks[when].values()):
            result = hook(self, value)
            value = value if result is None else result
        return value


def with_hooks(step: Callable) -> Callable:
    """``step`` between the optimizer's step hooks, of which the first kind may replace its arguments."""

    @functools.wraps(step)
    def hooked(self: Hooked, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True  # schedulers warn when they are stepped first
        if not op.CONTEXT.get().evaluator.option(self.__dict__, "_hooks_changed"):
            return step(self, *args, **kwargs)
        given: tuple[Any, ...] = (self, *args)
        for hook in list(self._hooks["step_pre"].values()):
            result = hook(self, given, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}."
                )
            given, kwargs = result
        out = step(*given, **kwargs)
        for hook in list(self._hooks["step_post"].values()):
            hook(self, given, kwargs)
        return out

    return hooked
