"""Initial values of parameters. Each function overwrites its tensor in place and returns it.

Source: https://docs.pytorch.org/docs/stable/nn.init.html
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core.dtypes import float64
from jtorch.core.number_ranges import is_number
from jtorch.eager.public import Tensor, no_grad, ops, rand, randn, randperm, tensor
from jtorch.ops.xp import qr

_PLAIN_GAIN = (
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "sigmoid",
)  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """How much ``nonlinearity`` shrinks its input, to be made good by the weights before it.

    ``param`` is the negative slope of leaky_relu. Raises ValueError for a name it does not know.

    >>> import jtorch
    >>> jtorch.nn.init.calculate_gain("relu")  # the root of 2
    1.4142135623730951
    >>> jtorch.nn.init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity in _PLAIN_GAIN:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not is_number(slope):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def fans(tensor: Tensor) -> tuple[int, int]:
    """(inputs that meet in one output, outputs that one input reaches) of a weight (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return fans(tensor)[mode == "fan_out"]


def _overwrite(target: Tensor, values: Tensor) -> Tensor:
    with no_grad():
        return target.copy_(values)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform on [a, b).

    >>> import jtorch
    >>> w = jtorch.nn.init.uniform_(jtorch.empty(3, 5), a=2.0, b=3.0)
    >>> w.shape, bool(((w >= 2) & (w < 3)).all())
    (torch.Size([3, 5]), True)
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with the given mean and standard deviation.

    >>> import jtorch
    >>> w = jtorch.nn.init.normal_(jtorch.empty(1000), mean=3.0, std=0.0)
    >>> bool((w == 3).all())
    True
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """The same number everywhere.

    >>> import jtorch
    >>> jtorch.nn.init.constant_(jtorch.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros everywhere.

    >>> import jtorch
    >>> jtorch.nn.init.zeros_(jtorch.nn.Linear(3, 2).bias).tolist()
    [0.0, 0.0]
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones everywhere.

    >>> import jtorch
    >>> jtorch.nn.init.ones_(jtorch.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix. Raises ValueError unless the tensor has two dims.

    >>> import jtorch
    >>> jtorch.nn.init.eye_(jtorch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _overwrite(tensor, _from_numpy(np.eye(*tensor.shape), tensor))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform with standard deviation gain sqrt(2 / (fan_in + fan_out)). Glorot and Bengio 2010.

    >>> import jtorch
    >>> w = jtorch.nn.init.xavier_uniform_(jtorch.empty(2, 4))
    >>> bool((w.abs() <= 1).all())  # sqrt(3) times the deviation sqrt(2 / (2 + 4))
    True
    """
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)). Glorot and Bengio 2010.

    >>> import jtorch
    >>> w = jtorch.nn.init.xavier_normal_(jtorch.empty(100, 100))
    >>> abs(w.std().item() - 0.1) < 0.01  # sqrt(2 / 200)
    True
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def _is_empty(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Uniform with standard deviation gain / sqrt(fan); ``a`` is leaky_relu's slope. He et al. 2015.

    >>> import jtorch
    >>> w = jtorch.nn.init.kaiming_uniform_(jtorch.empty(5, 6), nonlinearity="relu")
    >>> bool((w.abs() <= 1).all())  # sqrt(3) times the deviation sqrt(2 / 6)
    True
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan); ``a`` is leaky_relu's slope. He et al. 2015.

    >>> import jtorch
    >>> w = jtorch.nn.init.kaiming_normal_(jtorch.empty(100, 200), nonlinearity="relu")
    >>> abs(w.std().item() - 0.1) < 0.01  # sqrt(2 / 200)
    True
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Rows (or columns, where there are fewer) orthogonal and of length ``gain``. Saxe et al. 2013.

    >>> import jtorch
    >>> w = jtorch.nn.init.orthogonal_(jtorch.empty(3, 5))
    >>> jtorch.allclose(w @ w.T, jtorch.eye(3), atol=1e-5)
    True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    flat = randn(rows, columns, generator=generator).numpy().astype(np.float64)
    q, r = qr(flat.T if rows < columns else flat, complete=False)
    q = q * np.sign(np.diagonal(r))  # without this the distribution is not uniform
    values = gain * (q.T if rows < columns else q).reshape(tensor.shape)
    return _overwrite(tensor, _from_numpy(values, tensor))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Normal, limited to [a, b]: the inverse distribution function of one uniform draw each.

    >>> import jtorch
    >>> w = jtorch.nn.init.trunc_normal_(jtorch.empty(1000), a=-0.5, b=0.5)
    >>> bool((w.abs() <= 0.5).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may "
            "be incorrect.",
            stacklevel=2,
        )
    from scipy import special

    mean, std, a, b = map(float, (mean, std, a, b))
    draws: Any = rand(*tensor.shape, dtype=float64, generator=generator)
    low, high = special.ndtr((a - mean) / std), special.ndtr((b - mean) / std)
    if low > 0.5:  # both in the upper tail, where 1 - p keeps no digits: the mirrored tail does
        low, high = special.ndtr((mean - b) / std), special.ndtr((mean - a) / std)
        values = mean - std * ops.ndtri(low + draws * (high - low))
    else:
        values = mean + std * ops.ndtri(low + draws * (high - low))
    return _overwrite(tensor, values.clamp(a, b))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal, with a share ``sparsity`` of each column, chosen at random, set to 0. Martens 2010.

    >>> import jtorch
    >>> w = jtorch.nn.init.sparse_(jtorch.empty(10, 3), sparsity=0.2)
    >>> (w == 0).sum(0)  # two of ten in each column
    tensor([2, 2, 2])
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    values = (randn(rows, columns, dtype=tensor.dtype, generator=generator) * std).numpy()
    for column in range(columns):
        values[randperm(rows).numpy()[: math.ceil(sparsity * rows)], column] = 0
    return _overwrite(tensor, _from_numpy(values, tensor))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights that pass on as many channels as possible, in each of ``groups``.

    >>> import jtorch
    >>> w = jtorch.nn.init.dirac_(jtorch.empty(2, 2, 3))
    >>> jtorch.nn.functional.conv1d(jtorch.tensor([[1.0, 2.0], [3.0, 4.0]]), w, padding=1)  # as it was
    tensor([[1., 2.],
            [3., 4.]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    each = tensor.shape[0] // groups
    values = np.zeros(tuple(tensor.shape))
    centre = tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(each, tensor.shape[1])):
            values[(group * each + channel, channel, *centre)] = 1
    return _overwrite(tensor, _from_numpy(values, tensor))


def _from_numpy(values: np.ndarray, like: Tensor) -> Tensor:
    return tensor(values, dtype=like.dtype)


def _older(function: Callable) -> Callable:
    """``function`` under its name without the underscore, with PyTorch's warning."""
    name = function.__name__[:-1]

    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    deprecated.__name__ = deprecated.__qualname__ = name
    return deprecated


uniform, normal, constant, eye = _older(uniform_), _older(normal_), _older(constant_), _older(eye_)
dirac, sparse, orthogonal = _older(dirac_), _older(sparse_), _older(orthogonal_)
xavier_uniform, xavier_normal = _older(xavier_uniform_), _older(xavier_normal_)
kaiming_uniform, kaiming_normal = _older(kaiming_uniform_), _older(kaiming_normal_)
_calculate_fan_in_and_fan_out, _calculate_correct_fan = fans, _fan  # the names that user code knows
