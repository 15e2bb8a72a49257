"""``jtorch.autograd.function``: custom ops.

Source: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.Function
"""

from jtorch.eager.function import Function, FunctionCtx, InplaceFunction, once_differentiable

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
