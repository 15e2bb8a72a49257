"""Convolutions and transposed convolutions.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#convolution-functions
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.core.sizes import below
from jtorch.eager.public import Tensor, agree, integer, ops
from jtorch.nn.functional.padding import bordered
from jtorch.nn.functional.remembered import remembered

Sizes = int | Sequence[int]
Shape = tuple[int, ...]


def spread(value: Sizes, rank: int, name: str, kind: str = "convolution") -> tuple[int, ...]:
    """A number, or one per spatial dim, as ``rank`` numbers."""
    if isinstance(value, int):
        return (value,) * rank
    numbers = tuple(int(v) for v in value)
    if len(numbers) == 1:
        return numbers * rank
    if len(numbers) != rank:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {rank} values to match the {kind} "
            f"dimensions, but got {name}={list(numbers)}"
        )
    return numbers


def _convolve(
    name: str, rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes,
    padding: str | Sizes, dilation: Sizes, groups: int,
) -> Tensor:  # fmt: skip
    of_bias = None if bias is None else bias.shape
    alone, geometry = _geometry(
        name, rank, input.shape, weight.shape, of_bias, stride, padding, dilation, groups
    )
    _check_dtypes(input, weight, bias)
    out = ops.convolution(input.unsqueeze(0) if alone else input, weight, bias, **geometry)
    return out.squeeze(0) if alone else out


@remembered
def _geometry(
    name: str, rank: int, shape: Shape, kernel: Shape, bias: Shape | None, stride: Sizes,
    padding: str | Sizes, dilation: Sizes, groups: int,
) -> tuple[bool, dict[str, Any]]:  # fmt: skip
    """(whether that is the shape of one example without a batch dim, what the op takes beside tensors).
    Raises RuntimeError where something does not fit."""
    alone = _check_ranks(name, rank, shape, kernel)
    if alone:
        shape = (1, *shape)
    strides, dilations = spread(stride, rank, "stride"), spread(dilation, rank, "dilation")
    low, high = _borders(padding, kernel[2:], strides, dilations)
    _check_numbers(strides, dilations, groups)
    _check_kernel(kernel[2:])
    _check_channels(shape, kernel, bias, groups)
    _check_fits(shape, kernel, low, high, dilations)
    return alone, {"stride": strides, "low": low, "high": high, "dilation": dilations, "groups": groups}


def _check_ranks(name: str, rank: int, shape: Shape, kernel: Shape) -> bool:
    """Whether ``shape`` is that of one example without a batch dim. Raises RuntimeError where ranks don't
    fit."""
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of "
            f"size: {list(shape)}"
        )
    alone = len(shape) == rank + 1
    if len(kernel) != rank + 2:
        raise RuntimeError(
            f"Expected {len(kernel)}-dimensional input for {len(kernel)}-dimensional weight "
            f"{list(kernel)}, but got {rank + 2}-dimensional input of size "
            f"{[1, *shape] if alone else list(shape)} instead"
        )
    return alone


def _check_numbers(strides: tuple[int, ...], dilations: tuple[int, ...], groups: int) -> None:
    if integer("", "groups", groups) <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if min(strides) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilations) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilations)}")


def _borders(
    padding: str | Sizes, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(zeros before, zeros after) each spatial dim."""
    rank = len(kernel)
    if padding == "valid":
        return (0,) * rank, (0,) * rank
    if padding == "same":
        if max(strides) != 1:
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        total = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    if isinstance(padding, str):
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    both = spread(padding, rank, "padding")
    if min(both) < 0:
        raise RuntimeError("negative padding is not supported")
    return both, both


def _check_kernel(kernel: tuple[int, ...]) -> None:
    if 0 in kernel:
        names = ("kT", "kH", "kW") if len(kernel) == 3 else ("kernel_height", "kernel_width")
        sizes = zip(names, (1, *kernel)[-len(names) :], strict=True)
        told = " ".join(f"{name}: {n}" for name, n in sizes)
        raise RuntimeError(f"kernel size should be greater than zero, but got {told}")


