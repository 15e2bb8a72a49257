"""Convolution and transposed convolution as modules; images to columns and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jtorch.eager.public import Tensor, empty
from jtorch.nn import functional as F, init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter

_Size = int | tuple[int, ...]
_MODES = ("zeros", "reflect", "replicate", "circular")


def per_dim(value: Any, rank: int) -> tuple[int, ...]:
    """A number for every spatial dim, or one for each."""
    return tuple(value) if isinstance(value, Sequence) else (value,) * rank


class _ConvNd(Module):
    """What all convolutions share; ``rank`` spatial dims."""

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: _Size, stride: _Size, padding: str | _Size,
        dilation: _Size, output_padding: _Size, groups: int, bias: bool, padding_mode: str, device: Any,
        dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        rank = self.rank
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = per_dim(kernel_size, rank), per_dim(stride, rank)
        self.padding: Any = padding if isinstance(padding, str) else per_dim(padding, rank)
        self.dilation, self.output_padding = per_dim(dilation, rank), per_dim(output_padding, rank)
        self.groups, self.padding_mode = groups, padding_mode
        self._check()
        self._borders = self._borders_for_pad()
        channels = (out_channels, in_channels // groups)
        if self.transposed:
            channels = (in_channels, out_channels // groups)
        self.weight = Parameter(empty(*channels, *self.kernel_size, device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def _check(self) -> None:
        if self.groups <= 0:
            raise ValueError("groups must be a positive integer")
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        if self.out_channels % self.groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(self.padding, str):
            if self.padding not in ("valid", "same"):
                raise ValueError(
                    f"Invalid padding string {self.padding!r}, should be one of {{'valid', 'same'}}"
                )
            if self.padding == "same" and max(self.stride) != 1:
                raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode not in _MODES:
            raise ValueError(
                f"padding_mode must be one of {{{', '.join(map(repr, _MODES))}}}, but got "
                f"padding_mode='{self.padding_mode}'"
            )

    def _borders_for_pad(self) -> list[int]:
        """(left, right, top, bottom, ...) as ``F.pad`` takes them, for modes other than zeros."""
        if self.padding == "valid":
            return [0] * (2 * self.rank)
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [n for t in reversed(total) for n in (t // 2, t - t // 2)]
        return [n for p in reversed(self.padding) for n in (p, p)]

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init.fans(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self.rank, (1,) * self.rank
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        for name, plain in (("padding", zeros), ("dilation", ones), ("output_padding", zeros)):
            value = getattr(self, name)
            if value != plain:
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvNd):
    convolve: ClassVar[Callable]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: _Size, stride: _Size = 1,
        padding: str | _Size = 0, dilation: _Size = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._borders, mode=self.padding_mode), 0
        return type(self).convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class Conv1d(_Conv):
    """Cross-correlation of sequences: (N, in_channels, L) to (N, out_channels, OL).

    Parameters, initial values and errors are those of ``Conv2d``.

    >>> import jtorch
    >>> jtorch.nn.Conv1d(16, 33, kernel_size=3, stride=2)(jtorch.zeros(20, 16, 50)).shape
    torch.Size([20, 33, 24])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv1d.html
    """

    rank = 1
    convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Cross-correlation of images: (N, in_channels, H, W) to (N, out_channels, OH, OW).

    ``weight`` (out, in / groups, kh, kw) and ``bias`` (out,) start uniform within 1/sqrt(inputs per output).
    Raises ValueError for channels that ``groups`` does not divide and for unknown paddings.

    >>> import jtorch
    >>> jtorch.nn.Conv2d(3, 8, kernel_size=5, padding=2)(jtorch.zeros(1, 3, 28, 28)).shape
    torch.Size([1, 8, 28, 28])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    """

    rank = 2
    convolve = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Cross-correlation of volumes: (N, in_channels, D, H, W) to (N, out_channels, OD, OH, OW).

    >>> import jtorch
    >>> jtorch.nn.Conv3d(2, 4, kernel_size=(3, 1, 1))(jtorch.zeros(1, 2, 10, 5, 5)).shape
    torch.Size([1, 4, 8, 5, 5])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv3d.html
    """

    rank = 3
    convolve = staticmethod(F.conv3d)


class _ConvTranspose(_ConvNd):
    transposed = True
    convolve: ClassVar[Callable]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: _Size, stride: _Size = 1, padding: _Size = 0,
        output_padding: _Size = 0, groups: int = 1, bias: bool = True, dilation: _Size = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """``output_size`` picks one of the sizes that the same convolution maps to the input's."""
        extra = (
            self.output_padding if output_size is None else self._output_padding(input, tuple(output_size))
        )
        return type(self).convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _output_padding(self, input: Tensor, asked: tuple[int, ...]) -> tuple[int, ...]:
        rank = self.rank
        batched = input.ndim == rank + 2
        if len(asked) == rank + (2 if batched else 1):
            asked = asked[-rank:]
        if len(asked) != rank:
            raise ValueError(
                f"ConvTranspose{rank}D: for {input.ndim}D input, output_size must have {rank} or "
                f"{input.ndim} "
                f"elements (got {len(asked)})"
            )
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-rank:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if any(not a <= n <= b for n, a, b in zip(asked, least, most, strict=True)):
            raise ValueError(
                f"requested an output size of {asked}, but valid sizes range from {least} to {most} (for "
                "an input "
                f"of torch.Size({list(input.shape[-rank:])}))"
            )
        return tuple(n - a for n, a in zip(asked, least, strict=True))


