"""The older form of spectral normalisation: a pre-forward hook and the parameter ``<name>_orig``.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.spectral_norm.html
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import no_grad, randn
from jtorch.nn import functional as F
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter


class SpectralNorm:
    """The hook that divides the weight by its largest singular value before each call."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def matrix(self, weight: Any) -> Any:
        if self.dim:
            weight = weight.permute(self.dim, *(k for k in range(weight.ndim) if k != self.dim))
        return weight.reshape(weight.shape[0], -1)

    def compute_weight(self, module: Any, iterate: bool) -> Any:
        weight, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        matrix = self.matrix(weight)
        if iterate:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.detach().t() @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.detach() @ v, dim=0, eps=self.eps))
        left, right = u.clone(), v.clone()  # the iteration goes on, the gradient needs these
        return weight / (left * (matrix @ right)).sum()

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value; ``parametrizations.spectral_norm`` is the newer form.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.spectral_norm(jtorch.nn.Linear(3, 2))
    >>> layer.weight_orig.shape, layer.weight_u.shape
    (torch.Size([2, 3]), torch.Size([2]))
    """
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    made = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    rows, columns = made.matrix(weight.detach()).shape
    del module._parameters[name]
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    for part, length in (("_u", rows), ("_v", columns)):
        start = F.normalize(randn(length, dtype=weight.dtype), dim=0, eps=eps)
        module.register_buffer(name + part, start)
    module.register_forward_pre_hook(made)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again. Raises ValueError where it is not normalised.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.spectral_norm(jtorch.nn.Linear(3, 2))
    >>> sorted(name for name, _ in jtorch.nn.utils.remove_spectral_norm(layer).named_parameters())
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            weight = hook.compute_weight(module, iterate=False).detach()
            delattr(module, name)
            for part in ("_u", "_v", "_orig"):
                delattr(module, name + part)
            module.register_parameter(name, Parameter(weight))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
