"""What ``torch.nn.functional`` offers, under its names: ``jtorch.nn.functional`` re-exports this.

``FUNCTIONAL`` is the dict; each of its names is also a name of this module. Most are the public functions
of ops; those written here put such functions together.
Source: https://docs.pytorch.org/docs/stable/nn.functional.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch import op as op_module
from jtorch.eager.binding import APPLY
from jtorch.eager.creation import arange
from jtorch.eager.functions.class_losses import cross_entropy, nll_loss
from jtorch.eager.methods import FUNCTIONS
from jtorch.eager.tensor import Tensor
from jtorch.random import default_generator

_FROM_OPS = (
    "avg_pool2d", "binary_cross_entropy", "binary_cross_entropy_with_logits", "conv2d", "elu", "embedding",
    "gelu", "hardtanh", "huber_loss", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear",
    "log_softmax", "logsigmoid", "max_pool2d", "mse_loss", "relu", "sigmoid", "silu", "smooth_l1_loss",
    "softmax", "softplus", "tanh",
)  # fmt: skip
_NO_BATCH_DIM = {"conv2d": 3, "max_pool2d": 3, "avg_pool2d": 3}  # op -> dims of one image alone


def _batched(function: Callable, ndim: int) -> Callable:
    """``function`` of batches, also for one example of ``ndim`` dims alone."""

    def either(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if input.ndim == ndim:
            return function(input.unsqueeze(0), *args, **kwargs).squeeze(0)
        return function(input, *args, **kwargs)

    either.__name__ = either.__qualname__ = function.__name__
    either.__doc__ = function.__doc__
    return either


def _from_op(name: str) -> Callable:
    function = FUNCTIONS[name]
    return _batched(function, _NO_BATCH_DIM[name]) if name in _NO_BATCH_DIM else function


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability ``p`` and scale the others by 1/(1-p), while training."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    seed, call = op_module.CONTEXT.get().evaluator.next_call(default_generator)
    out = APPLY["dropout_with"](input, seed, call, p)
    return input.copy_(out) if inplace else out


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)"""
    return FUNCTIONS["hardtanh"](input, 0.0, 6.0)


def kl_div(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """The Kullback-Leibler divergence; ``input`` holds logarithms. "batchmean" is its definition."""
    if reduction == "batchmean":
        total = FUNCTIONS["kl_div"](input, target, "sum", log_target)
        return total / input.shape[0] if input.ndim else total
    return FUNCTIONS["kl_div"](input, target, reduction, log_target)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """``input`` over its ``p``-norm along ``dim``, which is taken to be at least ``eps``."""
    if p == 2.0:
        norm = (input * input).sum(dim, keepdim=True).sqrt()
    else:
        norm = (input.abs() ** p).sum(dim, keepdim=True) ** (1.0 / p)
    return input / norm.clamp(min=eps)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 zeros with a 1 at each class, along a new last dim."""
    if num_classes < 1:
        num_classes = int(tensor.max().item()) + 1
    places = arange(num_classes)
    return (tensor.unsqueeze(-1) == places).long()


FUNCTIONAL: dict[str, Callable] = {name: _from_op(name) for name in _FROM_OPS} | {
    f.__name__: f for f in (cross_entropy, nll_loss, dropout, relu6, kl_div, normalize, one_hot)
}
globals().update(FUNCTIONAL)
__all__ = [*FUNCTIONAL]


def __getattr__(name: str) -> Any:  # for type checkers: most names above are made from the op table
    raise AttributeError(
        f"jtorch.nn.functional has no {name!r}; it offers {', '.join(sorted(FUNCTIONAL))}"
    )
