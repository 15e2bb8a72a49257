"""Calling a module that has hooks. One without takes the short path in ``Module.__call__``.

Hooks of all modules run before the module's own.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from jtorch.core.op import BY_NAME
from jtorch.eager.public import Node, Tensor, for_edge, through_identity
from jtorch.nn import global_hooks as every


def with_hooks(module: Any, args: tuple, kwargs: dict) -> Any:
    """What ``module(*args, **kwargs)`` gives where it has hooks or was compiled in place."""
    if module._compiled_call_impl is not None:
        return module._compiled_call_impl(*args, **kwargs)
    return uncompiled(module, *args, **kwargs)


def uncompiled(module: Any, *args: Any, **kwargs: Any) -> Any:
    """``forward`` with the module's hooks, and those of all modules, around it."""
    done: set[int] = set()
    try:
        return _call(module, args, kwargs, done)
    except Exception:
        _always_called(module, args, kwargs, done)
        raise


def _call(module: Any, args: tuple, kwargs: dict, done: set[int]) -> Any:
    for hook in (*every.FORWARD_PRE.values(),):
        args = _as_args(hook(module, args), args)
    for key, hook in tuple(module._forward_pre_hooks.items()):
        if key in module._forward_pre_hooks_with_kwargs:
            args, kwargs = _as_args_and_kwargs(hook(module, args, kwargs), args, kwargs)
        else:
            args = _as_args(hook(module, args), args)
    backward: _Backward | None = None
    full = module._backward_hooks and module._is_full_backward_hook is not False
    if full or module._backward_pre_hooks or every.BACKWARD or every.BACKWARD_PRE:
        backward = _Backward(module)
        args = backward.around_inputs(args)
    result = module.forward(*args, **kwargs)
    for key, hook, keyed, _ in _forward_hooks(module):
        done.add(key)
        changed = hook(module, args, kwargs, result) if keyed else hook(module, args, result)
        if changed is not None:
            result = changed
    if backward is not None:
        result = backward.around_outputs(result)
    if module._backward_hooks and not full:
        _hook_last_op(module, result)
    return result


def _hook_last_op(module: Any, result: Any) -> None:
    """The older kind of backward hooks: they hang on the node that made the first tensor of the result."""
    while not isinstance(result, Tensor):
        if isinstance(result, dict):
            result = [v for v in result.values() if isinstance(v, Tensor)]
        result = result[0]
    node = result.grad_fn
    if node is not None:
        show = _on_linear if getattr(node, "op", None) is BY_NAME["linear"] and result.ndim == 2 else _on_op
        for hook in module._backward_hooks.values():
            node.register_hook(functools.partial(show, functools.partial(hook, module), node))


def _on_op(hook: Callable, node: Node, grad_inputs: tuple, grad_outputs: tuple) -> Any:
    shown = tuple(map(for_edge, grad_inputs, node.edges))
    return hook(shown, grad_outputs[: len(grad_outputs) - node.hidden])


def _on_linear(hook: Callable, node: Node, grad_inputs: tuple, grad_outputs: tuple) -> Any:
    """In PyTorch the op is ``addmm(bias, x, weight.t())``, or ``mm(x, weight.t())``."""
    x, weight, bias = map(for_edge, grad_inputs, node.edges)
    first = () if node.edges[2] is None else (bias,)
    changed = hook((*first, x, None if weight is None else weight.t()), grad_outputs)
    if changed is None:
        return None
    *first, x, weight = changed
    return (x, None if weight is None else weight.t(), *(first or [bias]))


def _as_args(changed: Any, args: tuple) -> tuple:
    if changed is None:
        return args
    return changed if isinstance(changed, tuple) else (changed,)


def _as_args_and_kwargs(changed: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    if changed is None:
        return args, kwargs
    if isinstance(changed, tuple) and len(changed) == 2:
        return changed
    raise RuntimeError(
        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
    )


def _forward_hooks(module: Any) -> list[tuple[int, Callable, bool, bool]]:
    """(id, hook, whether it takes keyword arguments, whether it runs after an error, too)"""
    found = [(k, h, k in every.WITH_KWARGS, k in every.ALWAYS) for k, h in every.FORWARD.items()]
    keyed, always = module._forward_hooks_with_kwargs, module._forward_hooks_always_called
    return found + [(k, h, k in keyed, k in always) for k, h in module._forward_hooks.items()]


def _always_called(module: Any, args: tuple, kwargs: dict, done: set[int]) -> None:
    """After an error: run the hooks that asked for it and did not run. Their own errors are warnings."""
    for key, hook, keyed, always in _forward_hooks(module):
        if not always or key in done:
            continue
        try:
            if keyed:
                hook(module, args, kwargs, None)
            else:
                hook(module, args, None)
        except Exception as error:
            warnings.warn(
                "module forward hook with ``always_call=True`` raised an exception that was silenced as "
                f"another error was raised in forward: {error}",
                stacklevel=4,
            )


class _Backward:
    """The full-backward hooks of one call: they run when the inputs' gradients have arrived."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.hooks = (*every.BACKWARD.values(), *module._backward_hooks.values())
        self.pre_hooks = (*every.BACKWARD_PRE.values(), *module._backward_pre_hooks.values())
        self.grad_outputs: tuple | None = None
        self.n_inputs = self.n_outputs = 0
        self.input_places: list[int] = []
        self.output_places: list[int] = []

    def around_inputs(self, args: tuple) -> tuple:
        self.n_inputs = len(args)
        args, self.input_places = through_identity(args, self._at_inputs)
        return args

    def around_outputs(self, result: Any) -> Any:
        outputs = result if isinstance(result, tuple) else (result,)
        self.n_outputs = len(outputs)
        changed, self.output_places = through_identity(outputs, self._at_outputs)
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
                changed = hook(self.module, nothing, self.grad_outputs)
                parts = changed if isinstance(changed, tuple) else (changed,)
                if any(part is not None for part in parts):
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
