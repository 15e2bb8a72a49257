"""Layer normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.eager.creation import empty
from jtorch.eager.tensor import Tensor
from jtorch.nn import functional as F
from jtorch.nn import init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter


class LayerNorm(Module):
    """Each item scaled to mean 0 and variance 1 over its last dims ``normalized_shape``.

    ``weight`` (ones) and ``bias`` (zeros) have that shape. Source: Ba et al. 2016, arXiv:1607.06450.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            value = Parameter(empty(*shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )
