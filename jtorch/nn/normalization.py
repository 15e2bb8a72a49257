"""Normalisation of each example by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.eager.public import Tensor, empty
from jtorch.nn import functional as F, init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter


class _Affine(Module):
    """With a ``weight`` of ones and a ``bias`` of zeros, or None in their places."""

    def _make_parameters(
        self, shape: tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any
    ) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            value = Parameter(empty(*shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Each item scaled to mean 0 and variance 1 over its last dims ``normalized_shape``.

    ``weight`` (ones) and ``bias`` (zeros) have that shape. Source: Ba et al. 2016, arXiv:1607.06450.

    >>> import jtorch
    >>> jtorch.nn.LayerNorm(2)(jtorch.tensor([[0.0, 4.0]])).detach().round(decimals=3)
    tensor([[-1.,  1.]])
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
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_parameters(shape, elementwise_affine, elementwise_affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Each item over the root mean square of its last dims ``normalized_shape``, then scaled by
    ``weight`` (ones).

    ``eps`` None is the machine epsilon. Source: Zhang and Sennrich 2019, arXiv:1910.07467.

    >>> import jtorch
    >>> jtorch.nn.RMSNorm(2, eps=0.0)(jtorch.tensor([[3.0, 3.0], [-5.0, 5.0]])).tolist()
    [[1.0, 1.0], [-1.0, 1.0]]
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        weight = Parameter(empty(*shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Each of ``num_groups`` groups of channels of (N, C, ...) to mean 0 and variance 1, then scaled
    and shifted.

    Raises ValueError for channels that the groups don't divide. Source: Wu and He 2018, arXiv:1803.08494.

    >>> import jtorch
    >>> jtorch.nn.GroupNorm(2, 4)(jtorch.tensor([[0.0, 4.0, 10.0, 30.0]])).detach().round(decimals=3)
    tensor([[-1.,  1., -1.,  1.]])
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_parameters((num_channels,), affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Each element over a power of its neighbouring channels' mean square: see ``F.local_response_norm``.

    >>> import jtorch
    >>> jtorch.nn.LocalResponseNorm(1, alpha=1.0, beta=1.0)(jtorch.tensor([[[1.0], [2.0]]]))  # x / (1 + x^2)
    tensor([[[0.5000],
             [0.4000]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LocalResponseNorm.html
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` of images (N, C, H, W) as Lua's Torch had it, for networks of that time.

    Of an even ``size`` it takes one channel less. As in PyTorch the first channel counts for all that come
    ``int((size + 1) / 2)`` and more after it; the gradient is that of what is computed, PyTorch's leaves this
    out. Raises ValueError for other than 4 dims.

    >>> import jtorch
    >>> x = jtorch.tensor([1.0, 2.0]).reshape(1, 2, 1, 1)
    >>> jtorch.nn.CrossMapLRN2d(1, alpha=1.0, beta=1.0)(x).flatten()  # 1 / (1 + 1), 2 / (1 + 4 + 1)
    tensor([0.5000, 0.3333])

    Source: https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/_functions.py
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        squares: Any = input * input
        reach, channels = int((self.size + 1) / 2), input.shape[1]
        bordered: Any = F.pad(squares, [0, 0, 0, 0, reach - 1, reach - 1])
        total: Any = sum(bordered.narrow(1, place, channels) for place in range(2 * reach - 1))
        if channels > reach:
            first = squares[:, :1].expand(-1, channels - reach, -1, -1)
            total = total + F.pad(first, [0, 0, 0, 0, reach, 0])
        return input * (total * (self.alpha / self.size) + self.k) ** -self.beta
