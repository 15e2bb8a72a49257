"""Normalisation by the statistics of a batch, an example, a group of channels or neighbouring channels.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, autocasts, finfo, functions, integer, no_grad, ops, widened
from jtorch.nn.functional.padding import bordered

layer_norm = functions.layer_norm


def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """The last dims, of ``normalized_shape``, over the root of their mean square; then scaled.

    ``eps`` defaults to the machine epsilon of the dtype. Raises RuntimeError for shapes that don't fit.

    >>> import jtorch
    >>> jtorch.nn.functional.rms_norm(jtorch.tensor([[3.0, 3.0], [-5.0, 5.0]]), (2,), eps=0.0)
    tensor([[ 1.,  1.],
            [-1.,  1.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if weight is not None and tuple(weight.shape) != shape:
        raise RuntimeError(
            f"Expected weight to be of same shape as normalized_shape, but got weight of shape "
            f"{list(weight.shape)} and normalized_shape = {list(shape)}"
        )
    first = input.ndim - len(shape)
    if first < 0 or tuple(input.shape[first:]) != shape or not shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*{', '.join(map(str, shape))}], but "
            f"got input of size{list(input.shape)}"
        )
    if eps is None:
        eps = finfo(input.dtype if input.dtype.itemsize > 2 else float32).eps  # 16 bits compute in 32
    return ops.rms_norm(input, weight, axes=tuple(range(first, input.ndim)), eps=dt.plain(eps))


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Each group of channels of (N, C, ...) to mean 0 and variance 1, then scaled and shifted per channel.

    Raises RuntimeError where groups or parameters don't fit the channels, ValueError for one value per group.

    >>> import jtorch
    >>> jtorch.nn.functional.group_norm(jtorch.tensor([[0.0, 4.0, 10.0, 30.0]]), 2).round(decimals=3)
    tensor([[-1.,  1., -1.,  1.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.group_norm.html
    """
    shape = list(input.shape)
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    integer("group_norm", "num_groups", num_groups)
    per_group = shape[0] * (shape[1] // num_groups) * math.prod(shape[2:])
    if per_group == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape}")
    if shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{shape} "
            f"and num_groups={num_groups}"
        )
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != (shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but "
                f"got {name} "
                f"of shape {list(t.shape)} and input of shape {shape}"
            )
    return ops.group_norm(input, weight, bias, groups=num_groups, eps=dt.plain(eps))


def _check_channels(channels: int, **vectors: Tensor | None) -> None:
    for name, t in vectors.items():
        if t is not None and math.prod(t.shape) != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {math.prod(t.shape)}")


def _follow(running: Tensor, value: Any, momentum: Any) -> None:
    """``running`` moved towards ``value`` by the fraction ``momentum``."""
    if running.dtype.itemsize < value.dtype.itemsize:  # the sum alone is rounded
        running.copy_(widened(running) * (1.0 - momentum) + value * momentum)
    else:
        running.mul_(1.0 - momentum).add_(value.to(running.dtype) * momentum)


def _follow_statistics(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Any,
    variance: Any,
    momentum: Any,
) -> None:
    """Let what is running follow the mean, and the unbiased estimate of the variance."""
    with no_grad():
        if running_mean is not None:
            _follow(running_mean, mean.detach(), momentum)
        if running_var is not None:
            _follow(running_var, variance.detach(), momentum)


def _unbiased(variance: Any, count: int) -> Any:
    """The unbiased estimate, of a variance that ``count`` values went into."""
    return variance.detach() * (count / max(count - 1, 1))


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of (N, C, ...) to mean 0 and variance 1 over the batch, then scaled and shifted.

    While ``training`` the running statistics follow the batch's by ``momentum`` (their variance is the
    unbiased
    one); else they are used in its place. Raises ValueError for one value per channel in training.

    >>> import jtorch
    >>> x, mean, var = jtorch.tensor([[1.0], [3.0]]), jtorch.tensor([1.0]), jtorch.tensor([4.0])
    >>> jtorch.nn.functional.batch_norm(x, mean, var, eps=0.0)  # (x - 1) / 2
    tensor([[0.],
            [1.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.batch_norm.html
    """
    if training:
        _check_enough(tuple(input.shape))
    if eps <= 0.0 and (training or eps < 0.0):
        wanted = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {wanted}, but got {eps}")
    if not input.is_floating_point():
        raise NotImplementedError(f"\"batch_norm\" not implemented for '{input.dtype}'")
    _check_channels(
        input.shape[1], running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    if not training:
        for name, running in (("running_mean", running_mean), ("running_var", running_var)):
            if running is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        return _with_statistics(input, running_mean, running_var, weight, bias, eps)
    out, mean, variance = ops.batch_norm(input, weight, bias, eps=dt.plain(eps))
    if input.numel() and (running_mean is not None or running_var is not None):
        count = math.prod(input.shape) // max(input.shape[1], 1)
        _follow_statistics(running_mean, running_var, mean, _unbiased(variance, count), momentum)
    return out


def _with_statistics(
    input: Tensor, mean: Any, variance: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Normalised by given statistics, to which no gradient flows."""
    mean = mean.detach() if mean.requires_grad else mean
    variance = variance.detach() if variance.requires_grad else variance
    return ops.batch_norm_with(input, mean, variance, weight, bias, eps=dt.plain(eps))


def _check_enough(shape: tuple[int, ...]) -> None:
    if shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size torch.Size({list(shape)})"
        )


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each example of (N, C, ...) to mean 0 and variance 1, then scaled and shifted.

    Running statistics follow the mean over the examples. Raises ValueError for one spatial element.

    >>> import jtorch
    >>> jtorch.nn.functional.instance_norm(jtorch.tensor([[[0.0, 4.0], [10.0, 30.0]]])).round(decimals=3)
    tensor([[[-1.,  1.],
             [-1.,  1.]]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.instance_norm.html
    """
    shape = tuple(input.shape)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when use_input_stats is false"
            )
        return _with_statistics(input, running_mean, running_var, weight, bias, eps)
    if math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size torch.Size({list(shape)})"
        )
    _check_channels(shape[1], running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    n, c = shape[:2]
    rows = input.reshape(1, n * c, *shape[2:])
    out, mean, variance = ops.batch_norm(rows, None, None, eps=dt.plain(eps))
    out = out.reshape(shape)
    spread = (-1, *(1,) * (len(shape) - 2))
    out = out if weight is None else out * weight.reshape(spread)
    out = (out if bias is None else out + bias.reshape(spread)).to(input.dtype)
    # only now: weight or bias may be a running statistic, too
    if running_mean is not None or running_var is not None:
        means, variances = (t.detach().reshape(n, c).mean(0) for t in (mean, variance))
        unbiased = _unbiased(variances, math.prod(shape[2:]))
        _follow_statistics(running_mean, running_var, means, unbiased, momentum)
    return out


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Each element over (k + alpha * mean square of ``size`` neighbouring channels) ** beta.

    Raises ValueError for fewer than 3 dims. Source: Krizhevsky et al. 2012 (NeurIPS 25).

    >>> import jtorch
    >>> import jtorch.nn.functional as F
    >>> F.local_response_norm(jtorch.tensor([[[1.0], [2.0]]]), 1, alpha=1.0, beta=1.0)  # x / (1 + x^2)
    tensor([[[0.5000],
             [0.4000]]])
    """
    if input.ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.ndim} "
            "dimensions)"
        )
    if operator.index(size) <= 0:
        raise RuntimeError("local_response_norm: size must be greater than zero")
    if math.prod(input.shape) == 0:
        return input
    around = [0, 0] * (input.ndim - 2) + [size // 2, (size - 1) // 2]
    add = _neighbours_added if input.ndim == 3 else _neighbours_added_wide
    total = add(bordered(input * input, around), size, input.shape[1])
    return input / (total * (alpha / size) + k) ** beta


def _neighbours_added(squares: Any, size: int, channels: int) -> Any:
    return sum(squares.narrow(1, place, channels) for place in range(size))


# of images and more: PyTorch pools volumes there, which its autocast computes in float32
_neighbours_added_wide = autocasts(cpu="float32")(_neighbours_added)