def _check_channels(shape: Shape, kernel: Shape, bias: Shape | None, groups: int) -> None:
    if kernel[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight "
            f"of size {list(kernel)} instead"
        )
    if kernel[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got "
            f"weight of size [{list(kernel)}] instead"
        )
    if kernel[1] * groups != shape[1]:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(kernel)}, expected input{list(shape)} to have "
            f"{kernel[1] * groups} channels, but got {shape[1]} channels instead"
        )
    _check_bias(kernel, bias, kernel[0], "Given weight of size")


def _check_bias(kernel: Shape, bias: Shape | None, wanted: int, given: str) -> None:
    if bias is not None and tuple(bias) != (wanted,):
        raise RuntimeError(
            f"{given} {list(kernel)}, expected bias to be 1-dimensional with {wanted} elements, but "
            f"got bias of size {list(bias)} instead"
        )


def _check_dtypes(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and not agree(input, other):
            raise RuntimeError(
                f"Input type ({input.dtype}) and {name} type ({other.dtype}) should be the same"
            )


def _check_fits(shape: Shape, kernel: Shape, low: Shape, high: Shape, dilations: Shape) -> None:
    have = [n + a + b for n, a, b in zip(shape[2:], low, high, strict=True)]
    want = [d * (k - 1) + 1 for d, k in zip(dilations, kernel[2:], strict=True)]
    if any(h < w for h, w in zip(have, want, strict=True)):
        have_text, want_text = (" x ".join(map(str, sizes)) for sizes in (have, want))
        raise RuntimeError(
            f"Calculated padded input size per channel: ({have_text}). Kernel size: ({want_text}). Kernel "
            "size can't be greater than actual input size"
        )


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: str | Sizes = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of sequences (N, C, L) or (C, L) with ``weight`` (O, C/groups, K).

    ``padding`` is a number, "valid" or "same". Raises RuntimeError where channels, dtypes or sizes don't fit.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.conv1d(jtorch.tensor([[[1.0, 2.0, 4.0, 8.0]]]), jtorch.tensor([[[-1.0, 1.0]]]))  # differences
    tensor([[[1., 2., 4.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv1d.html

    >>> import jtorch
    >>> jtorch.conv1d(jtorch.tensor([[1.0, 2.0, 4.0]]), jtorch.tensor([[[-1.0, 1.0]]]))
    tensor([[1., 2.]])
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: str | Sizes = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of images (N, C, H, W) or (C, H, W) with ``weight`` (O, C/groups, KH, KW).

    ``padding`` is a number, a pair, "valid" or "same". Raises RuntimeError where channels, dtypes or sizes
    don't fit. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.conv2d(jtorch.ones(1, 1, 3, 3), jtorch.ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])
    >>> F.conv2d(jtorch.zeros(1, 3, 28, 28), jtorch.zeros(8, 3, 5, 5), padding=2, stride=2).shape
    torch.Size([1, 8, 14, 14])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: str | Sizes = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of volumes (N, C, D, H, W) or (C, D, H, W) with ``weight`` (O, C/groups, KD, KH, KW).

    Raises RuntimeError where channels, dtypes or sizes don't fit.

    >>> import jtorch
    >>> jtorch.nn.functional.conv3d(jtorch.zeros(1, 2, 10, 5, 5), jtorch.zeros(4, 2, 3, 1, 1)).shape
    torch.Size([1, 4, 8, 5, 5])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv3d.html

    >>> import jtorch
    >>> jtorch.conv3d(jtorch.ones(1, 3, 3, 3), jtorch.ones(2, 1, 2, 2, 2)).shape
    torch.Size([2, 2, 2, 2])
    """
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


# -- transposed -------------------------------------------------------------------------------------------


def _convolve_transposed(
    name: str, rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes,
    output_padding: Sizes, groups: int, dilation: Sizes,
) -> Tensor:  # fmt: skip
    alone = _check_ranks(name, rank, input.shape, weight.shape)
    if alone:
        input = input.unsqueeze(0)
    strides, dilations = spread(stride, rank, "stride"), spread(dilation, rank, "dilation")
    border = spread(padding, rank, "padding")
    extra = spread(output_padding, rank, "output_padding")
    if min(border) < 0:
        raise RuntimeError("negative padding is not supported")
    _check_numbers(strides, dilations, groups)
    _check_kernel(weight.shape[2:])
    _check_transposed(input, weight, bias, groups, extra, strides, dilations)
    # Output padding of a stride and more no window may see as padding. It first uncovers what ``padding``
    # cuts off at the end; what is left over and still a stride and more, is zeros behind the images.
    uncovered = [min(e, p) if e >= s else 0 for e, s, p in zip(extra, strides, border, strict=True)]
    rest = [e - u for e, u in zip(extra, uncovered, strict=True)]
    behind = [r if r >= s else 0 for r, s in zip(rest, strides, strict=True)]
    high = tuple(p - u for p, u in zip(border, uncovered, strict=True))
    sizes = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + e - b
        for n, s, p, d, k, e, b in zip(
            input.shape[2:], strides, border, dilations, weight.shape[2:], extra, behind, strict=True
        )
    )
    if below(sizes, 1):
        raise RuntimeError(
            f"Given input size per channel: {list(input.shape[2:])}. Calculated output size per channel: "
            f"{list(sizes)}. Output size is too small"
        )
    geometry = {"sizes": sizes, "stride": strides, "low": border, "high": high, "dilation": dilations}
    if not any(behind):
        out = ops.convolution_input(input, weight, bias, **geometry, groups=groups)
    else:
        out = ops.convolution_input(input, weight, None, **geometry, groups=groups)
        out = bordered(out, [n for b in reversed(behind) for n in (0, b)])
        out = out if bias is None else out + bias.reshape(-1, *(1,) * rank)
    return out.squeeze(0) if alone else out


def _check_transposed(
    input: Tensor, weight: Tensor, bias: Tensor | None, groups: int, extra: tuple[int, ...],
    strides: tuple[int, ...], dilations: tuple[int, ...],
) -> None:  # fmt: skip
    shape, kernel = input.shape, weight.shape
    if kernel[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight "
            f"of size {list(kernel)} instead"
        )
    if kernel[0] != shape[1]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(kernel)}, expected input{list(shape)} to have "
            f"{kernel[0]} channels, but got {shape[1]} channels instead"
        )
    if kernel[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got "
            f"weight of size [{list(kernel)}] instead"
        )
    of_bias = None if bias is None else bias.shape
    _check_bias(kernel, of_bias, kernel[1] * groups, "Given transposed=1, weight of size")
    _check_dtypes(input, weight, bias)
    if any(not 0 <= e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            f"output_padding: {list(extra)} stride: {list(strides)} dilation: {list(dilations)}"
        )


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv1d`` to its input, as a layer: (N, C, L) with ``weight`` (C, O/groups, K).

    >>> import jtorch
    >>> jtorch.nn.functional.conv_transpose1d(jtorch.tensor([[[1.0, 2.0]]]), jtorch.ones(1, 1, 2), stride=2)
    tensor([[[1., 1., 2., 2.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose1d.html

    >>> import jtorch
    >>> jtorch.conv_transpose1d(jtorch.tensor([[1.0, 2.0]]), jtorch.tensor([[[1.0, 10.0]]]))
    tensor([[ 1., 12., 20.]])
    """
    return _convolve_transposed(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv2d`` to its input, as a layer: (N, C, H, W) with ``weight`` (C, O/groups,
    KH, KW).

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.conv_transpose2d(jtorch.zeros(1, 8, 14, 14), jtorch.zeros(8, 3, 2, 2), stride=2).shape
    torch.Size([1, 3, 28, 28])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose2d.html

    >>> import jtorch
    >>> jtorch.conv_transpose2d(jtorch.ones(1, 2, 2), jtorch.ones(1, 1, 2, 2)).tolist()
    [[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]
    """
    return _convolve_transposed(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv3d`` to its input, as a layer.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.conv_transpose3d(jtorch.zeros(1, 8, 3, 4, 5), jtorch.zeros(8, 3, 2, 2, 2), stride=2).shape
    torch.Size([1, 3, 6, 8, 10])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose3d.html

    >>> import jtorch
    >>> jtorch.conv_transpose3d(jtorch.ones(1, 2, 2, 2), jtorch.ones(1, 3, 2, 2, 2)).shape
    torch.Size([3, 3, 3, 3])
    """
    return _convolve_transposed(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
