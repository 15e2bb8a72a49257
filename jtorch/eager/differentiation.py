"""The two questions to the engine: gradients into the leaves' ``grad``, or as results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.eager.engine import Run
from jtorch.eager.tensor import Tensor

NOT_USED = (
    "The differentiated Tensor at index {k} appears to not have been used in the graph. Set "
    "allow_unused=True if this is the desired behavior."
)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate d(tensors)/d(leaf) into the ``grad`` of leaves (all of them, or ``inputs``).

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.backward.html
    """
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    if grad_tensors is None or isinstance(grad_tensors, Tensor):
        grad_tensors = (grad_tensors,) * len(tensors)
    if inputs is not None:
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        if not all(t._requires_grad for t in inputs):
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    run = Run(create_graph, create_graph if retain_graph is None else retain_graph)
    found = run.play(tensors, grad_tensors, inputs)
    if inputs is not None:
        run.deliver(inputs, found)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, without touching any ``grad``.

    Only the ops between the two are differentiated.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html
    """
    outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None or isinstance(grad_outputs, Tensor):
        grad_outputs = (grad_outputs,) * len(outputs)
    for t in inputs:
        if not t._requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    run = Run(create_graph, create_graph if retain_graph is None else retain_graph)
    found = run.play(outputs, grad_outputs, inputs)
    result = []
    for k, (t, g) in enumerate(zip(inputs, found, strict=True)):
        if g is None and materialize_grads:
            g = run.zeros(t._data.shape, t._data.dtype)
        elif g is None and not allow_unused:
            raise RuntimeError(NOT_USED.format(k=k))
        result.append(g if g is None else run.result(g))
    return tuple(result)
