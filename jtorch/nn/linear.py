"""Affine layers."""

from __future__ import annotations

import math
from typing import Any

from jtorch.eager.public import Tensor, empty
from jtorch.nn import functional as F, init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter


class Identity(Module):
    """Its input; arguments of the constructor are ignored.

    >>> import jtorch
    >>> jtorch.nn.Identity(54, unused=True)(jtorch.tensor([1, 2]))
    tensor([1, 2])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """``x @ weight.T + bias``: (..., in_features) to (..., out_features).

    ``weight`` (out, in) and ``bias`` (out,) start uniform within 1/sqrt(in_features).

    >>> import jtorch
    >>> layer = jtorch.nn.Linear(3, 2)
    >>> layer(jtorch.zeros(5, 3)).shape, layer.weight.shape
    (torch.Size([5, 2]), torch.Size([2, 3]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = self._weight_and_bias()
        return F.linear(input, weight, bias)

    def _weight_and_bias(self) -> tuple[Any, Any]:
        """Both: in 0.55 us without ``__getattr__``, where it would find them in 1.3."""
        facts = self.__dict__
        if type(self) is Linear and _NAMES.isdisjoint(facts) and _NAMES.isdisjoint(_OF_CLASS):
            given = facts["_parameters"]
            if "weight" in given and "bias" in given:
                return given["weight"], given["bias"]
        return self.weight, self.bias

    def extra_repr(self) -> str:
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}"


_NAMES, _OF_CLASS = frozenset(("weight", "bias")), Linear.__dict__


class NonDynamicallyQuantizableLinear(Linear):
    """``Linear`` under the name that PyTorch's attention layers give their last one."""


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias``: (..., in1) and (..., in2) to (..., out).

    ``weight`` (out, in1, in2) and ``bias`` (out,) start uniform within 1/sqrt(in1_features).

    >>> import jtorch
    >>> jtorch.nn.Bilinear(20, 30, 40)(jtorch.zeros(128, 20), jtorch.zeros(128, 30)).shape
    torch.Size([128, 40])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Bilinear.html
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(empty(*shape, device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
