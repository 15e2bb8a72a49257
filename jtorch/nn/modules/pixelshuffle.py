"""``torch.nn.modules.pixelshuffle``: the layers that PyTorch keeps there."""

from jtorch.nn.upsampling import PixelShuffle, PixelUnshuffle

__all__ = ["PixelShuffle", "PixelUnshuffle"]
