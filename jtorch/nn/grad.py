"""Gradients of convolutions, given that of the result: ``torch.nn.grad``.

A convolution is linear in its input and in its weight, so its gradient with respect to one needs of that only
the size.
Source: https://docs.pytorch.org/docs/stable/nn.functional.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jtorch.autograd import grad as _grad
from jtorch.eager.public import Tensor, enable_grad as _enable_grad, is_grad_enabled as _is_grad_enabled
from jtorch.nn import functional as _F

_Size = int | Sequence[int]


def _gradients(convolution: Callable) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Those of ``convolution`` with respect to its input, and to its weight."""

    def of_input(
        input_size: Any, weight: Tensor, grad_output: Tensor, stride: _Size = 1, padding: _Size = 0,
        dilation: _Size = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        facts = (None, stride, padding, dilation, groups)
        return _pulled(lambda wanted: convolution(wanted, weight, *facts), input_size, grad_output)

    def of_weight(
        input: Tensor, weight_size: Any, grad_output: Tensor, stride: _Size = 1, padding: _Size = 0,
        dilation: _Size = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        facts = (None, stride, padding, dilation, groups)
        return _pulled(lambda wanted: convolution(input, wanted, *facts), weight_size, grad_output)

    name = convolution.__name__
    for function, part in ((of_input, "input"), (of_weight, "weight")):
        function.__name__ = function.__qualname__ = f"{name}_{part}"
        function.__doc__ = (
            f"The gradient of ``{name}`` with respect to its {part}, whose size is ``{part}_size``."
        )
    return of_input, of_weight


def _pulled(linear: Callable[[Tensor], Tensor], size: Any, grad_output: Tensor) -> Tensor:
    """The gradient of ``linear`` with respect to what it takes, of this ``size``."""
    with _enable_grad():
        wanted = grad_output.new_zeros(tuple(size)).requires_grad_()
        out = linear(wanted)
    (found,) = _grad(out, wanted, grad_output, create_graph=_is_grad_enabled())
    assert found is not None
    return found


conv1d_input, conv1d_weight = _gradients(_F.conv1d)
conv2d_input, conv2d_weight = _gradients(_F.conv2d)
conv3d_input, conv3d_weight = _gradients(_F.conv3d)
