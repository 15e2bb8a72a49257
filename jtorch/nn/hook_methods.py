"""A module's own hooks: around its call, its gradients and its state dict."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jtorch.core import watch
from jtorch.eager.public import RemovableHandle, add_hook

_CALLS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_MARKS = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
_STATE = (
    "_state_dict_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
HOOKS = (*_CALLS, *_MARKS, *_STATE)  # attributes of every module, by PyTorch's names


class Hooked:
    """The part of Module that registers hooks."""

    _hooked = False  # whether any of the four around a call was ever registered here
    _is_full_backward_hook: bool | None = None  # of which kind those in _backward_hooks are

    if TYPE_CHECKING:
        _forward_pre_hooks: OrderedDict[int, Callable]
        _forward_hooks: OrderedDict[int, Callable]
        _backward_pre_hooks: OrderedDict[int, Callable]
        _backward_hooks: OrderedDict[int, Callable]
        _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
        _forward_hooks_with_kwargs: OrderedDict[int, bool]
        _forward_hooks_always_called: OrderedDict[int, bool]
        _state_dict_pre_hooks: OrderedDict[int, Callable]
        _state_dict_hooks: OrderedDict[int, Callable]
        _load_state_dict_pre_hooks: OrderedDict[int, Callable]
        _load_state_dict_post_hooks: OrderedDict[int, Callable]

    def _add_call_hook(self, name: str, hook: Callable, prepend: bool) -> RemovableHandle:
        """Add ``hook`` at the end, or the front, and tell compiled plans now and when it is removed."""
        self.__dict__["_hooked"] = True
        hooks = getattr(self, name)
        _, handle = add_hook(hooks, hook, functools.partial(watch.tell, self.__dict__, name))
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """``hook(module, args)`` before ``forward``; may return new args. Returns a removable handle.

        With ``with_kwargs`` it is ``hook(module, args, kwargs)`` and may return ``(args, kwargs)``.
        """
        handle = self._add_call_hook("_forward_pre_hooks", hook, prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """``hook(module, args, output)`` after ``forward``; may return another output.

        With ``with_kwargs`` it is ``hook(module, args, kwargs, output)``; with ``always_call`` it is called
        also where ``forward`` raised, with None as output. Returns a removable handle.
        """
        handle = self._add_call_hook("_forward_hooks", hook, prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """``hook(module, grad_output)`` before the module's gradients; may return a new grad_output."""
        return self._add_call_hook("_backward_pre_hooks", hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """``hook(module, grad_input, grad_output)`` once the inputs' gradients are known.

        It may return a tuple that takes the place of ``grad_input``. Returns a removable handle.
        """
        self._use_backward_hooks(full=True)
        return self._add_call_hook("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """``hook(module, grad_input, grad_output)`` with the gradients of the op that made the output.

        Deprecated by PyTorch in favour of ``register_full_backward_hook``, which gives the module's own; a
        module takes only one of the two kinds, or raises RuntimeError.
        """
        self._use_backward_hooks(full=False)
        return self._add_call_hook("_backward_hooks", hook, False)

    def _use_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please "
                "use only one of them."
            )
        self.__dict__["_is_full_backward_hook"] = full

    # -- state dicts -------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """``hook(module, prefix, keep_vars)`` before ``state_dict`` collects this module's tensors."""
        return add_hook(self._state_dict_pre_hooks, hook)[1]

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """``hook(module, state_dict, prefix, local_metadata)`` after it did; may change the dict in place."""

        @functools.wraps(hook)
        def returning_none(*args: Any) -> None:
            if hook(*args) is not None:
                raise RuntimeError("state_dict post-hook must return None")

        return add_hook(self._state_dict_hooks, returning_none)[1]

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """As ``register_state_dict_post_hook``, for a hook that may return another dict."""
        return add_hook(self._state_dict_hooks, hook)[1]

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """A hook before ``load_state_dict`` fills this module. It gets, and may change, all of

        (module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable, with_module: bool = False
    ) -> RemovableHandle:
        if with_module:
            hook = functools.partial(_with_owner, weakref.proxy(self), hook)
        return add_hook(self._load_state_dict_pre_hooks, hook)[1]

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """``hook(module, incompatible_keys)`` after ``load_state_dict`` filled this module."""
        return add_hook(self._load_state_dict_post_hooks, hook)[1]


def _with_owner(owner: Any, hook: Callable, *args: Any) -> Any:
    return hook(owner, *args)
