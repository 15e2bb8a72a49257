"""Mixed precision: products in a type of 16 bits, and the scaling of gradients.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from jtorch.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from jtorch.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
