"""Windows reduced to their largest element, their mean or their norm.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#pooling-functions
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core.dtypes import int64
from jtorch.core.sizes import below
from jtorch.eager.public import Tensor, arange, autocasts, functions, long_name, ones, ops
from jtorch.nn.functional.padding import pad
from jtorch.nn.functional.remembered import remembered

Sizes = int | Sequence[int]
_COUNTED = {1: "one", 2: "two ints", 3: "three ints"}


def spread(name: str, what: str, value: Any, rank: int) -> tuple[int, ...]:
    """A number, or one per spatial dim, as ``rank`` numbers; an error says ``what`` has too many."""
    if isinstance(value, int):
        return (value,) * rank
    numbers = tuple(int(v) for v in value)
    if len(numbers) not in (1, rank):
        if name == "max_pool1d":
            sort = "None, an int, list of ints," if what == "stride" else "an int, list of ints"
            raise RuntimeError(
                f"max_pool1d() {what} must be {sort} or tuple of ints of size 1 but got size {len(numbers)}"
            )
        if rank == 1:
            raise RuntimeError(f"{name}() argument '{what}' should contain one int (got {len(numbers)})")
        ways = "be omitted, a single int" if what == "stride" else "be a single int"
        raise RuntimeError(f"{name}: {what} must either {ways}, or a tuple of {_COUNTED[rank]}")
    return numbers if len(numbers) == rank else numbers * rank


def _check_rank(name: str, rank: int, input: Tensor) -> None:
    if input.ndim in (rank + 1, rank + 2):
        return
    if name == "max_pool1d":
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but "
            f"got:{list(input.shape)}"
        )
    if rank == 1:
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument #1 'self' "
            f"(while checking arguments for {name})"
        )
    raise RuntimeError(f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input")


@remembered
def _geometry(
    name: str, rank: int, shape: tuple[int, ...], kernel_size: Sizes, stride: Any, padding: Sizes,
    dilation: Sizes, ceil_mode: bool,
) -> dict[str, tuple[int, ...]]:  # fmt: skip
    """kernel, stride, padding, dilation and the number of windows, per spatial dim."""
    kernel = spread(name, "kernel_size", kernel_size, rank)
    omitted = stride is None or stride == () or stride == []
    strides = kernel if omitted else spread(name, "stride", stride, rank)
    border, dilations = spread(name, "padding", padding, rank), spread(name, "dilation", dilation, rank)
    (_check_line if name == "max_pool1d" else _check_numbers)(rank, kernel, strides, border, dilations)
    places = tuple(
        _count(n, k, s, p, d, ceil_mode)
        for n, k, s, p, d in zip(shape[-rank:], kernel, strides, border, dilations, strict=True)
    )
    if below(places, 1):
        if name == "max_pool1d":
            raise RuntimeError(f"max_pool1d() Invalid computed output size: {places[0]}")
        axes = (1,) * (2 - rank)  # PyTorch pools sequences as images of one row
        before = "x".join(map(str, (shape[-rank - 1], *axes, *shape[-rank:])))
        after = "x".join(map(str, (shape[-rank - 1], *axes, *(max(n, 0) for n in places))))
        raise RuntimeError(
            f"Given input size: ({before}). Calculated output size: ({after}). Output size is too small"
        )
    return {"kernel": kernel, "stride": strides, "padding": border, "dilation": dilations, "places": places}


def _count(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """How many windows; with ``ceil_mode`` also one that only begins inside the input or its left border."""
    count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    return count - 1 if ceil_mode and (count - 1) * s >= n + p else count


Numbers = tuple[int, ...]


def _check_numbers(rank: int, kernel: Numbers, strides: Numbers, border: Numbers, dilations: Numbers) -> None:
    if min(strides) == 0:
        raise RuntimeError("stride should not be zero")
    if min(*kernel, *strides) < 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got {list(kernel)}")
    if min(dilations) < 1:
        named = zip("THW"[-rank:], dilations, strict=True)
        raise RuntimeError(
            "dilation should be greater than zero, but got " + " ".join(f"dilation{c}: {d}" for c, d in named)
        )
    for p, k, d in zip(border, kernel, dilations, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )


def _check_line(rank: int, kernel: Numbers, strides: Numbers, border: Numbers, dilations: Numbers) -> None:
    (k,), (s,), (p,), (d,) = kernel, strides, border, dilations
    for name, value in (("kernel_size", k), ("stride", s)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {name} must be greater than zero, but got {value}")
    if p < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {p}")
    if p > k // 2:
        raise RuntimeError(
            f"max_pool1d() padding should be at most half of kernel size, but got padding={p} and "
            f"kernel_size={k}"
        )
    if d <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {d}")


# -- the largest ------------------------------------------------------------------------------------------


def _max_pool(
    name: str, rank: int, input: Tensor, kernel_size: Sizes, stride: Any, padding: Sizes, dilation: Sizes,
    ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    _check_rank(name, rank, input)
    at = _geometry(name, rank, input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    alone = input.ndim == rank + 1
    batch = input.unsqueeze(0) if alone else input
    out, place = ops.max_pool(batch, **at)
    if alone:
        out = out.squeeze(0)
    if not return_indices:
        return out
    index = _flat_index(place, tuple(input.shape[-rank:]), at)
    return out, index.squeeze(0) if alone else index


_wide_max_pool = autocasts(cpu="float32")(_max_pool)


def _flat_index(place: Tensor, sizes: Numbers, at: dict[str, Numbers]) -> Tensor:
    """Where in the flattened image an element is that has ``place`` in its window."""
    left: Any = place.long()
    index: Any = 0
    step = 1
    for axis in reversed(range(len(sizes))):
        k = at["kernel"][axis]
        shape = [-1 if a == axis else 1 for a in range(len(sizes))]
        start = arange(at["places"][axis], device=place.device).reshape(shape)
        start = start * at["stride"][axis] - at["padding"][axis]
        index = index + (start + left % k * at["dilation"][axis]) * step
        left = left // k
        step *= sizes[axis]
    return index


def max_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of sequences (N, C, L) or (C, L); borders count as -inf.

    With ``return_indices`` a pair: also where it was. Raises RuntimeError where no window fits.

    >>> import jtorch
    >>> jtorch.nn.functional.max_pool1d(jtorch.tensor([[[1.0, 5.0, 2.0, 4.0]]]), 2)
    tensor([[[5., 4.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool1d.html

    >>> import jtorch
    >>> jtorch.max_pool1d(jtorch.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[3., 7.]])
    """
    return _max_pool(
        "max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def max_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of images (N, C, H, W) or (C, H, W); borders count as -inf.

    With ``return_indices`` a pair: also where it was in the flattened image.

    >>> import jtorch
    >>> jtorch.nn.functional.max_pool2d(jtorch.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html

    >>> import jtorch
    >>> jtorch.max_pool2d(jtorch.arange(4.0).reshape(1, 2, 2), 2).tolist()
    [[[3.0]]]
    """
    return _max_pool(
        "max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def max_pool3d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of volumes (N, C, D, H, W) or (C, D, H, W).

    >>> import jtorch
    >>> jtorch.nn.functional.max_pool3d(jtorch.arange(8.0).reshape(1, 1, 2, 2, 2), 2).item()
    7.0

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool3d.html
    """
    pooled = _max_pool if return_indices else _wide_max_pool  # autocast knows the one without indices
    return pooled("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _with_indices(function: Callable, rank: int) -> Callable:
    def both(
        input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return function(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    both.__name__ = both.__qualname__ = f"{function.__name__}_with_indices"
    both.__doc__ = f"""``{function.__name__}`` with ``return_indices``.

    >>> import jtorch
    >>> row = jtorch.tensor([1.0, 5.0, 2.0, 4.0]).reshape({"1, " * (rank + 1)}4)
    >>> out, indices = jtorch.nn.functional.{both.__name__}(row, {(1,) * (rank - 1) + (2,)})
    >>> out.flatten(), indices.flatten()
    (tensor([5., 4.]), tensor([1, 3]))
    """
    return both


# -- the mean ---------------------------------------------------------------------------------------------


def _avg_pool(
    name: str, rank: int, input: Tensor, kernel_size: Sizes, stride: Any, padding: Sizes, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    if not input.is_floating_point() and input.dtype is not int64:
        kernel = "avg_pool3d_out_frame" if rank == 3 else "avg_pool2d"  # PyTorch's, of sequences, too
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{long_name(input.dtype.numpy)}': convert to a float dtype, "
            "or to int64, whose means are whole numbers"
        )
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    _check_rank(name, rank, input)
    at = dict(_geometry(name, rank, input.shape, kernel_size, stride, padding, 1, ceil_mode))
    del at["dilation"]
    alone = input.ndim == rank + 1
    average = ops.avg_pool if input.is_floating_point() else _whole_means
    out = average(
        input.unsqueeze(0) if alone else input,
        **at, count_borders=bool(count_include_pad), divisor=int(divisor_override or 0),
    )  # fmt: skip
    return out.squeeze(0) if alone else out


def _whole_means(
    x: Tensor, kernel: Numbers, stride: Numbers, padding: Numbers, places: Numbers, count_borders: bool,
    divisor: int,
) -> Tensor:  # fmt: skip
    """Means of int64, without their fractions, as PyTorch has them."""
    sizes = tuple(x.shape[-len(kernel) :])
    extents = tuple((n - 1) * s + k for n, s, k in zip(places, stride, kernel, strict=True))
    total = _window_sums(x, padding, extents, kernel, stride)
    if divisor:
        return functions.div(total, divisor, rounding_mode="trunc")
    borders = tuple(2 * p for p in padding) if count_borders else (0,) * len(kernel)
    counted = ones((1, 1, *(n + b for n, b in zip(sizes, borders, strict=True))), dtype=int64)
    before = (0,) * len(kernel) if count_borders else padding
    counts = _window_sums(counted, before, extents, kernel, stride)
    return functions.div(total, counts, rounding_mode="trunc")


def _window_sums(x: Tensor, before: Numbers, extents: Numbers, kernel: Numbers, stride: Numbers) -> Tensor:
    """The sums of all windows of ``x``, with zeros ``before`` it, up to ``extents``."""
    sizes = x.shape[-len(kernel) :]
    after = [max(e - b - n, 0) for e, b, n in zip(extents, before, sizes, strict=True)]
    widths = [w for pair in zip(reversed(before), reversed(after), strict=True) for w in pair]
    seen: Any = ops.windows(pad(x, widths), kernel=kernel, stride=stride, dilation=(1,) * len(kernel))
    return seen.sum(tuple(range(-len(kernel), 0)))


def avg_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window of sequences (N, C, L) or (C, L).

    >>> import jtorch
    >>> jtorch.nn.functional.avg_pool1d(jtorch.tensor([[[1.0, 5.0, 2.0, 4.0]]]), 2)
    tensor([[[3., 3.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool1d.html

    >>> import jtorch
    >>> jtorch.avg_pool1d(jtorch.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window of images (N, C, H, W) or (C, H, W).

    >>> import jtorch
    >>> jtorch.nn.functional.avg_pool2d(jtorch.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool2d.html
    """
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@autocasts(cpu="float32")
def avg_pool3d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window of volumes (N, C, D, H, W) or (C, D, H, W).

    >>> import jtorch
    >>> jtorch.nn.functional.avg_pool3d(jtorch.arange(8.0).reshape(1, 1, 2, 2, 2), 2).item()
    3.5

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool3d.html
    """
    return _avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


# -- the norm ---------------------------------------------------------------------------------------------


def _lp_pool(
    rank: int, input: Tensor, norm_type: float, kernel_size: Sizes, stride: Any, ceil_mode: bool
) -> Tensor:
    name = f"avg_pool{rank}d"
    if norm_type in (math.inf, -math.inf):  # the limits: the largest and the smallest absolute value
        largest: Any = (max_pool1d, max_pool2d, max_pool3d)[rank - 1]
        sign = 1 if norm_type > 0 else -1
        return sign * largest(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    kernel = spread(name, "kernel_size", kernel_size, rank)
    powers: Any = input**norm_type
    average: Any = (avg_pool1d, avg_pool2d, avg_pool3d)[rank - 1]
    mean: Any = average(powers, kernel, stride, 0, ceil_mode)
    # negative sums, of odd powers, count as 0
    return (mean.sign() * mean.abs().relu() * math.prod(kernel)) ** (1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: int | float, kernel_size: Sizes, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The ``norm_type``-norm of each window of sequences.

    >>> import jtorch
    >>> jtorch.nn.functional.lp_pool1d(jtorch.tensor([[[3.0, 4.0, 0.0, 1.0]]]), 2, kernel_size=2)
    tensor([[[5., 1.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.lp_pool1d.html
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: int | float, kernel_size: Sizes, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The ``norm_type``-norm of each window of images.

    >>> import jtorch
    >>> jtorch.nn.functional.lp_pool2d(jtorch.ones(1, 1, 2, 4), 2, kernel_size=2)
    tensor([[[[2., 2.]]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.lp_pool2d.html
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: int | float, kernel_size: Sizes, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The ``norm_type``-norm of each window of volumes.

    >>> import jtorch
    >>> jtorch.nn.functional.lp_pool3d(jtorch.ones(1, 1, 2, 2, 2), 1, kernel_size=2).item()
    8.0

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.lp_pool3d.html
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = map(
    _with_indices, (max_pool1d, max_pool2d, max_pool3d), (1, 2, 3)
)
