"""``torch.nn.modules.linear``: the layers that PyTorch keeps there."""

from jtorch.nn.lazy import LazyLinear
from jtorch.nn.linear import Bilinear, Identity, Linear, NonDynamicallyQuantizableLinear

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear", "NonDynamicallyQuantizableLinear"]