class ConvTranspose1d(_ConvTranspose):
    """The gradient of ``Conv1d`` to its input, as a layer: (N, in_channels, L) to (N, out_channels, OL).

    >>> import jtorch
    >>> jtorch.nn.ConvTranspose1d(16, 33, kernel_size=3, stride=2)(jtorch.zeros(20, 16, 24)).shape
    torch.Size([20, 33, 49])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose1d.html
    """

    rank = 1
    convolve = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The gradient of ``Conv2d`` to its input, as a layer; ``weight`` is (in, out / groups, kh, kw).

    Raises ValueError for a padding mode other than zeros, and for an ``output_size`` out of reach.

    >>> import jtorch
    >>> up = jtorch.nn.ConvTranspose2d(8, 3, kernel_size=2, stride=2)
    >>> up(jtorch.zeros(1, 8, 14, 14)).shape, up.weight.shape
    (torch.Size([1, 3, 28, 28]), torch.Size([8, 3, 2, 2]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html
    """

    rank = 2
    convolve = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """The gradient of ``Conv3d`` to its input, as a layer.

    >>> import jtorch
    >>> jtorch.nn.ConvTranspose3d(8, 3, kernel_size=2, stride=2)(jtorch.zeros(1, 8, 3, 4, 5)).shape
    torch.Size([1, 3, 6, 8, 10])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose3d.html
    """

    rank = 3
    convolve = staticmethod(F.conv_transpose3d)


class Unfold(Module):
    """The windows of images (N, C, H, W) as columns (N, C * kh * kw, windows).

    >>> import jtorch
    >>> jtorch.nn.Unfold(2)(jtorch.arange(9.0).reshape(1, 1, 3, 3))[0, :, 0]  # the window at the upper left
    tensor([0., 1., 3., 4.])
    >>> jtorch.nn.Unfold(kernel_size=(2, 3))(jtorch.zeros(2, 5, 3, 4)).shape
    torch.Size([2, 30, 4])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Unfold.html
    """

    def __init__(
        self, kernel_size: _Size, dilation: _Size = 1, padding: _Size = 0, stride: _Size = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Unfold):
    """Columns added up where ``Unfold`` took them: (N, C * kh * kw, windows) to (N, C, *output_size).

    >>> import jtorch
    >>> jtorch.nn.Fold((3, 3), kernel_size=2)(jtorch.ones(1, 4, 4))[0, 0]  # in how many windows each place is
    tensor([[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Fold.html
    """

    def __init__(
        self,
        output_size: _Size,
        kernel_size: _Size,
        dilation: _Size = 1,
        padding: _Size = 0,
        stride: _Size = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
