"""Pooling as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from jtorch.eager.public import Tensor
from jtorch.nn import functional as F
from jtorch.nn.conv import per_dim
from jtorch.nn.module import Module

_Size = int | tuple[int, ...]


class _MaxPool(Module):
    pool: ClassVar[Callable]

    def __init__(
        self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0, dilation: _Size = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return type(self).pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window of sequences (N, C, L). ``stride`` is the window's size unless
    given.

    >>> import jtorch
    >>> jtorch.nn.MaxPool1d(2)(jtorch.tensor([[[1.0, 5.0, 2.0, 4.0]]]))
    tensor([[[5., 4.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool1d.html
    """

    pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest element of each window of images (N, C, H, W). ``stride`` is the window's size unless
    given.

    >>> import jtorch
    >>> jtorch.nn.MaxPool2d(2)(jtorch.arange(16.0).reshape(1, 1, 4, 4))
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    >>> jtorch.nn.MaxPool2d(3, stride=2, padding=1)(jtorch.zeros(1, 8, 28, 28)).shape
    torch.Size([1, 8, 14, 14])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
    """

    pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest element of each window of volumes (N, C, D, H, W).

    >>> import jtorch
    >>> jtorch.nn.MaxPool3d(2)(jtorch.arange(8.0).reshape(1, 1, 2, 2, 2)).item()
    7.0

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool3d.html
    """

    pool = staticmethod(F.max_pool3d)


class _MaxUnpool(Module):
    rank: ClassVar[int]
    unpool: ClassVar[Callable]

    def __init__(self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0) -> None:
        super().__init__()
        self.kernel_size = per_dim(kernel_size, self.rank)
        self.stride = self.kernel_size if stride is None else per_dim(stride, self.rank)
        self.padding = per_dim(padding, self.rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return type(self).unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Zeros with the elements where ``MaxPool1d(return_indices=True)`` found them.

    >>> import jtorch
    >>> pool = jtorch.nn.MaxPool1d(2, return_indices=True)
    >>> jtorch.nn.MaxUnpool1d(2)(*pool(jtorch.tensor([[[1.0, 5.0, 2.0, 4.0]]])))
    tensor([[[0., 5., 0., 4.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool1d.html
    """

    rank = 1
    unpool = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """Zeros with the elements where ``MaxPool2d(return_indices=True)`` found them.

    >>> import jtorch
    >>> pool = jtorch.nn.MaxPool2d(2, return_indices=True)
    >>> jtorch.nn.MaxUnpool2d(2)(*pool(jtorch.tensor([[[1.0, 2.0], [4.0, 3.0]]])))
    tensor([[[0., 0.],
             [4., 0.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool2d.html
    """

    rank = 2
    unpool = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """Zeros with the elements where ``MaxPool3d(return_indices=True)`` found them.

    >>> import jtorch
    >>> pool = jtorch.nn.MaxPool3d(2, return_indices=True)
    >>> jtorch.nn.MaxUnpool3d(2)(*pool(jtorch.arange(8.0).reshape(1, 1, 2, 2, 2))).flatten()
    tensor([0., 0., 0., 0., 0., 0., 0., 7.])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool3d.html
    """

    rank = 3
    unpool = staticmethod(F.max_unpool3d)


class AvgPool1d(Module):
    """The mean of each window of sequences (N, C, L). ``stride`` is the window's size unless given.

    >>> import jtorch
    >>> jtorch.nn.AvgPool1d(2)(jtorch.tensor([[[1.0, 5.0, 2.0, 4.0]]]))
    tensor([[[3., 3.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool1d.html
    """

    def __init__(
        self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = per_dim(kernel_size, 1)
        self.stride = self.kernel_size if stride is None else per_dim(stride, 1)
        self.padding = per_dim(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    pool: ClassVar[Callable]

    def __init__(
        self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of each window of images (N, C, H, W). ``stride`` is the window's size unless given.

    >>> import jtorch
    >>> jtorch.nn.AvgPool2d(2)(jtorch.arange(16.0).reshape(1, 1, 4, 4))
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool2d.html
    """

    pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of each window of volumes (N, C, D, H, W).

    >>> import jtorch
    >>> jtorch.nn.AvgPool3d(2)(jtorch.arange(8.0).reshape(1, 1, 2, 2, 2)).item()
    3.5

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool3d.html
    """

    pool = staticmethod(F.avg_pool3d)


class _LPPool(Module):
    pool: ClassVar[Callable]

    def __init__(
        self, norm_type: float, kernel_size: _Size, stride: _Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self).pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The ``norm_type``-norm of each window of sequences.

    >>> import jtorch
    >>> jtorch.nn.LPPool1d(2, kernel_size=2)(jtorch.tensor([[[3.0, 4.0, 0.0, 1.0]]]))
    tensor([[[5., 1.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool1d.html
    """

    pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """The ``norm_type``-norm of each window of images.

    >>> import jtorch
    >>> jtorch.nn.LPPool2d(2, kernel_size=2)(jtorch.ones(1, 1, 2, 4))
    tensor([[[[2., 2.]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool2d.html
    """

    pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """The ``norm_type``-norm of each window of volumes.

    >>> import jtorch
    >>> jtorch.nn.LPPool3d(1, kernel_size=2)(jtorch.ones(1, 1, 2, 2, 2)).item()
    8.0

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool3d.html
    """

    pool = staticmethod(F.lp_pool3d)
