"""Gradients of convolutions, given that of the result: ``torch.nn.grad``.

A convolution is linear in its input and in its weight, so its gradient with respect to one needs of that only
the size.
Source: https://docs.pytorch.org/docs/stable/nn.functional.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jtorch.autograd import grad as _grad
from jtorch.eager.public import Tensor
from jtorch.eager.public import enable_grad as _enable_grad
from jtorch.eager.public import is_grad_enabled as _is_grad_enabled
from jtorch.nn import functional as _F

_Size = int | Sequence[int]


def _of(
    convolution: Callable, shape: Any, other: Tensor, grad_output: Tensor, facts: tuple, of_weight: bool
) -> Tensor:  # fmt: skip
    """The gradient of ``convolution(input, weight)`` with respect to the one of ``shape``."""
    with _enable_grad():
        wanted = grad_output.new_zeros(tuple(shape)).requires_grad_()
        out = convolution(*((other, wanted) if of_weight else (wanted, other)), *facts)
    (found,) = _grad(out, wanted, grad_output, create_graph=_is_grad_enabled())
    assert found is not None
    return found


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: _Size = 1, padding: _Size = 0,
    dilation: _Size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv1d`` with respect to its input of size ``input_size``."""
    facts = (None, stride, padding, dilation, groups)
    return _of(_F.conv1d, input_size, weight, grad_output, facts, False)


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: _Size = 1, padding: _Size = 0,
    dilation: _Size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv1d`` with respect to its weight of size ``weight_size``."""
    facts = (None, stride, padding, dilation, groups)
    return _of(_F.conv1d, weight_size, input, grad_output, facts, True)


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: _Size = 1, padding: _Size = 0,
    dilation: _Size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv2d`` with respect to its input of size ``input_size``."""
    facts = (None, stride, padding, dilation, groups)
    return _of(_F.conv2d, input_size, weight, grad_output, facts, False)


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: _Size = 1, padding: _Size = 0,
    dilation: _Size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv2d`` with respect to its weight of size ``weight_size``."""
    facts = (None, stride, padding, dilation, groups)
    return _of(_F.conv2d, weight_size, input, grad_output, facts, True)


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: _Size = 1, padding: _Size = 0,
    dilation: _Size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv3d`` with respect to its input of size ``input_size``."""
    facts = (None, stride, padding, dilation, groups)
    return _of(_F.conv3d, input_size, weight, grad_output, facts, False)


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: _Size = 1, padding: _Size = 0,
    dilation: _Size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv3d`` with respect to its weight of size ``weight_size``."""
    facts = (None, stride, padding, dilation, groups)
    return _of(_F.conv3d, weight_size, input, grad_output, facts, True)
