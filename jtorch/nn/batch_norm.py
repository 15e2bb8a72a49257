"""Normalisation of channels by the statistics of the batch or of each example."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from jtorch.core.dtypes import float32
from jtorch.eager.public import Tensor, empty, ones, tensor, zeros
from jtorch.nn import functional as F, init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter

_INT64 = tensor(0).dtype


class _Norm(Module):
    """Parameters (C,) where ``affine``, and running statistics where ``track_running_stats``."""

    _version = 2  # the first had no num_batches_tracked

    def __init__(
        self, num_features: int, eps: float, momentum: float | None, affine: bool, track_running_stats: bool,
        device: Any, dtype: Any, bias: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        tracked = track_running_stats
        self.register_buffer(
            "running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None
        )
        self.register_buffer(
            "running_var", ones(num_features, device=device, dtype=dtype) if tracked else None
        )
        self.register_buffer(
            "num_batches_tracked", tensor(0, dtype=_INT64, device=device) if tracked else None
        )
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _upgrade_state_dict(self, state_dict: Any, prefix: str, version: int | None) -> None:
        if (version is None or version < 2) and self.num_batches_tracked is not None:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Norm):
    ranks: ClassVar[tuple[int, ...]]
    expected: ClassVar[str]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.ranks:
            raise ValueError(f"expected {self.expected} input (got {input.ndim}D input)")
        follows = self.training and self.track_running_stats
        momentum = self._next_momentum(input) if follows else 0.0
        used = follows or not self.training
        return F.batch_norm(
            input, self.running_mean if used else None, self.running_var if used else None, self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None), momentum, self.eps,
        )  # fmt: skip

    def _next_momentum(self, input: Tensor) -> Any:
        """Count this batch; how far it moves the running statistics."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches; a tensor, so that compiled code follows it
                dtype = input.dtype if input.dtype.itemsize > 2 else float32  # 16 bits count to 2,048
                return 1.0 / self.num_batches_tracked.to(dtype)
        return 0.0 if self.momentum is None else self.momentum


class BatchNorm1d(_BatchNorm):
    """Each channel of (N, C) or (N, C, L) to mean 0 and variance 1 over the batch, then scaled and shifted.

    In training running statistics follow the batch's by ``momentum`` (None: their mean over all batches); in
    evaluation they are used. Raises ValueError for other numbers of dims. Source: Ioffe and Szegedy 2015,
    arXiv:1502.03167.

    >>> import jtorch
    >>> layer = jtorch.nn.BatchNorm1d(1)
    >>> layer(jtorch.tensor([[0.0], [4.0]])).round(decimals=3).tolist()
    [[-1.0], [1.0]]
    >>> layer.running_mean  # a tenth of the way from 0 to the batch's mean 2
    tensor([0.2000])
    """

    ranks, expected = (2, 3), "2D or 3D"


class BatchNorm2d(_BatchNorm):
    """``BatchNorm1d`` of images (N, C, H, W).

    >>> import jtorch
    >>> layer = jtorch.nn.BatchNorm2d(3)
    >>> out = layer(jtorch.randn(8, 3, 4, 4) * 5 + 2)
    >>> jtorch.allclose(out.std((0, 2, 3), unbiased=False), jtorch.ones(3), atol=1e-3)
    True

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
    """

    ranks, expected = (4,), "4D"


class BatchNorm3d(_BatchNorm):
    """``BatchNorm1d`` of volumes (N, C, D, H, W).

    >>> import jtorch
    >>> jtorch.nn.BatchNorm3d(4)(jtorch.zeros(2, 4, 3, 8, 8)).shape
    torch.Size([2, 4, 3, 8, 8])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm3d.html
    """

    ranks, expected = (5,), "5D"


class _InstanceNorm(_Norm):
    alone: ClassVar[int]  # dims of one example without a batch dim
    expected: ClassVar[str]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self.alone, self.alone + 1):
            raise ValueError(f"expected {self.expected} input (got {input.ndim}D input)")
        dim = input.ndim - self.alone
        if input.shape[dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), but "
                    "got: "
                    f"{input.shape[dim]}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by "
                "not passing "
                "in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        batch = input.unsqueeze(0) if dim == 0 else input
        out = F.instance_norm(
            batch, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip
        return out.squeeze(0) if dim == 0 else out


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each example of (N, C, L) to mean 0 and variance 1. Source: arXiv:1607.08022.

    >>> import jtorch
    >>> jtorch.nn.InstanceNorm1d(1)(jtorch.tensor([[[0.0, 4.0]], [[10.0, 30.0]]])).round(decimals=3).tolist()
    [[[-1.0, 1.0]], [[-1.0, 1.0]]]
    """

    alone, expected = 2, "2D or 3D"


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each image of (N, C, H, W) to mean 0 and variance 1. Source: arXiv:1607.08022.

    >>> import jtorch
    >>> out = jtorch.nn.InstanceNorm2d(3)(jtorch.randn(8, 3, 4, 4) * 5 + 2)
    >>> jtorch.allclose(out.mean((2, 3)), jtorch.zeros(8, 3), atol=1e-5)
    True
    """

    alone, expected = 3, "3D or 4D"


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each volume of (N, C, D, H, W) to mean 0 and variance 1. Source: arXiv:1607.08022.

    >>> import jtorch
    >>> jtorch.nn.InstanceNorm3d(4)(jtorch.zeros(2, 4, 3, 8, 8)).shape
    torch.Size([2, 4, 3, 8, 8])
    """

    alone, expected = 4, "4D or 5D"
