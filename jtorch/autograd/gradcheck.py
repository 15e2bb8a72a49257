"""``jtorch.autograd.gradcheck``: PyTorch's place for the checks of gradients."""

from jtorch.eager.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
