"""``torch.nn.modules.flatten``: the layers that PyTorch keeps there."""

from jtorch.nn.shape import Flatten, Unflatten

__all__ = ["Flatten", "Unflatten"]
