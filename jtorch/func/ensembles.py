"""``stack_module_state``: the state of several models as one, for ``vmap`` over ``functional_call``."""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor, functions


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """``(parameters, buffers)`` of models of one class, each a dict by name, of tensors with the models along
    a new first dim. Where the parameters are leaves, so are these.

    >>> import jtorch
    >>> from jtorch import func, nn
    >>> models = [nn.Linear(3, 2) for _ in range(5)]
    >>> parameters, buffers = func.stack_module_state(models)
    >>> def output(parameters, buffers, x):
    ...     return func.functional_call(models[0], (parameters, buffers), (x,))
    >>> func.vmap(output, in_dims=(0, 0, None))(parameters, buffers, jtorch.ones(4, 3)).shape
    torch.Size([5, 4, 2])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.stack_module_state.html
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training is not models[0].training for m in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    stacked: Any = (
        {name: _stacked([state[name] for state in states]) for name in states[0]}
        for states in (parameters, buffers)
    )
    return tuple(stacked)  # type: ignore[return-value]


def _stacked(tensors: list[Tensor]) -> Tensor:
    if not all(t.is_leaf for t in tensors):
        return functions.stack(tensors)
    if any(t.requires_grad is not tensors[0].requires_grad for t in tensors):
        raise RuntimeError("Expected all of the parameters of the models to have the same requires_grad.")
    return functions.stack([t.detach() for t in tensors]).requires_grad_(tensors[0].requires_grad)
