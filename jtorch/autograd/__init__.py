"""``jtorch.autograd``: gradients by hand, custom ops, checks, and grad modes.

Source: https://docs.pytorch.org/docs/stable/autograd.html
"""

from jtorch.autograd import forward_ad, functional, graph, profiler
from jtorch.autograd.anomaly_mode import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from jtorch.autograd.function import Function, FunctionCtx, once_differentiable
from jtorch.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from jtorch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from jtorch.autograd.gradients import backward, grad
from jtorch.autograd.variable import Variable

__all__ = [
    "Function", "FunctionCtx", "GradcheckError", "Variable", "backward", "detect_anomaly", "enable_grad",
    "forward_ad", "functional", "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode",
    "is_anomaly_enabled", "no_grad", "once_differentiable", "profiler", "set_detect_anomaly",
    "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip
