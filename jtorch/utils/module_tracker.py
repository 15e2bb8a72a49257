"""``ModuleTracker``: which modules are running, forward or backward.

Source: https://docs.pytorch.org/docs/stable/module_tracker.html
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from jtorch.autograd.graph import register_multi_grad_hook
from jtorch.eager.public import RemovableHandle, Tensor, call_at_end, flatten, in_backward
from jtorch.nn.global_hooks import register_module_forward_hook, register_module_forward_pre_hook
from jtorch.nn.module import Module

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """In the ``with`` block ``parents`` is the set of names of the modules that are running: "Global" always,
    the class of an outermost module, and what lies in it by ``Class.name.name``. ``is_bw`` is whether a
    backward pass runs, in which a module runs between the gradients of its outputs and of its inputs.

    >>> import jtorch
    >>> from jtorch.utils.module_tracker import ModuleTracker
    >>> layer = jtorch.nn.Sequential(jtorch.nn.Linear(2, 2))
    >>> with ModuleTracker() as tracker:
    ...     handle = layer[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
    ...     out = layer(jtorch.ones(2))
    ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._hooks: list[Any] = []
        self._clears = False

    @property
    def is_bw(self) -> bool:
        return in_backward()

    def __enter__(self) -> ModuleTracker:
        self._handles: tuple[RemovableHandle, ...] = (
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end),
        )
        return self

    def __exit__(self, *exception: Any) -> None:
        for handle in (*self._handles, *self._hooks):
            handle.remove()
        self._hooks.clear()

    def _name(self, module: Module) -> str:
        """The name of ``module``; those of all in it are known from then on."""
        if module not in self._names:
            self._names[module] = type(module).__name__
            self._name_children(module)
        return self._names[module]

    def _name_children(self, module: Module) -> None:
        for name, child in module.named_children():
            self._names[child] = f"{self._names[module]}.{name}"
            self._name_children(child)

    def _begin(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self.parents.add(name)
        self._when_gradients_are_there(args, lambda _: self.parents.discard(name))

    def _end(self, module: Module, args: Any, output: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)
        self._when_gradients_are_there(output, lambda _: self._enter_backward(name))

    def _when_gradients_are_there(self, values: Any, function: Callable) -> None:
        tensors = [t for t in flatten(values)[0] if isinstance(t, Tensor) and t.requires_grad]
        if tensors:
            self._hooks.append(register_multi_grad_hook(tensors, function))

    def _enter_backward(self, name: str) -> None:
        if not self._clears:
            self._clears = True
            call_at_end(self._leave_backward)
        self.parents.add(name)

    def _leave_backward(self) -> None:
        self.parents = {"Global"}
        self._clears = False
