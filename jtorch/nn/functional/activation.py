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
    """max(x, 0)

    >>> import jtorch
    >>> jtorch.nn.functional.relu(jtorch.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """
    try:
        return input.relu_() if inplace else input.relu()
    except AttributeError as error:
        raise not_a_tensor("relu", {"input": input}, error) from None


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)

    >>> import jtorch
    >>> jtorch.nn.functional.relu6(jtorch.tensor([-1.0, 4.0, 9.0]))
    tensor([0., 4., 6.])
    """
    if not input.is_floating_point() and input.dtype is not bool_:
        return hardtanh(input, 0, 6, inplace)
    return _either("hardtanh", inplace, input, 0.0, 6.0)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]. Raises ValueError where the first is the larger.

    >>> import jtorch
    >>> jtorch.nn.functional.hardtanh(jtorch.tensor([-3.0, 1.0, 5.0]), -2.0, 2.0)
    tensor([-2.,  1.,  2.])
    """
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
    """``hardtanh``, written over this tensor's memory.

    >>> import jtorch
    >>> jtorch.nn.functional.hardtanh_(jtorch.tensor([-3.0, 0.0, 3.0]))
    tensor([-1.,  0.,  1.])
    """
    return hardtanh(input, min_val, max_val, inplace=True)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6

    >>> import jtorch
    >>> jtorch.nn.functional.hardsigmoid(jtorch.tensor([-3.0, 0.0, 1.5, 3.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    return _either("hardsigmoid", inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x hardsigmoid(x)

    >>> import jtorch
    >>> jtorch.nn.functional.hardswish(jtorch.tensor([-1.5, 0.0, 1.0, 5.0]))
    tensor([-0.3750,  0.0000,  0.6667,  5.0000])
    """
    return _either("hardswish", inplace, input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, alpha (exp(x) - 1) elsewhere

    >>> import jtorch
    >>> jtorch.nn.functional.elu(jtorch.tensor([-100.0, 0.0, 3.0]), alpha=2.0)
    tensor([-2.,  0.,  3.])
    """
    return _either("elu", inplace, input, alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``elu``, written over this tensor's memory.

    >>> import jtorch
    >>> jtorch.nn.functional.elu_(jtorch.tensor([-100.0, 3.0]))
    tensor([-1.,  3.])
    """
    return elu(input, alpha, inplace=True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, alpha (exp(x / alpha) - 1) elsewhere

    >>> import jtorch
    >>> jtorch.nn.functional.celu(jtorch.tensor([-100.0, 0.0, 3.0]), alpha=2.0)
    tensor([-2.,  0.,  3.])
    """
    return _either("celu", inplace, input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu, scaled so that activations keep mean 0 and variance 1

    >>> import jtorch
    >>> jtorch.nn.functional.selu(jtorch.tensor([0.0, 1.0]))
    tensor([0.0000, 1.0507])
    """
    return _either("selu", inplace, input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, ``negative_slope`` x elsewhere

    >>> import jtorch
    >>> jtorch.nn.functional.leaky_relu(jtorch.tensor([-10.0, 0.0, 10.0]), 0.1)
    tensor([-1.,  0., 10.])
    """
    return _either("leaky_relu", inplace, input, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``leaky_relu``, written over this tensor's memory.

    >>> import jtorch
    >>> jtorch.nn.functional.leaky_relu_(jtorch.tensor([-10.0, 10.0]), 0.1)
    tensor([-1., 10.])
    """
    return leaky_relu(input, negative_slope, inplace=True)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu with slopes drawn from [lower, upper) while training, the middle one otherwise.

    >>> import jtorch
    >>> jtorch.nn.functional.rrelu(jtorch.tensor([-10.0, 10.0]), 0.1, 0.3)  # not training: a slope of 0.2
    tensor([-2., 10.])
    """
    if inplace:
        return rrelu_(input, lower, upper, training)
    return functions.rrelu(input, lower, upper, training)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x)

    >>> import jtorch
    >>> jtorch.nn.functional.silu(jtorch.tensor([0.0, 100.0]))
    tensor([  0., 100.])
    """
    return _either("silu", inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x))

    >>> import jtorch
    >>> jtorch.nn.functional.mish(jtorch.tensor([0.0, 100.0]))
    tensor([  0., 100.])
    """
    return _either("mish", inplace, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above ``threshold``, else ``value``

    >>> import jtorch
    >>> jtorch.nn.functional.threshold(jtorch.tensor([0.0, 1.0]), 0.5, 20.0)
    tensor([20.,  1.])
    """
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
    """exp(x), scaled to sum to one along ``dim``; computed in ``dtype`` where given.

    >>> import jtorch
    >>> jtorch.nn.functional.softmax(jtorch.tensor([[1.0, 1.0], [0.0, 200.0]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.0000, 1.0000]])
    """
    return _along("softmax", input, dim, _stacklevel, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, without its overflow.

    >>> import jtorch
    >>> jtorch.nn.functional.log_softmax(jtorch.zeros(2), dim=0)  # -log(2)
    tensor([-0.6931, -0.6931])
    """
    return _along("log_softmax", input, dim, _stacklevel, dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax of -x

    >>> import jtorch
    >>> jtorch.nn.functional.softmin(jtorch.tensor([[1.0, 1.0], [0.0, 200.0]]), dim=1)
    tensor([[0.5000, 0.5000],
            [1.0000, 0.0000]])
    """
    return _along("softmax", -input, dim, _stacklevel, dtype, "softmin")


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of a class along ``dim`` that gradients flow through: softmax of (logits + noise) / tau.

    ``hard`` gives the one-hot of its largest element, with the gradient of the soft one.

    >>> import jtorch
    >>> jtorch.nn.functional.gumbel_softmax(jtorch.zeros(5, 3), hard=True).sum(1)
    tensor([1., 1., 1., 1., 1.])

    Source: Jang et al. 2017, https://arxiv.org/abs/1611.01144
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise: Any = -(-rand(*logits.shape, dtype=logits.dtype, device=logits.device).log()).log()
    soft: Any = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    largest = soft.detach().argmax(dim, keepdim=True)
    places = arange(logits.shape[dim], device=logits.device) if logits.ndim else zeros((), dtype=int64)
    if logits.ndim:
        places = places.reshape([-1 if k == dim % logits.ndim else 1 for k in range(logits.ndim)])
    return (places == largest).to(soft.dtype) - soft.detach() + soft
