"""``torch.nn.modules.channelshuffle``: the layers that PyTorch keeps there."""

from jtorch.nn.upsampling import ChannelShuffle

__all__ = ["ChannelShuffle"]
