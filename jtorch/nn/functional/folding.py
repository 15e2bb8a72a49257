"""Images to the columns that convolutions are made of, and back.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#convolution-functions
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from jtorch.eager.public import Tensor, apart, ops
from jtorch.nn.functional.padding import bordered

Sizes = int | Sequence[int]
_Pair = tuple[int, int]  # of the height and of the width


def _pair(value: Sizes) -> tuple[int, int]:
    first, second = value if isinstance(value, (tuple, list)) else (value, value)
    return operator.index(first), operator.index(second)


def _check_windows(kernel: _Pair, dilations: _Pair, border: _Pair, strides: _Pair) -> None:
    for name, what, (high, wide) in (
        ("kernel", "kernel size", kernel), ("dilation", "dilation", dilations), ("stride", "stride", strides),
    ):  # fmt: skip
        if high <= 0 or wide <= 0:
            raise RuntimeError(
                f"{what} should be greater than zero, but got {name}_height: {high} {name}_width: {wide}"
            )
    if min(border) < 0:
        raise RuntimeError(
            f"padding should be non-negative, but got pad_height: {border[0]} pad_width: {border[1]}"
        )


def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """The windows of images (N, C, H, W) as columns (N, C * KH * KW, windows); (C, H, W) likewise.

    Raises RuntimeError where no window fits.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.unfold(jtorch.arange(9.0).reshape(1, 1, 3, 3), 2)[0, :, 0]  # the window at the upper left
    tensor([0., 1., 3., 4.])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.unfold.html
    """
    if input.ndim not in (3, 4):
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
            f"for input, but got: {list(input.shape)}"
        )
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    kernel, dilations, border, strides = map(_pair, (kernel_size, dilation, padding, stride))
    _check_windows(kernel, dilations, border, strides)
    counts = _window_counts(input.shape[2:], kernel, dilations, border, strides)
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size ({input.shape[2]}, {input.shape[3]}), kernel_size={kernel}, "
            f"dilation={dilations}, padding={border}, calculated shape of the array of sliding blocks as "
            f"{counts}, but its components must be at least one."
        )
    edged = bordered(input, [border[1], border[1], border[0], border[0]])
    seen = ops.windows(edged, kernel=kernel, stride=strides, dilation=dilations)
    shape = (input.shape[0], input.shape[1] * math.prod(kernel), math.prod(counts))
    return apart(seen.permute(0, 1, 4, 5, 2, 3).reshape(shape), input)


def fold(
    input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:  # fmt: skip
    """Columns (N, C * KH * KW, windows) added up where ``unfold`` took them: (N, C, *output_size).

    Raises RuntimeError where the columns don't fit the sizes.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.fold(jtorch.ones(1, 4, 4), (3, 3), kernel_size=2)[0, 0]  # in how many windows each place is
    tensor([[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.fold.html
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    if input.ndim == 2:
        return fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    sizes, kernel, dilations, border, strides = map(
        _pair, (output_size, kernel_size, dilation, padding, stride)
    )
    _check_windows(kernel, dilations, border, strides)
    counts = _window_counts(sizes, kernel, dilations, border, strides)
    _check_columns(input, sizes, kernel, dilations, border, strides, counts)
    n, channels = input.shape[0], input.shape[1] // math.prod(kernel)
    windows = input.reshape(n, channels, *kernel, *counts).permute(0, 1, 4, 5, 2, 3)
    whole = (n, channels, sizes[0] + 2 * border[0], sizes[1] + 2 * border[1])
    out = ops.fold(windows, shape=whole, kernel=kernel, stride=strides, dilation=dilations)
    return bordered(out, [-border[1], -border[1], -border[0], -border[0]])


def _check_columns(
    input: Tensor, sizes: Sizes, kernel: tuple[int, int], dilations: Sizes, border: Sizes, strides: Sizes,
    counts: tuple[int, ...],
) -> None:  # fmt: skip
    if input.shape[1] % math.prod(kernel):
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={input.shape[1]} and kernel_size={kernel}."
        )
    if input.shape[2] != math.prod(counts) or min(counts) < 1:
        raise RuntimeError(
            f"Given output_size={sizes}, kernel_size={kernel}, dilation={dilations}, padding={border}, "
            f"stride={strides}, expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {counts[0]} * {counts[1]} = {math.prod(counts)}, but got "
            f"input.size(2)={input.shape[2]}."
        )


def _window_counts(
    sizes: Sequence[int], kernel: Sequence[int], dilations: Sequence[int], border: Sequence[int],
    strides: Sequence[int],
) -> tuple[int, ...]:  # fmt: skip
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(sizes, kernel, dilations, border, strides, strict=True)
    )
