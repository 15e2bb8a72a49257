"""Calling a module that has hooks. One without takes the short path in ``Module.__call__``.

Hooks of both signatures, with and without keyword arguments, are stored in one: what a call walks over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from jtorch import watch
from jtorch.eager.hooks import RemovableHandle, add_hook
from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor


def add(hooks: OrderedDict[int, Callable], hook: Callable, prepend: bool) -> RemovableHandle:
    """Add ``hook`` at the end, or the front, and tell compiled plans now and when it is removed."""
    _, handle = add_hook(hooks, hook, watch.advance)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def pre_hook(hook: Callable, with_kwargs: bool) -> Callable:
    """``hook`` as (module, args, kwargs) -> (args, kwargs)."""

    def plain(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        changed = hook(module, args)
        if changed is None:
            return args, kwargs
        return (changed if isinstance(changed, tuple) else (changed,)), kwargs

    def keyed(module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        changed = hook(module, args, kwargs)
        if changed is None:
            return args, kwargs
        if isinstance(changed, tuple) and len(changed) == 2:
            return changed
        raise RuntimeError(
            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
        )

    return keyed if with_kwargs else plain


def post_hook(hook: Callable, with_kwargs: bool) -> Callable:
    """``hook`` as (module, args, kwargs, output) -> output or None."""
    return hook if with_kwargs else lambda module, args, kwargs, out: hook(module, args, out)


def with_hooks(module: Any, args: tuple, kwargs: dict) -> Any:
    """What ``module(*args, **kwargs)`` gives with its hooks around ``forward``."""
    for hook in tuple(module._forward_pre_hooks.values()):
        args, kwargs = hook(module, args, kwargs)
    backward: _Backward | None = None
    if module._backward_hooks or module._backward_pre_hooks:
        backward = _Backward(module)
        args = backward.around_inputs(args)
    result = module.forward(*args, **kwargs)
    for hook in tuple(module._forward_hooks.values()):
        changed = hook(module, args, kwargs, result)
        if changed is not None:
            result = changed
    return result if backward is None else backward.around_outputs(result)


class BackwardHookFunctionBackward(Node):
    """The identity, as a place on the tape where a module's hooks see gradients pass."""

    __slots__ = ()
    frees = False  # it saves nothing

    @staticmethod
    def vjp(xp: Any, g: Any) -> Any:
        return tuple(g) if isinstance(g, list) else g

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return self.vjp(xp, g)


class _Backward:
    """The full-backward hooks of one call: they run when the inputs' gradients have arrived."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.hooks = tuple(module._backward_hooks.values())
        self.pre_hooks = tuple(module._backward_pre_hooks.values())
        self.grad_outputs: tuple | None = None
        self.n_inputs = self.n_outputs = 0
        self.input_places: list[int] = []
        self.output_places: list[int] = []

    def around_inputs(self, args: tuple) -> tuple:
        self.n_inputs = len(args)
        args, self.input_places = _through_identity(args, self._at_inputs)
        return args

    def around_outputs(self, result: Any) -> Any:
        outputs = result if isinstance(result, tuple) else (result,)
        self.n_outputs = len(outputs)
        changed, self.output_places = _through_identity(outputs, self._at_outputs)
        return changed if isinstance(result, tuple) else changed[0]

    def _at_outputs(self, gradients: tuple) -> tuple | None:
        self.grad_outputs = _spread(gradients, self.output_places, self.n_outputs)
        for hook in self.pre_hooks:
            changed = hook(self.module, self.grad_outputs)
            if changed is not None:
                self.grad_outputs = _as_gradients(changed, self.grad_outputs, "grad_outputs")
        if not self.input_places:  # no input waits for a gradient: this is the last we hear
            nothing = (None,) * self.n_inputs
            for hook in self.hooks:
                if hook(self.module, nothing, self.grad_outputs) is not None:
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
        return tuple(self.grad_outputs[k] for k in self.output_places)

    def _at_inputs(self, gradients: tuple) -> tuple | None:
        grad_inputs = _spread(gradients, self.input_places, self.n_inputs)
        for hook in self.hooks:
            changed = hook(self.module, grad_inputs, self.grad_outputs)
            if changed is not None:
                grad_inputs = _as_gradients(changed, grad_inputs, "grad_input")
        self.grad_outputs = None
        return tuple(grad_inputs[k] for k in self.input_places)


def _spread(gradients: tuple, places: list[int], count: int) -> tuple:
    spread: list[Any] = [None] * count
    for place, g in zip(places, gradients, strict=True):
        spread[place] = g
    return tuple(spread)


def _as_gradients(changed: Any, before: tuple, name: str) -> tuple:
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(before):
        raise RuntimeError(
            f"Backward hook returned an invalid number of {name}, got {len(changed)}, but expected "
            f"{len(before)}"
        )
    return changed


def _through_identity(values: tuple, pre_hook: Callable) -> tuple[tuple, list[int]]:
    """``values`` with those tensors that require grad hung on one identity node, and their places."""
    places = [k for k, v in enumerate(values) if isinstance(v, Tensor) and v._requires_grad]
    if not places:
        return values, places
    tensors = [values[k] for k in places]
    metadata = [(t._data.shape, t._data.dtype) for t in tensors]
    edges = tuple((t._node or t, t._index) for t in tensors)
    node: Any = BackwardHookFunctionBackward(
        edges, (), (), metadata if len(places) > 1 else metadata[0]
    )
    node.register_prehook(pre_hook)
    passed = list(values)
    for index, (k, t) in enumerate(zip(places, tensors, strict=True)):
        out = Tensor(t._data)
        out._requires_grad, out._node, out._index = True, node, index
        out._cell, out._base = t._cell, t if t._base is None else t._base
        passed[k] = out
    return tuple(passed), places
