"""Fractional max-pooling as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from jtorch.eager.public import Tensor
from jtorch.nn import functional as F
from jtorch.nn.conv import per_dim
from jtorch.nn.module import Module


class _FractionalMaxPool(Module):
    pool: ClassVar[Callable]
    rank: ClassVar[int]
    _random_samples: Tensor | None

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        self.kernel_size = per_dim(kernel_size, self.rank)
        if self.rank == 3 and not all(k > 0 for k in self.kernel_size):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_dim(output_size, self.rank)
        self.output_ratio = None if output_ratio is None else per_dim(output_ratio, self.rank)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return type(self).pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of each window of images, at random places: (N, C, H, W) to ``output_size``, or to
    ``output_ratio`` of the size.

    >>> import jtorch
    >>> jtorch.nn.FractionalMaxPool2d(3, output_size=(13, 12))(jtorch.zeros(1, 16, 50, 32)).shape
    torch.Size([1, 16, 13, 12])
    >>> jtorch.nn.FractionalMaxPool2d(3, output_ratio=0.5)(jtorch.zeros(1, 16, 50, 32)).shape
    torch.Size([1, 16, 25, 16])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.FractionalMaxPool2d.html
    """

    pool, rank = staticmethod(F.fractional_max_pool2d), 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest element of each window of volumes, at random places: (N, C, T, H, W) to ``output_size``, or
    to ``output_ratio`` of the size.

    >>> import jtorch
    >>> jtorch.nn.FractionalMaxPool3d(3, output_size=(13, 12, 11))(jtorch.zeros(1, 2, 50, 32, 16)).shape
    torch.Size([1, 2, 13, 12, 11])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.FractionalMaxPool3d.html
    """

    pool, rank = staticmethod(F.fractional_max_pool3d), 3
