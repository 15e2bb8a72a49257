"""Convolutions and batch normalisations that learn their number of channels from their first input.

Source: https://docs.pytorch.org/docs/stable/nn.html#lazy-modules-initialization
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor, tensor
from jtorch.nn import batch_norm, conv
from jtorch.nn.lazy import LazyModuleMixin
from jtorch.nn.parameter import UninitializedBuffer, UninitializedParameter


class _LazyConv(LazyModuleMixin):
    """The arguments are the convolution's without ``in_channels``."""

    def __init__(self, out_channels: int, *args: Any, bias: bool = True, **kwargs: Any) -> None:
        self._before_super(*args)
        super().__init__(0, 0, *args, bias=False, **kwargs)
        module: Any = self
        module.out_channels = out_channels
        facts: dict[str, Any] = {k: kwargs.get(k) for k in ("device", "dtype")}
        module.weight = UninitializedParameter(**facts)
        if bias:
            module.bias = UninitializedParameter(**facts)

    def _before_super(self, *args: Any) -> None:
        if len(args) > 5:
            raise TypeError(
                f"{type(self).__name__}: give what comes after the fifth argument by keyword, e.g. bias=False"
            )

    def reset_parameters(self) -> None:
        module: Any = self
        if not self.has_uninitialized_params() and module.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        module: Any = self
        alone = module.rank + 1
        if input.ndim not in (alone, alone + 1):
            raise RuntimeError(
                f"Expected {alone}D (unbatched) or {alone + 1}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {input.shape}"
            )
        channels = input.shape[1] if input.ndim > alone else input.shape[0]
        if channels % module.groups:
            raise ValueError("in_channels must be divisible by groups")
        module.in_channels = channels
        ends = (module.out_channels, channels // module.groups)
        if module.transposed:
            ends = (channels, module.out_channels // module.groups)
        module.weight.materialize((*ends, *module.kernel_size))
        if module.bias is not None:
            module.bias.materialize((module.out_channels,))
        self.reset_parameters()


class LazyConv1d(_LazyConv, conv.Conv1d):
    """A Conv1d whose ``in_channels`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyConv1d(8, kernel_size=3)
    >>> layer(jtorch.zeros(1, 4, 10)).shape, layer.in_channels
    (torch.Size([1, 8, 8]), 4)
    """

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyConv, conv.Conv2d):
    """A Conv2d whose ``in_channels`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyConv2d(8, kernel_size=3, padding=1)
    >>> layer(jtorch.zeros(1, 3, 28, 28)).shape, layer.in_channels
    (torch.Size([1, 8, 28, 28]), 3)
    """

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyConv, conv.Conv3d):
    """A Conv3d whose ``in_channels`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyConv3d(8, kernel_size=1)
    >>> layer(jtorch.zeros(1, 2, 3, 4, 5)).shape, layer.in_channels
    (torch.Size([1, 8, 3, 4, 5]), 2)
    """

    cls_to_become = conv.Conv3d


class LazyConvTranspose1d(_LazyConv, conv.ConvTranspose1d):
    """A ConvTranspose1d whose ``in_channels`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyConvTranspose1d(8, kernel_size=2, stride=2)
    >>> layer(jtorch.zeros(1, 4, 10)).shape, layer.in_channels
    (torch.Size([1, 8, 20]), 4)
    """

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyConv, conv.ConvTranspose2d):
    """A ConvTranspose2d whose ``in_channels`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyConvTranspose2d(3, kernel_size=2, stride=2)
    >>> layer(jtorch.zeros(1, 8, 14, 14)).shape, layer.in_channels
    (torch.Size([1, 3, 28, 28]), 8)
    """

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyConv, conv.ConvTranspose3d):
    """A ConvTranspose3d whose ``in_channels`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyConvTranspose3d(3, kernel_size=2, stride=2)
    >>> layer(jtorch.zeros(1, 2, 3, 4, 5)).shape, layer.in_channels
    (torch.Size([1, 3, 6, 8, 10]), 2)
    """

    cls_to_become = conv.ConvTranspose3d


class _LazyNorm(LazyModuleMixin):
    """The arguments are the normalisation's without ``num_features``."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        module: Any = self
        module.affine = affine
        module.track_running_stats = track_running_stats
        if module.affine:
            module.weight = UninitializedParameter(device=device, dtype=dtype)
            module.bias = UninitializedParameter(device=device, dtype=dtype) if bias else None
        if module.track_running_stats:
            module.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            module.running_var = UninitializedBuffer(device=device, dtype=dtype)
            module.num_batches_tracked = tensor(0)

    def reset_parameters(self) -> None:
        module: Any = self
        if not self.has_uninitialized_params() and module.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            return
        module: Any = self
        module.num_features = input.shape[1]
        waiting = [p for p in (module.weight, module.bias) if p is not None] if module.affine else []
        if module.track_running_stats:
            waiting += [module.running_mean, module.running_var]
        for held in waiting:
            held.materialize((module.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, batch_norm.BatchNorm1d):
    """A BatchNorm1d whose ``num_features`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyBatchNorm1d()
    >>> layer(jtorch.zeros(4, 10)).shape, layer.num_features
    (torch.Size([4, 10]), 10)
    """

    cls_to_become = batch_norm.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, batch_norm.BatchNorm2d):
    """A BatchNorm2d whose ``num_features`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyBatchNorm2d()
    >>> layer(jtorch.zeros(4, 3, 8, 8)).shape, layer.num_features
    (torch.Size([4, 3, 8, 8]), 3)
    """

    cls_to_become = batch_norm.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, batch_norm.BatchNorm3d):
    """A BatchNorm3d whose ``num_features`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyBatchNorm3d()
    >>> layer(jtorch.zeros(4, 2, 3, 4, 5)).shape, layer.num_features
    (torch.Size([4, 2, 3, 4, 5]), 2)
    """

    cls_to_become = batch_norm.BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, batch_norm.InstanceNorm1d):
    """An InstanceNorm1d whose ``num_features`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyInstanceNorm1d()
    >>> layer(jtorch.zeros(4, 3, 10)).shape, layer.num_features
    (torch.Size([4, 3, 10]), 3)
    """

    cls_to_become = batch_norm.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, batch_norm.InstanceNorm2d):
    """An InstanceNorm2d whose ``num_features`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyInstanceNorm2d()
    >>> layer(jtorch.zeros(4, 3, 8, 8)).shape, layer.num_features
    (torch.Size([4, 3, 8, 8]), 3)
    """

    cls_to_become = batch_norm.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, batch_norm.InstanceNorm3d):
    """An InstanceNorm3d whose ``num_features`` its first input tells.

    >>> import jtorch
    >>> layer = jtorch.nn.LazyInstanceNorm3d()
    >>> layer(jtorch.zeros(4, 2, 3, 4, 5)).shape, layer.num_features
    (torch.Size([4, 2, 3, 4, 5]), 2)
    """

    cls_to_become = batch_norm.InstanceNorm3d
