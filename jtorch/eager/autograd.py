"""``jtorch.autograd``: the public face of the engine."""

from jtorch.eager.engine import backward, grad
from jtorch.eager.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["backward", "enable_grad", "grad", "inference_mode", "no_grad", "set_grad_enabled"]
