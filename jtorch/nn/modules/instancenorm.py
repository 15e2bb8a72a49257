"""``torch.nn.modules.instancenorm``: the layers that PyTorch keeps there."""

from jtorch.nn.batch_norm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from jtorch.nn.lazy_layers import LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]  # fmt: skip
