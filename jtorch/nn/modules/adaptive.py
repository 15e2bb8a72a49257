"""``torch.nn.modules.adaptive``: the layers that PyTorch keeps there."""

from jtorch.nn.adaptive_softmax import AdaptiveLogSoftmaxWithLoss

__all__ = ["AdaptiveLogSoftmaxWithLoss"]
