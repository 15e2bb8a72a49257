"""``backward`` and ``grad`` with PyTorch's checks of their arguments, gradient edges among them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.eager import differentiation
from jtorch.eager.node import AccumulateGrad, GradientEdge
from jtorch.eager.tensor import Tensor, wrap

_RENAMED = "`grad_variables` is deprecated. Use `grad_tensors` instead."
_EMPTY_INPUTS = "`inputs` argument to `backward()` cannot be empty."


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of ``tensors`` to the ``grad`` of the leaves, all or only those of ``inputs``.

    ``grad_tensors`` has one gradient per tensor, None for a scalar. Tensors may be given as gradient edges.
    Raises RuntimeError where numbers or shapes don't fit, and for a second pass over a freed graph.

    >>> import jtorch
    >>> x = jtorch.tensor([2.0, 3.0], requires_grad=True)
    >>> jtorch.autograd.backward([x**2], [jtorch.tensor([1.0, 10.0])])
    >>> x.grad
    tensor([ 4., 60.])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.backward.html
    """
    if grad_variables is not None:
        warnings.warn(_RENAMED, FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if inputs is not None and not isinstance(inputs, (Tensor, GradientEdge)) and not len(inputs):
        raise RuntimeError(_EMPTY_INPUTS)
    outputs = _tensors(tensors)
    seeds = _seeds(outputs, grad_tensors)
    wanted = None if inputs is None else _tensors(inputs)
    differentiation.backward(outputs, seeds, retain_graph, create_graph, wanted)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of ``outputs``, each weighed by ``grad_outputs``, with respect to ``inputs``.

    A tuple with one tensor per input, of its shape and dtype; None where it was not used and
    ``allow_unused`` says so. With ``is_grads_batched`` each gradient in ``grad_outputs`` has one dim more,
    in front; the results then have it, too.

    >>> import jtorch
    >>> x = jtorch.tensor(3.0, requires_grad=True)
    >>> jtorch.autograd.grad(x**2, x)
    (tensor(6.),)

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate "
            "gradient "
            "for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    results, wanted = _tensors(outputs), _tensors(inputs)
    if is_grads_batched:
        return _batched(results, wanted, grad_outputs, create_graph, allow_unused, materialize_grads)
    seeds = _seeds(results, grad_outputs)
    return differentiation.grad(
        results, wanted, seeds, retain_graph, create_graph, allow_unused, materialize_grads
    )


def _batched(
    outputs: tuple, inputs: tuple, grad_outputs: Any, create_graph: bool, unused: Any, materialize: bool
) -> tuple[Tensor | None, ...]:
    """A pass per slice of the gradients' first dim, stacked: the same numbers as a vectorised pass."""
    given = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    count = next(g.shape[0] for g in given if g is not None)
    rows = [
        differentiation.grad(
            outputs, inputs, _seeds(outputs, [g if g is None else g[k] for g in given]), True, create_graph,
            unused, materialize,
        )
        for k in range(count)
    ]  # fmt: skip
    from jtorch.eager.methods import FUNCTIONS

    columns = zip(*rows, strict=True)
    return tuple(None if c[0] is None else FUNCTIONS["stack"](list(c)) for c in columns)


def _tensors(given: Any) -> tuple[Tensor, ...]:
    """Tensors for tensors and gradient edges, one or several."""
    several = (given,) if isinstance(given, (Tensor, GradientEdge)) else tuple(given)
    return tuple(_of_edge(t) if isinstance(t, GradientEdge) else t for t in several)


def _of_edge(edge: GradientEdge) -> Tensor:
    """A tensor at that place of the tape. Its elements are not known, only its shape and dtype."""
    if isinstance(edge.node, AccumulateGrad):
        return edge.node.variable
    metadata = edge.node.metadata
    shape, dtype = metadata[edge.output_nr] if isinstance(metadata, list) else metadata
    return wrap(np.broadcast_to(np.zeros((), dtype), shape), (edge.node, edge.output_nr))


def _seeds(outputs: Sequence[Tensor], given: Any) -> tuple[Tensor | None, ...]:
    """One gradient or None per output, checked against it."""
    if given is None:
        return (None,) * len(outputs)
    seeds = (given,) if isinstance(given, Tensor) else tuple(given)
    if len(seeds) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(seeds)} gradients")
    for k, (out, g) in enumerate(zip(outputs, seeds, strict=True)):
        if isinstance(g, Tensor) and g.shape != out.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{k}] has a shape of {g.shape} and output[{k}] has a shape "
                "of "
                f"{out.shape}."
            )
        if isinstance(g, Tensor) and g.is_complex() != out.is_complex():
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. "
                f"Mismatch in dtype: grad_output[{k}] has a dtype of {g.dtype} and output[{k}] has a dtype "
                "of "
                f"{out.dtype}."
            )
    return seeds
