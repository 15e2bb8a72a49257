"""``torch.nn.modules.fold``: the layers that PyTorch keeps there."""

from jtorch.nn.conv import Fold, Unfold

__all__ = ["Fold", "Unfold"]
