"""``torch.nn.modules.upsampling``: the layers that PyTorch keeps there."""

from jtorch.nn.upsampling import Upsample, UpsamplingBilinear2d, UpsamplingNearest2d

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]
