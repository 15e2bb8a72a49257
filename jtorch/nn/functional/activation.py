"""Activations in ``torch.nn.functional``'s signatures: with ``inplace``, and with softmax's implicit dim.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#non-linear-activation-functions
"""

from __future__ import annotations

import warnings
from typing import Any

from jtorch.core.dtypes import bool_, int64
from jtorch.core.number_ranges import check_number, require_number, whole
from jtorch.eager.public import Tensor, arange, functions, not_a_tensor, rand, zeros

gelu, glu, logsigmoid, softplus = functions.gelu, functions.glu, functions.logsigmoid, functions.softplus
hardshrink, softshrink, tanhshrink = functions.hardshrink, functions.softshrink, functions.tanhshrink
prelu, softsign, sigmoid, tanh = functions.prelu, functions.softsign, functions.sigmoid, functions.tanh
relu_, celu_, selu_ = functions.relu_, functions.celu_, functions.selu_
rrelu_, threshold_ = functions.rrelu_, functions.threshold_


def _either(name: str, inplace: bool, input: Any, *args: Any) -> Tensor:
    """The op called ``name``, written over ``input`` where asked."""
    return getattr(input, f"{name}_")(*args) if inplace else getattr(functions, name)(input, *args)


def _check_numbers(input: Any, *numbers: Any) -> None:
    for number in numbers:
        require_number(number)
        check_number(number, input.dtype.numpy)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)"""
    try:
        return input.relu_() if inplace else input.relu()
    except AttributeError as error:
        raise not_a_tensor("relu", {"input": input}, error) from None


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)"""
    if not input.is_floating_point() and input.dtype is not bool_:
        return hardtanh(input, 0, 6, inplace)
    return _either("hardtanh", inplace, input, 0.0, 6.0)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]. Raises ValueError where the first is the larger."""
    kind = input.dtype.numpy.kind
    if not min_val > max_val:
        if kind == "b":
            raise RuntimeError("Bool inputs not supported for hardtanh")
        if kind in "iu" or not (min_val >= -128 and max_val <= 127):
            _check_numbers(input, min_val, max_val)
        if kind in "iu":
            limits = whole(min_val), whole(max_val)
            return input.clamp_(*limits) if inplace else input.clamp(*limits)
    return _either("hardtanh", inplace, input, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    return hardtanh(input, min_val, max_val, inplace=True)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6"""
    return _either("hardsigmoid", inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x hardsigmoid(x)"""
    return _either("hardswish", inplace, input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, alpha (exp(x) - 1) elsewhere"""
    return _either("elu", inplace, input, alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    return elu(input, alpha, inplace=True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, alpha (exp(x / alpha) - 1) elsewhere"""
    return _either("celu", inplace, input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu, scaled so that activations keep mean 0 and variance 1"""
    return _either("selu", inplace, input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, ``negative_slope`` x elsewhere"""
    return _either("leaky_relu", inplace, input, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    return leaky_relu(input, negative_slope, inplace=True)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu with slopes drawn from [lower, upper) while training, the middle one otherwise."""
    if inplace:
        return rrelu_(input, lower, upper, training)
    return functions.rrelu(input, lower, upper, training)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x)"""
    return _either("silu", inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x))"""
    return _either("mish", inplace, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above ``threshold``, else ``value``"""
    _check_numbers(input, value, threshold)
    if input.dtype is bool_:
        raise NotImplementedError("\"threshold_cpu\" not implemented for 'Bool'")
    if not input.is_floating_point():
        out = input.masked_fill(input <= whole(threshold), whole(value))
        return input.copy_(out) if inplace else out
    return _either("threshold", inplace, input, threshold, value)


# -- along a dim -------------------------------------------------------------------------------------------


def _implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dim that old programs meant by none."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
        "argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _along(name: str, input: Any, dim: int | None, stacklevel: int, dtype: Any, shown: str = "") -> Tensor:
    if dim is None:
        dim = _implicit_dim(shown or name, input.ndim, stacklevel)
    return getattr(functions, name)(input, dim, dtype)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x), scaled to sum to one along ``dim``; computed in ``dtype`` where given."""
    return _along("softmax", input, dim, _stacklevel, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, without its overflow."""
    return _along("log_softmax", input, dim, _stacklevel, dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax of -x"""
    return _along("softmax", -input, dim, _stacklevel, dtype, "softmin")


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of a class along ``dim`` that gradients flow through: softmax of (logits + noise) / tau.

    ``hard`` gives the one-hot of its largest element, with the gradient of the soft one.
    Source: Jang et al. 2017, https://arxiv.org/abs/1611.01144
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise: Any = -(-rand(*logits.shape, dtype=logits.dtype).log()).log()
    soft: Any = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    largest = soft.detach().argmax(dim, keepdim=True)
    places = arange(logits.shape[dim], device=logits.device) if logits.ndim else zeros((), dtype=int64)
    if logits.ndim:
        places = places.reshape([-1 if k == dim % logits.ndim else 1 for k in range(logits.ndim)])
    return (places == largest).to(soft.dtype) - soft.detach() + soft
