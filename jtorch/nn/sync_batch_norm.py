"""Batch normalisation by the statistics of the batches of all processes.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
"""

from __future__ import annotations

from typing import Any

from jtorch.autograd import Function
from jtorch.compiler import is_compiling
from jtorch.eager.public import Tensor, functions, no_grad, tensor, zeros
from jtorch.nn import batch_norm
from jtorch.nn.functional.normalization import _follow_statistics
from jtorch.nn.module import Module


class SyncBatchNorm(batch_norm._BatchNorm):
    """``BatchNorm`` of (N, C, ...) whose mean and variance are those of all processes' batches together.

    Batches may differ in size. In evaluation, in one process and without a process group it is a plain batch
    norm. In a compiled function nobody looks whether there is more than one value per channel.

    >>> import jtorch
    >>> model = jtorch.nn.Sequential(jtorch.nn.Conv2d(3, 8, 3), jtorch.nn.BatchNorm2d(8))
    >>> jtorch.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
    SyncBatchNorm(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
    """

    ranks, expected = (2, 3, 4, 5), "at least 2D"

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None,
        *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        group = self._group()
        if group is None:
            return super().forward(input)
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")
        if input.shape[1] != self.num_features:
            raise RuntimeError(f"SyncBatchNorm: {input.shape[1]} channels, expected {self.num_features}")
        mean, variance, count = _statistics(input, group)
        out = _Normalized.apply(input, self.weight, self.bias, mean, variance, self.eps, count, group)
        if self.track_running_stats:
            momentum = self._next_momentum(input)
            unbiased = variance * (count / (count - 1))
            _follow_statistics(self.running_mean, self.running_var, mean, unbiased, momentum)
        return out

    def _group(self) -> Any:
        """The processes to share statistics with; None where a plain batch norm is meant."""
        import jtorch.distributed as dist

        if not self.training or not dist.is_initialized():
            return None
        group = self.process_group if self.process_group is not None else dist.group.WORLD
        return None if dist.get_world_size(group) < 2 else group

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """``module`` with each of its batch norms in the form for several processes.

        Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
        """
        made = module
        if isinstance(module, batch_norm._BatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine,
                       module.track_running_stats, process_group)  # fmt: skip
            for name in ("weight", "bias"):
                made.register_parameter(name, getattr(module, name))
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                made.register_buffer(name, getattr(module, name))
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


def _statistics(x: Tensor, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """(mean, variance, number of values) of each channel over all processes; in float32 at least."""
    import jtorch.distributed as dist

    with no_grad():
        rows = _wide(x.detach()).transpose(0, 1).reshape(x.shape[1], -1)
        count = rows.shape[1]
        mean = rows.mean(1) if count else zeros(x.shape[1], dtype=rows.dtype)
        squares = ((rows - mean.unsqueeze(1)) ** 2).sum(1)
        mine = functions.cat([mean, squares, tensor([float(count)], dtype=rows.dtype)])
        everyone = zeros(group.size(), mine.numel(), dtype=mine.dtype)
        dist.all_gather_into_tensor(everyone, mine, group)
        means, all_squares, counts = everyone.split([x.shape[1], x.shape[1], 1], 1)
        total = counts.sum()
        if not is_compiling() and total.item() < 2:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {tuple(x.shape)} in "
                "all processes together"
            )
        whole = (means * counts).sum(0) / total
        variance = (all_squares + counts * (means - whole) ** 2).sum(0) / total
    return whole, variance, total


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype.itemsize < 4 else x


def _spread(values: Tensor, x: Tensor) -> Tensor:
    """(C,) so that it broadcasts along the channels of ``x``."""
    return values.reshape(1, -1, *(1,) * (x.ndim - 2))


class _Normalized(Function):
    """Normalises by given statistics; the gradient goes through them, into all processes' inputs."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, eps: float,
        count: Tensor, group: Any,
    ) -> Tensor:  # fmt: skip
        scale = (variance + eps).rsqrt()
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.count, ctx.group = count, group
        out = (_wide(x) - _spread(mean, x)) * _spread(scale if weight is None else scale * weight, x)
        return (out if bias is None else out + _spread(bias, x)).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple:  # type: ignore[override]
        import jtorch.distributed as dist

        x, weight, mean, scale = ctx.saved_tensors
        others = [0, *range(2, x.ndim)]
        centred, g = _wide(x) - _spread(mean, x), _wide(g)
        sums = functions.stack([g.sum(others), (g * centred).sum(others)])
        of_weight, of_bias = sums[1] * scale, sums[0].clone()
        of_x = None
        if ctx.needs_input_grad[0]:
            dist.all_reduce(sums, group=ctx.group)
            total, along = sums / ctx.count
            slope = scale if weight is None else scale * weight
            of_x = (g - _spread(total, x) - centred * _spread(along * scale * scale, x)) * _spread(slope, x)
            of_x = of_x.to(x.dtype)
        absent = weight is None
        return of_x, None if absent else of_weight, None if absent else of_bias, *(None,) * 5
