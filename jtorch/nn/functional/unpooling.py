"""Max pooling undone, as far as the places of the largest elements tell.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#pooling-functions
"""

from __future__ import annotations

import math
from typing import Any

from jtorch.core.dtypes import int64
from jtorch.eager.public import Tensor, arange, autocasts, ops, zeros
from jtorch.nn.functional.pooling import Numbers, Sizes, spread


def _max_unpool(
    rank: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Any,
    padding: Sizes,
    output_size: Any,
) -> Tensor:
    name = f"max_unpool{rank}d"
    kernel = spread(name, "kernel_size", kernel_size, rank)
    strides = kernel if stride is None else spread(name, "stride", stride, rank)
    border = spread(name, "padding", padding, rank)
    if indices.dtype is not int64:
        raise RuntimeError("elements in indices should be type int64")
    if input.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got "
            f"indices tensor with shape: {list(indices.shape)}"
        )
    plain = tuple(
        (n - 1) * s - 2 * p + k
        for n, s, p, k in zip(input.shape[-rank:], strides, border, kernel, strict=True)
    )
    sizes = plain if output_size is None else _asked_sizes(tuple(output_size), plain, strides)
    rows = math.prod(input.shape[:-rank])
    flat = indices.reshape(rows, math.prod(input.shape[-rank:]))
    which = arange(rows, device=flat.device).reshape(rows, 1).expand(flat.shape)
    empty = zeros((rows, math.prod(sizes)), dtype=input.dtype, device=input.device)
    out = ops.index_put(empty, input.reshape(flat.shape), which, flat, axes=(0, 1))
    return out.reshape(*input.shape[:-rank], *sizes)


def _asked_sizes(asked: Numbers, plain: Numbers, strides: Numbers) -> Numbers:
    rank = len(plain)
    if len(asked) == rank + 2:
        asked = asked[2:]
    if len(asked) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length "
            f"of '{len(asked)}'"
        )
    for dim, (n, m, s) in enumerate(zip(asked, plain, strides, strict=True)):
        if not m - s < n < m + s:
            raise ValueError(f'invalid output_size "{asked}" (dim {dim} must be between {m - s} and {m + s})')
    return asked


@autocasts(cpu="float32")
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Zeros with the elements of ``input`` where ``max_pool1d(return_indices=True)`` found them.

    >>> import jtorch
    >>> jtorch.nn.functional.max_unpool1d(jtorch.tensor([[[5.0, 4.0]]]), jtorch.tensor([[[1, 3]]]), 2)
    tensor([[[0., 5., 0., 4.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_unpool1d.html
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@autocasts(cpu="float32")
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Zeros with the elements of ``input`` where ``max_pool2d(return_indices=True)`` found them.

    >>> import jtorch
    >>> jtorch.nn.functional.max_unpool2d(jtorch.tensor([[[[4.0]]]]), jtorch.tensor([[[[2]]]]), 2)
    tensor([[[[0., 0.],
              [4., 0.]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_unpool2d.html
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@autocasts(cpu="float32")
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Zeros with the elements of ``input`` where ``max_pool3d(return_indices=True)`` found them.

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.max_unpool3d(jtorch.full((1, 1, 1, 1, 1), 7.0), jtorch.full((1, 1, 1, 1, 1), 6), 2).flatten()
    tensor([0., 0., 0., 0., 0., 0., 7., 0.])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_unpool3d.html
    """
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
