"""``jtorch.autograd``: gradients by hand, custom ops, checks, and grad modes.

Source: https://docs.pytorch.org/docs/stable/autograd.html
"""

from __future__ import annotations

from jtorch.eager.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from jtorch.eager.engine import backward, grad
from jtorch.eager.function import Function, FunctionCtx, once_differentiable
from jtorch.eager.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from jtorch.eager.gradcheck import GradcheckError, gradcheck, gradgradcheck
from jtorch.eager.tensor import Tensor

Variable = Tensor  # the name of early programs

__all__ = [
    "Function", "FunctionCtx", "GradcheckError", "Variable", "backward", "detect_anomaly", "enable_grad",
    "grad",
    "gradcheck", "gradgradcheck", "inference_mode", "is_anomaly_enabled", "no_grad", "once_differentiable",
    "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
