"""Pooling to a given output size, as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from jtorch.eager.public import Tensor
from jtorch.nn import functional as F
from jtorch.nn.module import Module


class _AdaptiveAvgPool(Module):
    pool: ClassVar[Callable]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of ``output_size`` windows of sequences.

    >>> import jtorch
    >>> jtorch.nn.AdaptiveAvgPool1d(2)(jtorch.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
    tensor([[[2., 6.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool1d.html
    """

    pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of boxes of images, as many as ``output_size`` says; None keeps a size.

    >>> import jtorch
    >>> jtorch.nn.AdaptiveAvgPool2d(1)(jtorch.arange(4.0).reshape(1, 1, 2, 2)).item()
    1.5
    >>> jtorch.nn.AdaptiveAvgPool2d((7, None))(jtorch.zeros(1, 64, 10, 9)).shape
    torch.Size([1, 64, 7, 9])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html
    """

    pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of boxes of volumes.

    >>> import jtorch
    >>> jtorch.nn.AdaptiveAvgPool3d((5, 1, None))(jtorch.zeros(1, 64, 8, 9, 10)).shape
    torch.Size([1, 64, 5, 1, 10])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool3d.html
    """

    pool = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPool(_AdaptiveAvgPool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self).pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of ``output_size`` windows of sequences.

    >>> import jtorch
    >>> jtorch.nn.AdaptiveMaxPool1d(2)(jtorch.tensor([[[1.0, 3.0, 7.0, 5.0]]]))
    tensor([[[3., 7.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool1d.html
    """

    pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of boxes of images.

    >>> import jtorch
    >>> jtorch.nn.AdaptiveMaxPool2d(1)(jtorch.arange(4.0).reshape(1, 1, 2, 2)).item()
    3.0

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html
    """

    pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of boxes of volumes.

    >>> import jtorch
    >>> jtorch.nn.AdaptiveMaxPool3d((5, 1, None))(jtorch.zeros(1, 64, 8, 9, 10)).shape
    torch.Size([1, 64, 5, 1, 10])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool3d.html
    """

    pool = staticmethod(F.adaptive_max_pool3d)
