"""``torch.nn.modules.normalization``: the layers that PyTorch keeps there."""

from jtorch.nn.normalization import GroupNorm, LayerNorm, LocalResponseNorm, RMSNorm

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]
