"""``torch.nn.modules.batchnorm``: the layers that PyTorch keeps there."""

from jtorch.nn.batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm as _BatchNorm
from jtorch.nn.lazy_layers import LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d
from jtorch.nn.sync_batch_norm import SyncBatchNorm

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "SyncBatchNorm",
]  # fmt: skip
